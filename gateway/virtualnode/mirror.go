package virtualnode

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/virtualnode/decide"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// mirror creates a ShadowPod for each pod that is bound to the virtual node, and copies the status of the
// remote pod back. [decide.View.Decide] makes the decisions. mirror keeps nothing that a restarted process
// needs: that process compares all pods again.
type mirror struct {
	Options

	config *rest.Config
	client client.Client // for this cluster
	queue  workqueue.TypedRateLimitingInterface[client.ObjectKey]
	group  sync.WaitGroup // goroutines that watch, or queue pods
	seen   seen

	mu     sync.Mutex
	known  known
	spaces map[string]*space
	unsent map[client.ObjectKey]unsent // by pod: its last Event about unsent changes
	ended  bool
}

// unsent is the last Event on a pod about changes of the pod that this program does not send to the provider.
type unsent struct {
	of  types.UID // the pod's UID
	why string    // the Event's message
}

const (
	mirrors = 10 // the number of workers, which spend most of their time on waiting for an API server
	// firstRetry is the pause after the first failure with a pod. The pause doubles with each further failure, up
	// to lastRetry.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
	// goneAgain is the time after which mirror looks at a pod again if its remote pod has not ended yet. The end
	// also causes an event, but the event can come before mirror waits for it.
	goneAgain = time.Second
	// writeWithin limits the time of all requests for one pod.
	writeWithin = 15 * time.Second
)

func newMirror(o Options, config *rest.Config, c client.Client) *mirror {
	return &mirror{
		Options: o, config: config, client: c, spaces: map[string]*space{}, unsent: map[client.ObjectKey]unsent{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[client.ObjectKey](firstRetry, lastRetry)),
	}
}

