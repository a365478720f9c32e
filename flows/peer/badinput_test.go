package peer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	objects "github.com/liqo-tui/liqo-tui/render/peering"
)

// Each fault of the clusters is named. After its repair, the same command succeeds, and no half-finished
// object blocks it.
func TestOddClustersDoNotBlockTheNextTry(t *testing.T) {
	rome := render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}
	milan := render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}
	strangers := &authv1beta1.Tenant{
		TypeMeta:   metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: authv1beta1.TenantKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: rome.Namespace, Name: "rome", Labels: map[string]string{wire.LabelRemoteCluster: "rome"}},
		Spec:       authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: []byte("of somebody else")},
	}
	unlabelled := strangers.DeepCopy()
	unlabelled.Labels, unlabelled.Spec.ClusterID = nil, "oslo"
	crd := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-crd-replicator"}}
	earlier := func(manager string) func(*testing.T, *flowtest.Pair) {
		return func(_ *testing.T, p *flowtest.Pair) {
			signed := objects.SignedNonce(milan, []byte("nonce of an earlier try"))
			signed.Data[objects.KeySignedNonce] = []byte("its signature")
			p.A.PutAs(manager, render.TenantNamespace(milan), signed)
		}
	}
	versions := func(a, b string) func(*testing.T, *flowtest.Pair) {
		return func(_ *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.Operator.Version = a })
			p.B.Be(func(f *flows.ClusterFacts) { f.Operator.Version = b })
		}
	}
	for name, c := range map[string]struct {
		past   func(*testing.T, *flowtest.Pair)
		params peer.Params
		// refused is a part of the error, and hint a part of its advice; "" if the command works.
		refused, hint string
		code          flows.Code
		mend          func(*flowtest.Pair)
		says          string // a part of the plan's notes
	}{
		"the cluster ID is a user's name": {
			past: func(_ *testing.T, p *flowtest.Pair) {
				p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.Known = map[string]string{"rome": "ClusterRoleBinding admins"} })
			},
			refused: "milan knows rome already, as a user or a group with rights: ClusterRoleBinding admins", hint: "remove the subject", code: check.Lending,
			mend: func(p *flowtest.Pair) { p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.Known = nil }) },
		},
		"a Tenant of somebody else under its ID": {
			past:    func(_ *testing.T, p *flowtest.Pair) { p.B.PutAs("others", render.TenantNamespace(rome), strangers) },
			refused: "others also manages", hint: "--force-conflicts", code: flows.CodeOwnership,
			mend: func(p *flowtest.Pair) { p.B.Remove(strangers) },
		},
		"a Tenant of another cluster in its namespace": {
			past:    func(_ *testing.T, p *flowtest.Pair) { p.B.PutAs("others", render.TenantNamespace(rome), unlabelled) },
			refused: "Liqo wants one Tenant per namespace", hint: "delete the Tenant", code: check.Lending,
			mend: func(p *flowtest.Pair) { p.B.Remove(unlabelled) },
		},
		"a slice larger than the provider": {
			past: func(_ *testing.T, p *flowtest.Pair) {
				p.B.Behave(func(b *flowtest.Behaviour) {
					b.Lending.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi")}
				})
			},
			params: peer.Params{CPU: "100", Memory: "1Gi"}, says: "the request is for cpu 100, but the nodes of milan have 8 in all",
		},
		"a nonce of an earlier try": {past: earlier(wire.FieldManager)},
		"a nonce of an earlier try of liqoctl": {
			past: earlier("liqoctl"), refused: "liqoctl also manages", hint: "--force-conflicts", code: flows.CodeOwnership,
			mend: func(p *flowtest.Pair) { p.A.Remove(objects.SignedNonce(milan, nil)) },
		},
		"the consumer's Liqo was away for a day": {
			past: func(t *testing.T, p *flowtest.Pair) {
				t.Helper()
				flowtest.MustRun(t, p, peering(peer.Params{}))
				p.Advance(24 * time.Hour)
				p.A.PutAs("helm", namespace("liqo"), crd)
			},
			params: peer.Params{CPU: "1"}, refused: "liqo/liqo-crd-replicator on rome is not available", hint: "logs deployment/liqo-crd-replicator", code: check.Lending,
			mend: func(p *flowtest.Pair) { p.A.Remove(crd) },
		},
		"both were away for longer than a certificate lasts": {
			past: func(t *testing.T, p *flowtest.Pair) {
				t.Helper()
				flowtest.MustRun(t, p, peering(peer.Params{}))
				p.Advance(366 * 24 * time.Hour)
			},
			refused: "the certificate that milan gave rome has expired", hint: "delete secret liqo-remote-certificate", code: check.Tenant,
			mend: func(p *flowtest.Pair) {
				p.B.Remove(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: rome.Namespace, Name: objects.CertificateName}})
			},
		},
		"another way than before": {
			past: func(t *testing.T, p *flowtest.Pair) {
				t.Helper()
				flowtest.MustRun(t, p, peering(peer.Params{}))
				p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.Proxy = "10.70.0.9" })
			},
			params: peer.Params{InBand: "true"}, says: "only after a restart: kubectl --context kind-rome -n liqo-tenant-milan rollout restart deployment -l liqo.io/virtual-node=milan",
		},
		"clocks ten minutes apart": {
			past: func(_ *testing.T, p *flowtest.Pair) {
				p.A.Be(func(f *flows.ClusterFacts) { f.ClockAhead = -4 * time.Minute })
				p.B.Be(func(f *flows.ClusterFacts) { f.ClockAhead = 6 * time.Minute })
			},
			says: "the clocks of milan and rome are 10m0s apart",
		},
		"an older minor on the consumer": {past: versions("v1.1.2", "v1.2.0"), says: "Liqo v1.1.2 on rome does not renew certificates"},
		"an older minor on the provider": {past: versions("v1.2.0", "v1.1.2"), says: "Liqo v1.1.2 on milan does not renew certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.LiqoPair()
			c.past(t, p)
			if c.refused != "" {
				_, err := flowtest.Run(t, p, peering(c.params))
				var failed *flows.StepError
				if !errors.As(err, &failed) || failed.Code() != c.code || !strings.Contains(err.Error(), c.refused) || !strings.Contains(failed.Hint().String(), c.hint) {
					t.Fatalf("got %v, hint %q, want %s: %s, hint %s", err, flows.HintOf(err), c.code, c.refused, c.hint)
				}
				c.mend(p)
			}
			r := flowtest.MustRun(t, p, peering(c.params))
			if said := strings.Join(r.Events[0].Plan.Kept, "\n"); !strings.Contains(said, c.says) {
				t.Errorf("the plan says\n%s\nwant %q", said, c.says)
			}
			p.Settle()
			p.Forget()
			flowtest.MustRun(t, p, peering(peer.Params{}))
			if log := p.Log(); len(log) > 0 {
				t.Errorf("a second run wrote %v", log)
			}
		})
	}
}
