package peer

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Names of steps to which other steps refer.
const (
	stepNonce     = "nonce"
	stepSigned    = "signed-nonce"
	stepTenant    = "tenant"
	stepIdentity  = "identity"
	stepReachable = "reachable"
	stepSlice     = "resource-slice"
)

// controllerTime is the longest time in which Liqo's controllers normally answer on a slow cluster. A
// step that waits longer names possible causes.
const controllerTime = 10 * time.Second

// handshake returns the steps by which the provider accepts the consumer, and gives it access.
func (p pair) handshake() []flows.Step {
	return []flows.Step{
		p.nonce(), p.nonceMade(), p.signedNonce(), p.signature(), p.applicant(), p.access(), p.identity(), p.kubeconfig(), p.reachable(),
	}
}

// nonce returns the step that creates the Secret for the nonce, a random text from the provider. The
// consumer signs the nonce to prove that it has its key.
func (p pair) nonce() flows.Step {
	live, want := p.secret(p.pro, peering.LabelNonce), peering.Nonce(p.tenant(p.pro))
	flows.KeepName(want, live)
	return p.BehindNamespace(p.pro, flows.Ensure(p.pro, stepNonce, live, want))
}

func (p pair) nonceText() []byte {
	if s := p.secret(p.pro, peering.LabelNonce); s != nil {
		return s.Data[peering.KeyNonce]
	}
	return nil
}

func (p pair) nonceMade() flows.Step {
	s := p.wait(p.pro, "nonce-made", "nonce", check.Handshake)
	live := p.secret(p.pro, peering.LabelNonce)
	switch {
	case live == nil:
		s.Status, s.Reason = flows.Blocked, "needs the Secret"
	case len(p.nonceText()) > 0:
		s.Status = flows.Done
	default:
		s.Reason = fmt.Sprintf("waiting for %s", p.id(p.pro))
		if p.age(p.pro, live) > controllerTime && !p.runsOurs(p.pro) {
			s.Reason += "; perhaps Liqo's authentication module is off there (Helm value authentication.enabled)"
		}
		s.Fix = []command.Hint{p.readLog(p.pro, manager)}
	}
	return s
}

// signedNonce returns the step that copies the nonce to the consumer.
func (p pair) signedNonce() flows.Step {
	live := p.secret(p.con, peering.LabelSignedNonce)
	want := peering.SignedNonce(p.tenant(p.con), p.nonceText())
	flows.KeepName(want, live)
	if len(p.nonceText()) == 0 {
		return flows.BlockedStep(p.con, flows.Create, stepSigned, flows.RefTo(want), fmt.Sprintf("needs %s's nonce", p.id(p.pro)))
	}
	return p.BehindNamespace(p.con, flows.Ensure(p.con, stepSigned, live, want))
}

func (p pair) signed() []byte {
	s, request := p.secret(p.con, peering.LabelSignedNonce), p.lending(p.con).Request
	if s == nil || request == nil || !request.Signed(p.nonceText(), s.Data[peering.KeySignedNonce]) {
		return nil
	}
	return s.Data[peering.KeySignedNonce]
}

func (p pair) signature() flows.Step { return p.once("signature", p.makeSignature) }

func (p pair) makeSignature() flows.Step {
	s := p.wait(p.con, "signature", "signature of the nonce", check.Handshake)
	live := p.secret(p.con, peering.LabelSignedNonce)
	switch {
	case live == nil:
		s.Status, s.Reason = flows.Blocked, "needs the Secret"
	case p.signed() != nil:
		s.Status = flows.Done
	default:
		s.Reason = fmt.Sprintf("waiting for %s to sign the nonce", p.id(p.con))
		if len(live.Data[peering.KeySignedNonce]) > 0 {
			s.Reason = fmt.Sprintf("waiting for %s to sign the present nonce; the old signature is for another nonce, or by another key", p.id(p.con))
		}
		s.Fix = []command.Hint{p.readLog(p.con, manager)}
	}
	return s
}

// applicant returns the step that creates the consumer's Tenant on the provider. The step keeps the
// valid values of an existing Tenant, because Liqo refuses another request from the same consumer.
func (p pair) applicant() flows.Step { return p.once("applicant", p.makeApplicant) }

