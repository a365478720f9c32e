package consumer

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/remote"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// lookWithin is the longest time to wait for an answer of a provider's API server.
const lookWithin = 5 * time.Second

// Providers sends requests to the API servers of providers, and renews the certificates for them.
type Providers struct {
	client client.Client
	reader client.Reader // not cached
	keys   *keys
	home   string // namespace of the operator
}

// NewProviders returns the providers of a cluster whose operator is in namespace home. wrap is for tests.
func NewProviders(c client.Client, reader client.Reader, home string, wrap transport.WrapperFunc) (*Providers, error) {
	clients, err := newClients(wrap)
	if err != nil {
		return nil, err
	}
	return &Providers{client: c, reader: reader, keys: &keys{client: c, home: home, providers: clients}, home: home}, nil
}

// Forget ends the connections to the provider of an Identity.
func (p *Providers) Forget(identity client.ObjectKey) { p.keys.providers.Forget(identity) }

// Ask sends a request to a provider's API server. An answer also proves that this cluster's certificate and
// rights are valid. Ask renews the certificate when it is time, or when the provider has another
// certificate authority.
func (p *Providers) Ask(ctx context.Context, i *authv1beta1.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	provider, err := p.keys.reach(ctx, i)
	if err != nil {
		return err
	}
	var list authv1beta1.RenewList
	err = provider.API.List(ctx, &list, client.InNamespace(*i.Spec.Namespace), client.Limit(1))
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		err = peering.NoAnswer(i.Spec.AuthParams.APIServer, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", i.Spec.ClusterID, err)
	}
	c, err := peering.Certificate(i.Spec.AuthParams.SignedCRT)
	if err != nil {
		return err
	}
	another, err := p.another(ctx, i, c)
	if err != nil || !another && time.Now().Before(peering.RenewAt(c.NotBefore, c.NotAfter)) {
		return err
	}
	return p.renew(ctx, provider, i)
}

func access(i *authv1beta1.Identity, private []byte) (remote.Access, error) {
	p := i.Spec.AuthParams
	if i.Spec.Namespace == nil || *i.Spec.Namespace == "" {
		return remote.Access{}, errors.New("the Identity does not name the tenant namespace on the provider")
	}
	a := remote.Access{Server: p.APIServer, CA: p.CA, Certificate: p.SignedCRT, Key: private}
	if p.ProxyURL != nil {
		a.Proxy = *p.ProxyURL
	}
	return a, nil
}

// newClients returns the clients of providers. They wait at most lookWithin for an answer.
func newClients(wrap transport.WrapperFunc) (*remote.Clients, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(authv1beta1.AddToScheme(scheme), offloadingv1beta1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// The mapper is fixed, because discovery would cost two more requests to the provider.
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{authv1beta1.RenewKind, authv1beta1.ResourceSliceKind} {
		mapper.Add(authv1beta1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMap"), meta.RESTScopeNamespace)
	return &remote.Clients{Scheme: scheme, Mapper: mapper, Within: lookWithin, Wrap: wrap}, nil
}

func (k *keys) reach(ctx context.Context, i *authv1beta1.Identity) (*remote.Cluster, error) {
	private, err := k.private(ctx)
	if err != nil {
		return nil, err
	}
	a, err := access(i, private)
	if err != nil {
		return nil, err
	}
	return k.providers.Get(client.ObjectKeyFromObject(i), a)
}

// renew requests a certificate that is valid for longer, and stores it in the Identity once the provider
// has answered. It also stores the provider's CA. It keeps the address of the API server, because an admin
// has set it.
func (p *Providers) renew(ctx context.Context, provider *remote.Cluster, i *authv1beta1.Identity) error {
	api := provider.API
	o := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: *i.Spec.Namespace, Name: i.Name}}
	err := api.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		id, iderr := control.ClusterID(ctx, p.reader, p.home)
		if iderr != nil {
			return iderr
		}
		o.Labels = map[string]string{
			wire.LabelRemoteCluster: string(id), peering.LabelOrigin: string(id), peering.LabelReplicated: "true", peering.LabelReplication: "false",
			peering.LabelDestination: string(i.Spec.ClusterID),
		}
		o.Spec = authv1beta1.RenewSpec{ConsumerClusterID: corev1beta1.ClusterID(id), IdentityType: authv1beta1.ControlPlaneIdentityType}
		err = api.Create(ctx, o, client.FieldOwner(control.Manager))
	}
	if err != nil {
		return fmt.Errorf("ask %s for another certificate: %w", i.Spec.ClusterID, err)
	}
	before, now := i.DeepCopy(), o.Status.AuthParams
	if now == nil || !newer(now.SignedCRT, i.Spec.AuthParams.SignedCRT) {
		return nil // the provider renews a certificate at the same age; the next call finds it
	}
	i.Spec.AuthParams.SignedCRT, i.Spec.AuthParams.CA = now.SignedCRT, authorityOf(ctx, provider.Access, now.CA)
	if err := p.client.Patch(ctx, i, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("renew Identity %s/%s: %w", i.Namespace, i.Name, err)
	}
	return client.IgnoreNotFound(api.Delete(ctx, o))
}

// another reports whether the answer to a slice shows that the provider has replaced its certificate
// authority: the answer has a CA that the Identity does not have, or a newer certificate than c from
// another issuer. A provider updates its answers as soon as it has another CA.
func (p *Providers) another(ctx context.Context, i *authv1beta1.Identity, c *x509.Certificate) (bool, error) {
	var all authv1beta1.ResourceSliceList
	of := client.MatchingLabels{peering.LabelReplication: "true", peering.LabelDestination: string(i.Spec.ClusterID)}
	if err := p.client.List(ctx, &all, client.InNamespace(i.Namespace), of); err != nil {
		return false, fmt.Errorf("list ResourceSlices for %s: %w", i.Spec.ClusterID, err)
	}
	return slices.ContainsFunc(all.Items, func(s authv1beta1.ResourceSlice) bool {
		if s.Status.AuthParams == nil {
			return false
		}
		of, err := peering.Certificate(s.Status.AuthParams.SignedCRT)
		signed := err == nil && of.NotBefore.After(c.NotBefore) && (!bytes.Equal(of.RawIssuer, c.RawIssuer) || !bytes.Equal(of.AuthorityKeyId, c.AuthorityKeyId))
		return signed || !bytes.Contains(i.Spec.AuthParams.CA, bytes.TrimSpace(s.Status.AuthParams.CA))
	}), nil
}

// authorityOf returns the CA bundle for a provider that has announced the CA in says. The bundle keeps the
// earlier CA until the API server shows a certificate of the new one.
func authorityOf(ctx context.Context, a remote.Access, says []byte) []byte {
	has := a.CA
	if !x509.NewCertPool().AppendCertsFromPEM(says) {
		return has
	}
	a.CA = says
	c, err := remote.New(a, nil)
	if err != nil {
		return has
	}
	defer c.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Server+"/livez", http.NoBody)
	if err != nil {
		return has
	}
	answer, err := c.HTTP.Do(request)
	if err != nil {
		return slices.Concat(says, []byte("\n"), has)
	}
	_ = answer.Body.Close()
	return says
}

// newer reports whether a certificate is valid for longer than another one.
func newer(certificate, than []byte) bool {
	a, aerr := peering.Certificate(certificate)
	b, berr := peering.Certificate(than)
	return aerr == nil && berr == nil && a.NotAfter.After(b.NotAfter)
}
