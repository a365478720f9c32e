package kube

import (
	"context"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// addKeys finds the gateways' own public keys. Our operator writes them into an annotation of the gateway.
// For Liqo's gateways, this program reads the Secret, and keeps only the public key.
func (c *Cluster) addKeys(ctx context.Context, f *flows.ClusterFacts) error {
	f.Keys = map[string]wgtypes.Key{}
	if f.Problem != nil {
		return ctx.Err() // otherwise each gateway would cost a wait for a cluster that does not answer
	}
	for i := range f.Servers {
		c.addKey(ctx, f, &f.Servers[i], f.Servers[i].Status.SecretRef)
	}
	for i := range f.Clients {
		c.addKey(ctx, f, &f.Clients[i], f.Clients[i].Status.SecretRef)
	}
	return ctx.Err()
}

func (c *Cluster) addKey(ctx context.Context, f *flows.ClusterFacts, gateway client.Object, ref *corev1.ObjectReference) {
	var raw []byte
	if text, ok := gateway.GetAnnotations()[wire.AnnotationPublicKey]; ok {
		raw, _ = base64.StdEncoding.DecodeString(text) // a wrong text gives no key of the right length
	} else if ref != nil && !f.Can().PublishKey {
		raw = c.secretKeys.of(ctx, c.client, gateway, ref.Name, tunnelWorks(f, gateway))
	}
	if key, err := wgtypes.NewKey(raw); err == nil {
		f.Keys[gateway.GetNamespace()+"/"+gateway.GetName()] = key
	}
}

// tunnelWorks reports whether a gateway's tunnel works. This proves that the known key is right.
func tunnelWorks(f *flows.ClusterFacts, gateway client.Object) bool {
	return slices.ContainsFunc(f.Connections, func(c networkingv1beta1.Connection) bool {
		return c.Status.Value == networkingv1beta1.Connected && c.Namespace == gateway.GetNamespace() &&
			c.Labels[wire.LabelRemoteCluster] == gateway.GetLabels()[wire.LabelRemoteCluster]
	})
}

// secretKeys are the public keys that were read from Secrets. A Secret is read again when its gateway has
// changed, or after a while, because a key can be replaced without a change of the gateway. This time is
// longer while the tunnel works, because the key is right then, and hubs have hundreds of gateways.
type secretKeys struct {
	mu   sync.Mutex
	read map[types.NamespacedName]secretKey
}

type secretKey struct {
	gateway types.UID
	version string // of the gateway
	at      time.Time
	key     []byte // nil if there was none, or if the user may not read it
}

const (
	secretAgain = 5 * time.Second
	secretRests = 5 * time.Minute // while the tunnel works
)

func (k *secretKeys) of(ctx context.Context, c client.Client, gateway client.Object, secret string, connected bool) []byte {
	name := types.NamespacedName{Namespace: gateway.GetNamespace(), Name: secret}
	k.mu.Lock()
	last := k.read[name]
	k.mu.Unlock()
	again := secretAgain
	if connected && last.key != nil {
		again = secretRests
	}
	if last.gateway == gateway.GetUID() && last.version == gateway.GetResourceVersion() && time.Since(last.at) < again {
		return last.key
	}
	next := secretKey{gateway: gateway.GetUID(), version: gateway.GetResourceVersion(), at: time.Now()}
	var s corev1.Secret
	if err := c.Get(ctx, name, &s); err == nil {
		next.key = s.Data[wire.SecretPublicKey]
	} // an error counts as a missing key, which the step that needs the key reports
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read == nil {
		k.read = map[types.NamespacedName]secretKey{}
	}
	k.read[name] = next
	return next.key
}
