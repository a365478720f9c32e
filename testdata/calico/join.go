package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	"github.com/projectcalico/calico/libcalico-go/lib/clientv3"
	calicoerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	"github.com/projectcalico/calico/libcalico-go/lib/ipam"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// setup is the lab's description of a node and of its cluster's network.
type setup struct {
	Address string   `json:"address"` // the node's address, with the length of its network
	Pools   []string `json:"pools"`
	Pool    int      `json:"pool"` // index of the pool from which the node's pods get addresses
	CRDs    string   `json:"crds"` // folder of Calico's CRDs
	// CNI is written to the file Config when Felix is ready, because pods wait
	// for this file.
	CNI    json.RawMessage `json:"cni"`
	Config string          `json:"config"`
}

// poolLabel is the label of a Node that names its pool.
const poolLabel = "lab.local/pool"

// member is a node that joins the network.
type member struct {
	name, kubeconfig string
	setup            setup
}

// join creates the CRDs and the pools, which any node may create first, and then
// the objects of this node. It can be repeated.
func (n member) join(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", n.kubeconfig)
	if err != nil {
		return err
	}
	if err := n.define(ctx, config); err != nil {
		return fmt.Errorf("definitions: %w", err)
	}
	settings := apiconfig.NewCalicoAPIConfig()
	settings.Spec.DatastoreType = apiconfig.Kubernetes
	settings.Spec.Kubeconfig = n.kubeconfig
	calico, err := clientv3.New(*settings)
	if err != nil {
		return err
	}
	if err := calico.EnsureInitialized(ctx, version, "lab"); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	for i, cidr := range n.setup.Pools {
		pool := apiv3.NewIPPool()
		pool.Name = fmt.Sprintf("pool-%d", i+1)
		pool.Spec = apiv3.IPPoolSpec{
			CIDR: cidr, VXLANMode: apiv3.VXLANModeAlways, NATOutgoing: true, BlockSize: 26,
			NodeSelector: fmt.Sprintf("%s == '%d'", poolLabel, i),
		}
		_, err := calico.IPPools().Create(ctx, pool, options.SetOptions{})
		if exists := (calicoerrors.ErrorResourceAlreadyExists{}); err != nil && !errors.As(err, &exists) {
			return fmt.Errorf("pool %s: %w", cidr, err)
		}
	}
	metadata := map[string]any{
		"labels":      map[string]string{poolLabel: strconv.Itoa(n.setup.Pool)},
		"annotations": map[string]string{"projectcalico.org/IPv4Address": n.setup.Address},
	}
	if err := n.patch(ctx, config, metadata); err != nil {
		return err
	}
	tunnel, err := n.tunnel(ctx, calico.IPAM())
	if err != nil {
		return fmt.Errorf("address of the VXLAN device: %w", err)
	}
	metadata = map[string]any{"annotations": map[string]string{"projectcalico.org/IPv4VXLANTunnelAddr": tunnel}}
	return n.patch(ctx, config, metadata)
}

// admit lets pods start when Felix reports that its routes and rules are in
// place. Otherwise a node whose Felix fails again and again would be Ready,
// although its pods reach nothing.
func (n member) admit() error {
	for !felixReady() {
		time.Sleep(50 * time.Millisecond)
	}
	return os.WriteFile(n.setup.Config, n.setup.CNI, 0o644)
}

// felixReady asks Felix at the default address of its setting HealthPort.
func felixReady() bool {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost:9099/readiness", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode < http.StatusMultipleChoices
}

func (n member) define(ctx context.Context, config *rest.Config) error {
	client, err := definitions.NewForConfig(config)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(n.setup.CRDs)
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(n.setup.CRDs + "/" + file.Name())
		if err != nil {
			return err
		}
		var crd apiextensions.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &crd); err != nil {
			return fmt.Errorf("read %s: %w", file.Name(), err)
		}
		_, err = client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &crd, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// tunnel returns the address of the node's VXLAN device. The address must be in a
// block of the node, because strict reverse path filters of other nodes would
// drop packets from any other address.
func (n member) tunnel(ctx context.Context, addresses ipam.Interface) (string, error) {
	handle := "vxlan-tunnel-addr-" + n.name
	if had, err := addresses.IPsByHandle(ctx, handle); err == nil && len(had) > 0 {
		return had[0].String(), nil
	}
	given, _, err := addresses.AutoAssign(ctx, ipam.AutoAssignArgs{
		Num4: 1, HandleID: &handle, Hostname: n.name, IntendedUse: apiv3.IPPoolAllowedUseTunnel,
		Attrs: map[string]string{ipam.AttributeNode: n.name, ipam.AttributeType: ipam.AttributeTypeVXLAN},
	})
	if err != nil {
		return "", err
	}
	if given == nil || len(given.IPs) == 0 {
		return "", errors.New("no address left")
	}
	return given.IPs[0].IP.String(), nil
}

func (n member) patch(ctx context.Context, config *rest.Config, metadata map[string]any) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
