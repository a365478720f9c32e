package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// maxFailures is how often a component may end during the start. Under load, a
// component may give up waiting for another one once or twice.
const maxFailures = 4

// tailLines is the number of lines of a log in an error.
const tailLines = 15

// componentError says that a component ends again and again, or was not ready in
// time.
type componentError struct {
	node, component, reason string
	log                     string // path
	tail                    string
}

func (e *componentError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.node, e.component, e.reason)
}

func (l Lab) componentError(n Node, component, reason string) *componentError {
	log := filepath.Join(l.nodeDir(n), "log", component+".log")
	return &componentError{node: n.Name, component: component, reason: reason, log: log, tail: tail(log, tailLines)}
}

// awaitCluster returns when all nodes of c are ready and pods can be created. It
// also reports the events of the nodes that were just started. started has the
// channels from startNode, by the folders of these nodes.
func (l Lab) awaitCluster(ctx context.Context, c Cluster, started map[string]<-chan struct{}, r *reporter) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range c.Nodes {
		if ended := started[l.nodeDir(n)]; ended != nil {
			group.Go(func() error { return l.followNode(ctx, n, ended, r) })
		}
	}
	waited := errors.New("cluster is ready")
	group.Go(func() error {
		if err := l.awaitAPI(ctx, c, r); err != nil {
			return err
		}
		return waited // this ends followNode
	})
	if err := group.Wait(); !errors.Is(err, waited) {
		return err
	}
	return nil
}

// followNode prints the milestones of a node until ctx is done. It returns an
// error as soon as one of the node's components can't start.
func (l Lab) followNode(ctx context.Context, n Node, ended <-chan struct{}, r *reporter) error {
	failures := map[string]int{}
	read := 0
	for {
		data, err := os.ReadFile(eventFile(l.nodeDir(n)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for line := range bytes.Lines(data[min(read, len(data)):]) {
			var e event
			if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &e) != nil {
				break // the line is incomplete
			}
			read += len(line)
			if e.Reached != "" {
				r.say("%s: %s", n.Name, e.Reached)
				continue
			}
			failures[e.Component]++
			if e.Component == initComponent || failures[e.Component] >= maxFailures {
				return l.componentError(n, e.Component, e.Failure)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return l.componentError(n, initComponent, "the node has died")
		case <-time.After(pollInterval):
		}
	}
}

// awaitAPI gives each node its pod CIDR and waits until the node is ready. It
// also waits for the default ServiceAccount, because without it no pod is
// admitted.
func (l Lab) awaitAPI(ctx context.Context, c Cluster, r *reporter) error {
	first := c.Nodes[0]
	api, err := apiClient(l.adminKubeconfig(c))
	if err != nil {
		return err
	}
	err = poll(ctx, func() (bool, error) { return apiReady(ctx, api), nil })
	if err != nil {
		return l.tooLate(first, "kube-apiserver", "not ready", err)
	}
	r.say("%s: API server is ready", c.Name)
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range c.Nodes {
		group.Go(func() error {
			if err := poll(ctx, func() (bool, error) { return awaitNode(ctx, api, c, n) }); err != nil {
				return l.tooLate(n, "kubelet", "node is not Ready", err)
			}
			r.say("%s: node is Ready", n.Name)
			return nil
		})
	}
	group.Go(func() error {
		err := poll(ctx, func() (bool, error) {
			_, err := api.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
			return err == nil, ignoreNotFound(err)
		})
		if err != nil {
			return l.tooLate(first, "kube-controller-manager", "the default ServiceAccount does not exist", err)
		}
		r.say("%s: pods can be created", c.Name)
		return nil
	})
	return group.Wait()
}

// awaitNode reports whether n is ready. It writes the range that the CNI plugin
// of the node has into the Node, where it can be set only once.
func awaitNode(ctx context.Context, api kubernetes.Interface, c Cluster, n Node) (bool, error) {
	nodes := api.CoreV1().Nodes()
	node, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return false, ignoreNotFound(err)
	}
	cidrs := byFamily(c.IPv6, n.PodCIDR.String(), n.PodCIDR6.String())
	if len(n.Singles) > 0 {
		cidrs = nil // as in a cloud whose network assigns the addresses
	}
	if node.Spec.PodCIDR == "" && cidrs != nil {
		patch := fmt.Sprintf(`{"spec":{"podCIDR":%q,"podCIDRs":["%s"]}}`, cidrs[0], strings.Join(cidrs, `","`))
		node, err = nodes.Patch(ctx, n.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return false, fmt.Errorf("set pod CIDR of node %s: %w", n.Name, err)
		}
	}
	if !slices.Equal(node.Spec.PodCIDRs, cidrs) {
		return false, fmt.Errorf("node %s: pod CIDRs are %v, its CNI plugin uses %v", n.Name, node.Spec.PodCIDRs, cidrs)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue, nil
		}
	}
	return false, nil
}

// markDown records that a node does not run, before it is started. Otherwise the
// API server would report the node as ready for 40 s after its end.
func (l Lab) markDown(ctx context.Context, c Cluster, n Node) error {
	api, err := apiClient(l.adminKubeconfig(c))
	if err != nil {
		return err
	}
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeDied"}]}}`)
	err = poll(ctx, func() (bool, error) {
		_, err := api.CoreV1().Nodes().PatchStatus(ctx, n.Name, patch)
		return err == nil || apierrors.IsNotFound(err), err
	})
	if err != nil {
		return l.tooLate(c.Nodes[0], "kube-apiserver", "no answer", err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// tooLate names a component as the cause if err is the deadline, because then
// nothing else is known.
func (l Lab) tooLate(n Node, component, what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return l.componentError(n, component, what+" in time")
	}
	return err
}

// poll returns when done returns true. Errors of done don't count until ctx ends,
// because a starting cluster returns errors of all kinds.
func poll(ctx context.Context, done func() (bool, error)) error {
	var last error
	for {
		ok, err := done()
		if ok {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("%w: %w", ctx.Err(), last)
			}
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// tail returns the last lines of a file, or the reason that it can't be read.
func tail(path string, count int) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20) // etcd's JSON lines are long
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
		if len(lines) > count {
			lines = lines[1:]
		}
	}
	return strings.Join(lines, "\n")
}
