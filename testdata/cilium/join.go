package main

import (
	"context"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/cilium/cilium/api/v1/models"
	"github.com/cilium/cilium/pkg/client"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// namespace is the namespace in which Helm installs Cilium.
const namespace = metav1.NamespaceSystem

// sources is the folder in which the agent expects the C sources, and writes.
const sources = "/var/lib/cilium/bpf"

// prepare makes the changes that Cilium's agent finds on a node of kubeadm.
func (n member) prepare(ctx context.Context) error {
	// kubeadm requires this. On other nodes kube-proxy, felix or a plugin sets it.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(sources); err != nil {
		return err
	}
	if err := os.CopyFS(sources, os.DirFS(n.setup.Sources)); err != nil {
		return err
	}
	api, err := n.api()
	if err != nil {
		return err
	}
	for { // the deadline is that of `lab up`
		_, err := api.CoreV1().Nodes().Get(ctx, n.node, metav1.GetOptions{})
		if err == nil {
			return nil
		}
		time.Sleep(pollInterval)
	}
}

const pollInterval = 50 * time.Millisecond

// publish creates the ConfigMap of an installation, because other programs read
// Cilium's settings there.
func (n member) publish(ctx context.Context) error {
	api, err := n.api()
	if err != nil {
		return err
	}
	_, err = api.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cilium-config"}, Data: n.setup.Settings,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (n member) api() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", n.kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// admit lets pods start when the agent is healthy and the programs for the node itself
// are loaded. The agent alone would write the CNI configuration earlier, and the node
// would be Ready before others reach its addresses.
func (n member) admit() error {
	for !healthy() || !loaded() {
		time.Sleep(pollInterval)
	}
	return os.WriteFile(n.setup.Config, n.setup.CNI, 0o644)
}

// healthy asks the agent at the default address of its setting agent-health-port.
func healthy() bool {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:9879/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// loaded reports whether the endpoint for the node itself is ready.
func loaded() bool {
	c, err := client.NewDefaultClient()
	if err != nil {
		return false
	}
	endpoints, err := c.EndpointList()
	return err == nil && slices.ContainsFunc(endpoints, func(e *models.Endpoint) bool {
		s := e.Status
		return s != nil && s.Identity != nil && s.State != nil && *s.State == models.EndpointStateReady &&
			slices.Contains(s.Identity.Labels, "reserved:host")
	})
}
