package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// kubelet does what the node of a control plane without nodes would do: it runs
// pods, or says so; and as long as tunnels is not off, it says of a gateway what
// the gateway would, once both ends have each other's keys.
type kubelet struct {
	client  client.WithWatch
	peer    *kubelet
	node    string
	address string
	news    chan struct{} // something has changed, on either cluster

	mu           sync.Mutex
	silent       bool   // gateways claim nothing
	closed       bool   // a firewall lets no UDP in from the other cluster
	unpullable   string // an image that can't be pulled
	loadBalancer string // address that Services of that type get, "" for none
}

const (
	// kubeletInterval is how often it looks although nothing has changed: reports age.
	kubeletInterval = time.Second
	// kubeletPause is between two looks: what it does must not be what a script
	// waits for.
	kubeletPause = 20 * time.Millisecond
)

func (k *kubelet) set(change func(*kubelet)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
	k.wake()
}

// wake has it look at once.
func (k *kubelet) wake() {
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// watch wakes both clusters' kubelets when an object of a kind changes.
func (k *kubelet) watch(ctx context.Context, kind client.ObjectList) {
	for ; ctx.Err() == nil; time.Sleep(kubeletPause) {
		events, err := k.client.Watch(ctx, kind)
		if err != nil {
			continue // until then, it looks from time to time
		}
		for range events.ResultChan() {
			k.wake()
			k.peer.wake()
		}
	}
}

func (k *kubelet) join(ctx context.Context) error {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.node},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"}},
	}
	if err := k.client.Create(ctx, n); err != nil {
		return err
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: k.address}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return k.client.Status().Update(ctx, n)
}

// run repeats until ctx ends. Errors are of requests that others' changes, or
// an API server that goes away, got in the way of: the next round tries again.
func (k *kubelet) run(ctx context.Context) {
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, kind := range []client.ObjectList{
		&corev1.PodList{}, &appsv1.DaemonSetList{}, &corev1.ServiceList{}, &networkingv1beta1.ConnectionList{}, &networkingv1beta1.PublicKeyList{},
	} {
		watches.Go(func() { k.watch(ctx, kind) })
	}
	ticker := time.NewTicker(kubeletInterval)
	defer ticker.Stop()
	for ; ctx.Err() == nil; time.Sleep(kubeletPause) {
		select {
		case <-ctx.Done():
		case <-k.news:
		case <-ticker.C:
		}
		_ = cmp.Or(k.runPods(ctx), k.runDaemons(ctx), k.balance(ctx), k.report(ctx))
	}
}

func (k *kubelet) runPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := k.client.List(ctx, &pods); err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		var err error
		switch probe := p.Labels[wire.LabelAppName] == render.ProbeName; {
		case probe && p.Labels[wire.LabelRemoteCluster] != "" && p.DeletionTimestamp == nil:
			continue // there is no connection that it could measure
		case p.DeletionTimestamp != nil:
			err = k.client.Delete(ctx, p, client.GracePeriodSeconds(0))
		case p.Spec.NodeName == "":
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: k.node}}
			err = k.client.SubResource("binding").Create(ctx, p, binding)
		case len(p.Status.ContainerStatuses) > 0: // a probe that has ended, or can't begin
		case probe && k.runProbe(p):
			err = k.client.Status().Update(ctx, p)
		case p.Status.Phase != corev1.PodRunning:
			p.Status.Phase, p.Status.PodIP, p.Status.HostIP = corev1.PodRunning, fmt.Sprintf("10.244.0.%d", 10+i), k.address
			p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
			p.Status.StartTime = new(metav1.Now())
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			err = k.client.Status().Update(ctx, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runProbe says what became of a pod that tries an image or ways, if that is news:
// everything goes well, unless the script says otherwise.
func (k *kubelet) runProbe(p *corev1.Pod) (news bool) {
	closed := func(k *kubelet) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.closed
	}
	k.mu.Lock()
	unpullable := k.unpullable
	k.mu.Unlock()
	say := func(state corev1.ContainerState) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: render.ProbeContainer, State: state}}
	}
	if p.Spec.Containers[0].Image == unpullable {
		p.Status.Phase = corev1.PodPending
		say(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: unpullable + ": not found"}})
		return true
	}
	var target render.ProbeTarget
	if err := json.Unmarshal([]byte(p.Annotations[render.AnnotationProbeTarget]), &target); err != nil || target.Ways == nil {
		return false
	}
	r := &render.ProbeWaysResult{API: 401}
	for _, address := range target.Ways.Addresses {
		d := render.ProbeDial{Address: address, Sent: 10}
		if !closed(k.peer) {
			d.Received, d.AvgMicros, d.LargestPacket = 10, 400, 1500
		}
		r.Dials = append(r.Dials, d)
	}
	if !closed(k) {
		r.Arrived, r.From = 10, []string{k.peer.address}
	}
	text, err := json.Marshal(render.ProbeResult{Ways: r})
	if err != nil {
		return false
	}
	p.Status.Phase = corev1.PodSucceeded
	say(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(text)}})
	return true
}