func (m *mirror) run(ctx context.Context) error {
	var workers sync.WaitGroup
	for range mirrors {
		workers.Go(func() {
			for {
				key, end := m.queue.Get()
				if end {
					return
				}
				switch again, err := m.handle(ctx, key); {
				case err != nil:
					if !apierrors.IsConflict(err) && ctx.Err() == nil { // after a conflict, the next attempt has a newer cache
						m.Log.Error("handle a pod", "of", key.String(), "error", err)
					}
					m.queue.AddRateLimited(key)
				case again:
					m.queue.AddAfter(key, goneAgain)
				default:
					m.queue.Forget(key)
				}
				m.queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	m.queue.ShutDown()
	workers.Wait()
	m.mu.Lock()
	m.ended = true
	for _, s := range m.spaces {
		s.end()
	}
	m.mu.Unlock()
	m.group.Wait()
	return nil
}

// handle handles the pod with this key. If the key has no name, handle copies the objects that the pods of the
// namespace need. again means that the caller has to call handle once more after goneAgain.
func (m *mirror) handle(ctx context.Context, key client.ObjectKey) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	if key.Name == "" {
		return false, m.reflect(ctx, key.Namespace)
	}
	return m.look(ctx, key)
}

func (s *space) end() {
	for _, w := range []*side{s.here, s.there} {
		if w != nil {
			w.end()
		}
	}
}

// follow starts the watches of each namespace in k, and ends the watches of all other namespaces. If other facts
// have changed that decisions about a namespace's pods need, follow queues all pods of the namespace.
func (m *mirror) follow(ctx context.Context, k known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	was := m.known
	m.known = k
	for name, s := range m.spaces {
		if _, wanted := k.mapped[name]; !wanted {
			s.end()
			delete(m.spaces, name)
		}
	}
	changed := was.tunnel.There != k.tunnel.There || (was.tunnel.Down == "") != (k.tunnel.Down == "") || !slices.Equal(was.ranges, k.ranges) || !maps.Equal(was.withdrawn, k.withdrawn)
	for name, mapped := range k.mapped {
		s, err := m.space(ctx, name, mapped, k.reach, was.reach)
		if err != nil {
			m.Log.Error("can't watch the pods", "namespace", name, "error", err)
			continue
		}
		if s != m.spaces[name] || changed || was.going[name] != k.going[name] || was.unsaid[name] != k.unsaid[name] {
			m.spaces[name] = s
			m.group.Go(func() { m.again(ctx, name) })
		}
	}
}

// space returns a namespace with the watches that it needs now. It returns the value in m.spaces if that value
// has the right watches, else a new one.
func (m *mirror) space(ctx context.Context, name, mapped string, reach, was *provider) (*space, error) {
	old := m.spaces[name]
	if old == nil {
		here, err := m.watchHere(ctx, name)
		if err != nil {
			return nil, err
		}
		old = &space{name: name, here: here}
	} else if old.mapped == mapped && reach == was && (old.there != nil) == (reach != nil && mapped != "") {
		return old, nil
	}
	if old.there != nil {
		old.there.end()
	}
	s := &space{name: name, mapped: mapped, here: old.here, said: map[thing]refusal{}}
	if reach == nil || mapped == "" {
		return s, nil
	}
	s.reach = reach
	var err error
	if s.direct, err = client.New(reach.config, client.Options{HTTPClient: reach.http, Scheme: m.client.Scheme(), Mapper: m.client.RESTMapper()}); err != nil {
		return nil, err
	}
	if s.there, err = m.watchThere(ctx, name, mapped, reach); err != nil {
		return nil, err
	}
	return s, nil
}

// again queues all pods of a namespace, and all ShadowPods that the provider has for this namespace.
func (m *mirror) again(ctx context.Context, name string) {
	m.mu.Lock()
	s := m.spaces[name]
	m.mu.Unlock()
	m.queue.Add(client.ObjectKey{Namespace: name})
	if s == nil || !s.here.synced(ctx, &corev1.Pod{}) {
		return // when the first list is complete, another call queues the pods
	}
	var pods corev1.PodList
	if err := s.here.cache.List(ctx, &pods); err != nil {
		m.Log.Error("list the pods", "namespace", name, "error", err)
	}
	for i := range pods.Items {
		m.queue.Add(client.ObjectKey{Namespace: name, Name: pods.Items[i].Name})
	}
	if s.there == nil || !s.there.synced(ctx, &corev1.Pod{}, &offloadingv1beta1.ShadowPod{}) {
		return
	}
	var shadows offloadingv1beta1.ShadowPodList
	if err := s.there.cache.List(ctx, &shadows); err != nil {
		m.Log.Error("list the ShadowPods", "namespace", s.mapped, "error", err)
	}
	for i := range shadows.Items {
		m.queue.Add(client.ObjectKey{Namespace: name, Name: shadows.Items[i].Name})
	}
}

// view returns a namespace, and the facts by which pods of the namespace are decided; nil if the virtual node
// does not handle the namespace.
func (m *mirror) view(name string) (*space, decide.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, k := m.spaces[name], m.known
	if s == nil {
		return nil, decide.View{}
	}
	return s, decide.View{
		Consumer: m.Consumer, Provider: m.Provider, Node: m.Name, Mapped: s.mapped, Going: k.going[name], Unsaid: k.unsaid[name],
		Connected: k.tunnel.There, Down: k.tunnel.Down, Ranges: k.ranges,
	}
}

// look compares a pod with its ShadowPod and remote pod, and acts on the difference. If again is true, the
// caller calls look once more after goneAgain.
func (m *mirror) look(ctx context.Context, key client.ObjectKey) (again bool, err error) {
	s, v := m.view(key.Namespace)
	if s == nil || !s.here.synced(ctx, &corev1.Pod{}) {
		return false, nil // when the first list is complete, an event queues the pod
	}
	pod, err := s.here.pod(ctx, key.Namespace, key.Name)
	if err != nil {
		return false, err
	}
	var shadow *decide.Shadow
	var copied *corev1.Pod
	if v.Known = s.there != nil && s.there.synced(ctx, &corev1.Pod{}, &offloadingv1beta1.ShadowPod{}); v.Known {
		if shadow, err = s.there.shadow(ctx, s.mapped, key.Name); err != nil {
			return false, err
		}
		if copied, err = s.there.pod(ctx, s.mapped, key.Name); err != nil {
			return false, err
		}
	}
	if shadow != nil {
		shadow.Gone = m.gone(shadow)
	}
	a := v.Decide(pod, shadow, copied, time.Now())
	if a.Withdraw != "" {
		if err := s.withdraw(ctx, key.Name, a.Withdraw); err != nil {
			return false, err
		}
	}
	if a.Adopt != "" {
		if err := s.adopt(ctx, v, pod, a.Adopt); err != nil {
			return false, err
		}
	}
	if a.Ask {
		if refused := s.direct.Create(ctx, decide.ShadowPod(pod, v), client.FieldOwner(writer)); refused != nil {
			return false, m.notAsked(ctx, s, v, pod, refused)
		}
	}
	if a.Status != nil {
		if err := m.report(ctx, pod, *a.Status); err != nil {
			return false, err
		}
	}
	if a.Labels != nil {
		refused, err := s.relabel(ctx, key.Name, shadow, a.Labels)
		if err != nil {
			return false, err
		}
		a.Unsent = cmp.Or(refused, a.Unsent)
	}
	m.tell(ctx, key, pod, a.Unsent)
	if !a.Forget {
		return false, nil
	}
	if s.mapped != "" {
		if gone, err := s.gone(ctx, pod, m.Name); err != nil || !gone {
			return true, err
		}
	}
	return false, m.forget(ctx, pod)
}

// notAsked writes the provider's refusal of a ShadowPod into the pod's status. It returns an error, after which
// the queue repeats the request.
func (m *mirror) notAsked(ctx context.Context, s *space, v decide.View, pod *corev1.Pod, refused error) error {
	why := ""
	switch {
	case apierrors.IsAlreadyExists(refused):
		o := &offloadingv1beta1.ShadowPod{}
		if err := s.direct.Get(ctx, client.ObjectKey{Namespace: s.mapped, Name: pod.Name}, o); err != nil {
			return client.IgnoreNotFound(err)
		}
		if decide.ShadowOf(o).Of == pod.UID {
			return nil // the ShadowPod is this pod's, and only the cache does not have it yet
		}
		why = fmt.Sprintf("namespace %s has a ShadowPod %s that is not this pod's", s.mapped, pod.Name)
	case apierrors.IsForbidden(refused) || apierrors.IsInvalid(refused) || apierrors.IsNotFound(refused) || apierrors.IsRequestEntityTooLargeError(refused):
		why = refused.Error()
	}
	if why != "" {
		if a := v.Refused(pod, why, time.Now()); a.Status != nil {
			if err := m.report(ctx, pod, *a.Status); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("ask %s to run it: %w", m.Provider, refused)
}

// report writes the status of a pod. If another program has changed the pod after it was read, the error is a
// conflict.
func (m *mirror) report(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	now := pod.DeepCopy()
	now.Status = status
	metav1.SetMetaDataLabel(&now.ObjectMeta, peering.LabelOffloadedPod, "true") // Liqo's programs look for this label
	err := m.client.Status().Patch(ctx, now, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}), client.FieldOwner(writer))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if status.Message != "" && status.Message != pod.Status.Message && slices.Contains([]string{peering.ReasonUnfit, peering.ReasonRefused, peering.ReasonNotOffloaded}, status.Reason) {
		m.record(ctx, referenceTo(pod), status.Reason, status.Message)
	}
	return nil
}

// tell records an Event on a pod about changes that are not sent to the provider. It does so only if the reason
// why is not the same as in the last such Event.
func (m *mirror) tell(ctx context.Context, key client.ObjectKey, pod *corev1.Pod, why string) {
	m.mu.Lock()
	was := m.unsent[key]
	if pod == nil {
		delete(m.unsent, key)
	}
	m.mu.Unlock()
	if why == "" || was == (unsent{pod.UID, why}) || !m.record(ctx, referenceTo(pod), peering.ReasonUnsent, why) {
		return
	}
	m.mu.Lock()
	m.unsent[key] = unsent{pod.UID, why}
	m.mu.Unlock()
}

func referenceTo(pod *corev1.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// record records an Event on an object, and reports whether it could. If it could not, the message is not lost:
// the caller tries again later, or a status contains the same message.
func (m *mirror) record(ctx context.Context, of corev1.ObjectReference, reason, message string) bool {
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: fmt.Sprintf("%s.%x", of.Name, now.UnixNano())}, InvolvedObject: of,
		Reason: reason, Message: message[:min(len(message), maxMessage)], Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: writer, Host: m.Name},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	err := m.client.Create(ctx, e, client.FieldOwner(writer))
	if err != nil && ctx.Err() == nil {
		m.Log.Error("record an event", "of", of.Namespace+"/"+of.Name, "error", err)
	}
	return err == nil
}

const maxMessage = 1024 // the largest length of an Event's message that API servers accept, in bytes

// forget removes a pod from the API after its remote pod has ended, as kubelets do for their own pods.
func (m *mirror) forget(ctx context.Context, pod *corev1.Pod) error {
	err := m.client.Delete(ctx, pod, client.GracePeriodSeconds(0), preconditions(pod.UID))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// preconditions restricts a deletion to the object with this UID.
func preconditions(uid types.UID) client.Preconditions { return client.Preconditions{UID: &uid} }