func (p pair) makeApplicant() flows.Step {
	object := flows.ObjectRef{Kind: authv1beta1.TenantKind, Namespace: p.tenant(p.pro).Namespace, Name: string(p.tenant(p.pro).Remote)}
	request, live, signature := p.lending(p.con).Request, p.accepted(), p.signed()
	if signature == nil || request == nil {
		return flows.BlockedStep(p.pro, flows.Create, stepTenant, object, fmt.Sprintf("needs %s's signature", p.id(p.con)))
	}
	proxy, missing := p.proxy()
	if missing != "" {
		step := flows.BlockedStep(p.pro, flows.Create, stepTenant, object, missing)
		if reason, hint := p.unfitProxy(); reason != "" {
			step.Fail(flows.FailedConflict, check.Identity, reason, hint)
		}
		return step
	}
	a := peering.Applicant{ID: p.tenant(p.pro).Remote, Request: *request, Signature: signature, ProxyURL: proxy}
	if s := p.certificate(peering.CertificateName); s != nil && request.Fits(s.Data[peering.KeyCSR], a.ID) {
		a.CSR = s.Data[peering.KeyCSR]
	}
	if live != nil && bytes.Equal(live.Spec.PublicKey, request.PublicKey) {
		if request.Fits(live.Spec.CSR, a.ID) {
			a.CSR = live.Spec.CSR
		}
		if request.Signed(p.nonceText(), live.Spec.Signature) {
			a.Signature = live.Spec.Signature
		}
	}
	want := peering.Tenant(p.tenant(p.pro), a)
	flows.KeepName(want, live)
	return p.BehindNamespace(p.pro, flows.Ensure(p.pro, stepTenant, live, want))
}

// access returns the step that waits until the provider has given access to the consumer's present
// key.
func (p pair) access() flows.Step { return p.once("access", p.makeAccess) }

func (p pair) makeAccess() flows.Step {
	s := p.wait(p.pro, "access", "access for "+string(p.id(p.con)), check.Tenant)
	live, request := p.accepted(), p.lending(p.con).Request
	s.Fix = []command.Hint{p.readLog(p.pro, manager)}
	switch {
	case live == nil || request == nil || p.applicant().Status != flows.Done:
		s.Status, s.Reason, s.Fix = flows.Blocked, "needs the Tenant", nil
	case lending.Refused(live) != "":
		s.Reason = lending.Refused(live)
		if strings.HasPrefix(s.Reason, wire.ProblemRefused) {
			s.Fail(flows.FailedConflict, check.Tenant, s.Reason, command.Text("change the object or setting that the message names, then run the same command again"))
		}
	case live.Status.AuthParams == nil || live.Status.TenantNamespace == "":
		s.Reason = fmt.Sprintf("waiting for %s to accept %s", p.id(p.pro), p.id(p.con))
		if authv1beta1.GetAuthzPolicyValue(live.Spec.AuthzPolicy) == authv1beta1.TolerateNoHandshake {
			s.Fail(flows.FailedConflict, check.Tenant, fmt.Sprintf("Tenant %s tolerates a missing handshake, so Liqo gives no access through it", live.Name),
				command.Hintf("the person who made the Tenant gives access by hand; to use the handshake instead, delete the Tenant: %s", p.Kubectl(p.pro, "delete", "tenant", live.Name)))
		}
	case live.Status.AuthParams.AwsConfig == nil && !request.Certifies(live.Status.AuthParams.SignedCRT):
		s.Reason = "waiting for a certificate of the present key"
	case expired(live.Status.AuthParams.SignedCRT, p.now(p.pro)):
		s.Fail(flows.FailedConflict, check.Tenant, fmt.Sprintf("the certificate that %s gave %s has expired, and %s has not renewed it", p.id(p.pro), p.id(p.con), p.id(p.pro)),
			command.Hintf("delete the certificate, so that %s makes a new one: %s; then run the same command again", p.id(p.pro), p.Kubectl(p.pro, "delete", "secret", peering.CertificateName)))
	case loopback(live.Status.AuthParams.APIServer) && live.Status.AuthParams.ProxyURL == nil:
		where := command.Text("set Liqo's Helm value apiServer.address there, or use --in-band")
		if p.runsOurs(p.pro) {
			where = command.Hintf("set the URL at which consumers reach it: %s", p.sayWhere())
		}
		s.Fail(flows.FailedConflict, check.Identity, fmt.Sprintf("%s tells its consumers that its API server is %s, which they can't reach", p.id(p.pro), live.Status.AuthParams.APIServer),
			where)
	default:
		s.Status, s.Fix = flows.Done, nil
		if proxy := live.Status.AuthParams.ProxyURL; proxy != nil && *proxy != "" {
			s.Reason = "through " + *proxy
		} else {
			s.Reason = "at " + live.Status.AuthParams.APIServer
		}
	}
	return s
}

