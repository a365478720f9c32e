package peer

import (
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// pair is a consumer and a provider for which a plan is made.
type pair struct {
	flows.Connection

	params   Params
	con, pro flows.Side
	// made holds the steps that this plan has computed, by name, because several steps need them.
	made map[string]flows.Step
}

// once returns the step with a name. It computes the step only at the first call for this name.
func (p pair) once(name string, step func() flows.Step) flows.Step {
	s, ok := p.made[name]
	if !ok {
		s = step()
		p.made[name] = s
	}
	return s
}

func newPair(p Params, namespaces [2]string, f flows.Facts) pair {
	return pair{Connection: flows.NewConnection(flows.Params{Namespaces: namespaces}, f), params: p, con: p.Consumer, pro: p.Consumer.Other(), made: map[string]flows.Step{}}
}

func (p pair) id(side flows.Side) wire.ClusterID { return p.Facts.Sides[side].Name() }

func (p pair) tenant(side flows.Side) render.Tenant { return p.Ends[side].Tenant }

// lending returns a side's facts about lending; empty facts if they were not read.
func (p pair) lending(side flows.Side) lending.Facts {
	if l := p.Facts.Sides[side].Lending; l != nil {
		return *l
	}
	return lending.Facts{}
}

// in returns the objects of a namespace that meet a condition.
func in[T any, O interface {
	*T
	wire.Object
}](namespace string, all []T, is func(O) bool) []O {
	var out []O
	for i := range all {
		if o := O(&all[i]); o.GetNamespace() == namespace && is(o) {
			out = append(out, o)
		}
	}
	return out
}

func first[T any](all []*T) *T {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

func (p pair) ofPeer(side flows.Side) func(metav1.Object) bool {
	return func(o metav1.Object) bool {
		return o.GetLabels()[wire.LabelRemoteCluster] == string(p.tenant(side).Remote)
	}
}

func (p pair) secret(side flows.Side, label string) *corev1.Secret {
	return first(in(p.tenant(side).Namespace, p.lending(side).Secrets, func(s *corev1.Secret) bool {
		return p.ofPeer(side)(s) && s.Labels[label] != ""
	}))
}

// certificates returns the provider's Secrets with the certificates that it signed for the consumer.
func (p pair) certificates() []*corev1.Secret {
	return in(p.tenant(p.pro).Namespace, p.lending(p.pro).Secrets, func(s *corev1.Secret) bool {
		return p.ofPeer(p.pro)(s) && (s.Name == peering.CertificateName || strings.HasPrefix(s.Name, peering.CertificateName+"-"))
	})
}

func (p pair) certificate(name string) *corev1.Secret {
	all := slices.DeleteFunc(p.certificates(), func(s *corev1.Secret) bool { return s.Name != name })
	return first(all)
}

func (p pair) accepted() *authv1beta1.Tenant {
	return first(in(p.tenant(p.pro).Namespace, p.lending(p.pro).Tenants, func(t *authv1beta1.Tenant) bool {
		return p.ofPeer(p.pro)(t) && string(t.Spec.ClusterID) == string(p.tenant(p.pro).Remote)
	}))
}

func (p pair) identities() []*authv1beta1.Identity {
	return in(p.tenant(p.con).Namespace, p.lending(p.con).Identities, func(i *authv1beta1.Identity) bool {
		return p.ofPeer(p.con)(i) && string(i.Spec.ClusterID) == string(p.tenant(p.con).Remote) && i.Spec.Type == authv1beta1.ControlPlaneIdentityType
	})
}

// slices returns the consumer's own ResourceSlices for the provider.
func (p pair) slices() []*authv1beta1.ResourceSlice {
	return in(p.tenant(p.con).Namespace, p.lending(p.con).Slices, func(s *authv1beta1.ResourceSlice) bool {
		return s.Labels[peering.LabelDestination] == string(p.tenant(p.con).Remote) && s.Labels[peering.LabelReplicated] == ""
	})
}

// slice returns the ResourceSlice that this program creates; nil if it does not exist. It has the
// virtual node's name.
func (p pair) slice() *authv1beta1.ResourceSlice {
	all := slices.DeleteFunc(p.slices(), func(s *authv1beta1.ResourceSlice) bool { return s.Name != p.nodeName() })
	return first(all)
}

func (p pair) nodeName() string { return string(p.tenant(p.con).Remote) }

// copied reports whether an object on the provider is a copy of an object of the consumer.
func (p pair) copied(o metav1.Object) bool {
	return o.GetLabels()[peering.LabelReplicated] == "true" && o.GetLabels()[peering.LabelOrigin] == string(p.tenant(p.pro).Remote)
}

func (p pair) cluster(side flows.Side) *corev1beta1.ForeignCluster {
	l := p.lending(side)
	for i := range l.Clusters {
		if c := &l.Clusters[i]; string(c.Spec.ClusterID) == string(p.tenant(side).Remote) {
			return c
		}
	}
	return nil
}

// wait returns a step that waits for the program that handles a side's part of lending.
func (p pair) wait(side flows.Side, what, title string, code flows.Code) flows.Step {
	return flows.Step{ID: flows.IDOf(side, what), Side: side, Action: flows.Wait, Title: title, Status: flows.Waiting, Code: code}
}

// blockedBy returns s, blocked with the reason why until the steps in before are done.
func blockedBy(s flows.Step, why string, before ...flows.Step) flows.Step {
	done := !slices.ContainsFunc(before, func(b flows.Step) bool { return b.Status != flows.Done })
	if !done && s.Status != flows.Failed {
		s.Status, s.Reason, s.Objects = flows.Blocked, why, nil
	}
	return s
}

// age returns how long an object of a side has existed, by the clock of its cluster.
func (p pair) age(side flows.Side, o metav1.Object) time.Duration {
	return p.since(side, o.GetCreationTimestamp())
}

func (p pair) since(side flows.Side, t metav1.Time) time.Duration {
	return p.Facts.At.Add(p.Facts.Sides[side].ClockAhead).Sub(t.Time)
}

// explain returns the steps with the Events that may explain why they wait or fail. kinds has, by the
// code of a step, the kinds of the objects whose Events are added.
func (p pair) explain(steps []flows.Step, kinds map[flows.Code][]string) []flows.Step {
	for i := range steps {
		s := &steps[i]
		if s.Status == flows.Done || s.Status == flows.Blocked {
			s.Code = ""
		}
		about, ok := kinds[s.Code]
		if !ok || s.Status != flows.Waiting && s.Status != flows.Failed {
			continue
		}
		// If a provider denies a ResourceSlice, it records the reason as an Event on its own cluster.
		s.Events = p.EventsAbout(s.Side, about)
		if s.Code == check.Slice {
			s.Events = append(p.EventsAbout(p.pro, about), s.Events...)
		}
		if len(s.Events) > 0 && s.Status == flows.Failed {
			s.Reason += "; " + s.Events[0].Text(p.Facts.At)
		}
	}
	return steps
}

// readLog returns the advice to read a program's log: our operator's where it runs, otherwise that of a
// Deployment of Liqo.
func (p pair) readLog(side flows.Side, deployment string) command.Hint {
	c := p.Facts.Sides[side]
	if p.runsOurs(side) {
		deployment = wire.OperatorName
	}
	return command.Hintf("read the log of %s on %s: %s", p.program(side), c.ID, c.KubectlIn(c.Namespace, "logs", "deployment/"+deployment))
}

// program names the program that handles a side's part of lending.
func (p pair) program(side flows.Side) string {
	if p.runsOurs(side) {
		return "the operator"
	}
	return "Liqo"
}

const (
	manager    = "liqo-controller-manager"
	replicator = "liqo-crd-replicator"
	webhook    = "liqo-webhook"
	proxy      = "liqo-proxy"
)