// runDaemons says of every DaemonSet that it runs: its pods' only purpose here
// would be to be counted.
func (k *kubelet) runDaemons(ctx context.Context) error {
	var all appsv1.DaemonSetList
	if err := k.client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		d := &all.Items[i]
		want := appsv1.DaemonSetStatus{
			ObservedGeneration: d.Generation, DesiredNumberScheduled: 1, CurrentNumberScheduled: 1,
			UpdatedNumberScheduled: 1, NumberReady: 1, NumberAvailable: 1,
		}
		if d.Status.NumberReady == 1 && d.Status.ObservedGeneration == d.Generation {
			continue
		}
		d.Status = want
		if err := k.client.Status().Update(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubelet) balance(ctx context.Context) error {
	k.mu.Lock()
	address := k.loadBalancer
	k.mu.Unlock()
	if address == "" {
		return nil
	}
	var all corev1.ServiceList
	if err := k.client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		s := &all.Items[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
			continue
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		if err := k.client.Status().Update(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubelet) report(ctx context.Context) error {
	k.mu.Lock()
	silent := k.silent
	k.mu.Unlock()
	if silent {
		return nil
	}
	var all networkingv1beta1.ConnectionList
	if err := k.client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		c := &all.Items[i]
		old, ok, err := wire.ParseReport(c.Annotations)
		if err != nil {
			return err
		}
		value, r := k.reportOf(ctx, c)
		if ok && value == c.Status.Value && r.NextKey == old.NextKey && slices.Equal(r.Also, old.Also) && time.Since(old.At) < 5*time.Second {
			continue
		}
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		before := c.DeepCopy()
		c.Annotations = map[string]string{wire.AnnotationStatus: string(text)}
		if err := k.client.Patch(ctx, c, client.MergeFrom(before)); err != nil {
			return err
		}
		before = c.DeepCopy()
		c.Status.Value = value
		c.Status.Latency = networkingv1beta1.ConnectionLatency{Value: wire.FormatLatency(time.Duration(r.LatencyMicros) * time.Microsecond), Timestamp: metav1.Now()}
		if err := k.client.Status().Patch(ctx, c, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// reportOf is what the gateway would find: whether each end has the other's key,
// and a pod.
func (k *kubelet) reportOf(ctx context.Context, c *networkingv1beta1.Connection) (networkingv1beta1.ConnectionStatusValue, wire.Report) {
	r := wire.Report{At: time.Now(), Interval: 10, Reason: wire.ReasonNoKey, Message: "the peer's public key is not known yet", MTU: wire.DefaultMTU}
	if !ready(ctx, k.client, c.Namespace) {
		return networkingv1beta1.Connecting, r
	}
	// The other end is in whichever namespace of the other cluster has a
	// Connection: there are two clusters.
	var others networkingv1beta1.ConnectionList
	if err := k.peer.client.List(ctx, &others); err != nil || len(others.Items) != 1 || !ready(ctx, k.peer.client, others.Items[0].Namespace) {
		r.Reason, r.Message = wire.ReasonNoHandshake, "the peer does not answer yet"
		return networkingv1beta1.Connecting, r
	}
	r.Reason, r.Message, r.LatencyMicros = wire.ReasonPinged, "the peer's gateway answers pings through the tunnel", 420
	r.NextKey, r.Also = k.nextKey(ctx, c.Namespace), k.also(ctx, c.Namespace)
	r.Handshake, r.Implementation, r.ReceivedBytes, r.SentBytes = new(time.Now()), "kernel", 1840, 1920
	return networkingv1beta1.Connected, r
}

// nextKey is the key that the gateway was told the peer will use next.
func (k *kubelet) nextKey(ctx context.Context, namespace string) string {
	var keys networkingv1beta1.PublicKeyList
	if err := k.client.List(ctx, &keys, client.InNamespace(namespace)); err != nil || len(keys.Items) == 0 {
		return ""
	}
	return keys.Items[0].Annotations[wire.AnnotationNextPublicKey]
}

// also are the ranges that the gateway was told the peer has besides.
func (k *kubelet) also(ctx context.Context, namespace string) (seen []netip.Prefix) {
	var all networkingv1beta1.ConfigurationList
	if err := k.client.List(ctx, &all, client.InNamespace(namespace)); err != nil || len(all.Items) == 0 {
		return nil
	}
	told, _ := wire.ParseAliases(&all.Items[0]) // what can't be read is asked for again
	for _, a := range told {
		seen = append(seen, a.Seen)
	}
	return seen
}

func ready(ctx context.Context, c client.Client, namespace string) bool {
	var keys networkingv1beta1.PublicKeyList
	var pods corev1.PodList
	if err := c.List(ctx, &keys, client.InNamespace(namespace)); err != nil || len(keys.Items) == 0 {
		return false
	}
	err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{wire.LabelComponent: "gateway"})
	return err == nil && len(pods.Items) > 0 && pods.Items[0].Status.Phase == corev1.PodRunning
}