func (p pair) now(side flows.Side) time.Time { return p.Facts.At.Add(p.Facts.Sides[side].ClockAhead) }

func expired(certificate []byte, now time.Time) bool {
	c, err := peering.Certificate(certificate)
	return err == nil && now.After(c.NotAfter)
}

// loopback reports whether only the machine of an API server itself can reach the URL server.
func loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return true // nobody can reach this address
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// identity returns the step that writes the Identity, which gives the access to the consumer's program.
// The step keeps a certificate that Liqo has renewed.
func (p pair) identity() flows.Step { return p.once("identity", p.makeIdentity) }

func (p pair) makeIdentity() flows.Step {
	live, tenant := first(p.identities()), p.accepted()
	object := flows.ObjectRef{Kind: authv1beta1.IdentityKind, Namespace: p.tenant(p.con).Namespace, Name: "controlplane-" + string(p.tenant(p.con).Remote)}
	if p.access().Status != flows.Done {
		return flows.BlockedStep(p.con, flows.Create, stepIdentity, object, fmt.Sprintf("needs %s's access", p.id(p.pro)))
	}
	params := *tenant.Status.AuthParams.DeepCopy()
	if live != nil && newer(live.Spec.AuthParams, params) {
		params = *live.Spec.AuthParams.DeepCopy()
	}
	want := peering.Identity(p.tenant(p.con), params, tenant.Status.TenantNamespace)
	flows.KeepName(want, live)
	return p.BehindNamespace(p.con, flows.Ensure(p.con, stepIdentity, live, want))
}

// newer reports whether a equals b, or differs from b only in a certificate that expires at the same
// time or later.
func newer(a, b authv1beta1.AuthParams) bool {
	ca, aerr := peering.Certificate(a.SignedCRT)
	cb, berr := peering.Certificate(b.SignedCRT)
	if aerr != nil || berr != nil || ca.NotAfter.Before(cb.NotAfter) || !reflect.DeepEqual(ca.PublicKey, cb.PublicKey) {
		return false
	}
	a.SignedCRT, b.SignedCRT = nil, nil
	return reflect.DeepEqual(a, b)
}

func (p pair) kubeconfig() flows.Step { return p.once("kubeconfig", p.makeKubeconfig) }

func (p pair) makeKubeconfig() flows.Step {
	s := p.wait(p.con, "kubeconfig", "kubeconfig for "+string(p.id(p.pro)), check.Identity)
	live := first(p.identities())
	switch {
	case live == nil || p.identity().Status != flows.Done:
		s.Status, s.Reason = flows.Blocked, "needs the Identity"
	case lending.Refused(live) != "":
		s.Reason, s.Fix = lending.Refused(live), []command.Hint{p.readLog(p.con, manager)}
	case live.Status.KubeconfigSecretRef == nil:
		s.Reason, s.Fix = fmt.Sprintf("waiting for %s to write the Secret", p.program(p.con)), []command.Hint{p.readLog(p.con, manager)}
	default:
		s.Status = flows.Done
	}
	return s
}

// reachable returns the step that waits until the consumer's program reaches the provider's API server.
func (p pair) reachable() flows.Step { return p.once("reachable", p.makeReachable) }

func (p pair) makeReachable() flows.Step {
	s := p.wait(p.con, stepReachable, "API server of "+string(p.id(p.pro)), check.Identity)
	state, message := lending.Reached(p.cluster(p.con))
	switch {
	case p.kubeconfig().Status != flows.Done:
		s.Status, s.Reason = flows.Blocked, "needs the kubeconfig"
	case state == corev1beta1.ConditionStatusEstablished:
		s.Status = flows.Done
	default:
		at := p.access().Reason
		s.Reason = fmt.Sprintf("%s on %s does not reach the API server yet, %s", p.program(p.con), p.id(p.con), at)
		if message != "" {
			s.Reason += ": " + message
		}
		s.Fix = []command.Hint{command.Hintf("pods of %s have to reach the API server: open the firewall, set Helm value apiServer.address of Liqo on %s, or use --in-band", p.id(p.con), p.id(p.pro))}
		if p.runsOurs(p.pro) {
			s.Fix = []command.Hint{command.Hintf("pods of %s have to reach the API server: open the firewall, or set the URL at which consumers reach it: %s", p.id(p.con), p.sayWhere())}
		}
	}
	return s
}

// sayWhere returns the command that sets the URL at which consumers reach the provider's API server.
func (p pair) sayWhere() command.Command {
	return command.Ours("install").Flag("--api-server", "URL").On(p.Facts.Sides[p.pro].Flags())
}
