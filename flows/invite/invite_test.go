package invite_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/invite"
	"github.com/liqo-tui/liqo-tui/flows/peerfile"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// admin is somebody who has access to one cluster alone.
type admin struct {
	pair    *flowtest.Pair
	cluster *flowtest.Cluster
}

func (a admin) run(t *testing.T, plan flows.Planner) error {
	t.Helper()
	return engine.Run(t.Context(), plan, a.cluster, engine.Absent{}, func(engine.Event) {}, engine.Options{Now: a.pair.Now})
}

func (a admin) facts() flows.Facts {
	return flows.Facts{Sides: [2]flows.ClusterFacts{a.cluster.Facts()}, At: a.pair.Now()}
}

// sent is a file as it arrives.
func sent(t *testing.T, l peerfile.File, err error) peerfile.File {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	text, err := l.Text()
	if err != nil {
		t.Fatal(err)
	}
	arrived, err := peerfile.Parse(text)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return arrived
}

func inviting(p flows.Params, peer wire.ClusterID) flows.Planner {
	return func(f flows.Facts) flows.Plan { return invite.PlanInvite(p, peer, "first", f) }
}

func join(l peerfile.File) flows.Planner {
	return func(f flows.Facts) flows.Plan { return invite.PlanJoin(flows.Defaults(), l, f) }
}

func accept(l peerfile.File) flows.Planner {
	return func(f flows.Facts) flows.Plan { return invite.PlanAccept(flows.Defaults(), l, f) }
}

// exchange has the two admins connect their clusters.
func exchange(t *testing.T, p *flowtest.Pair, want flows.Params) (invitation, answer peerfile.File) {
	t.Helper()
	rome, milan := admin{p, p.A}, admin{p, p.B}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(rome.run(t, inviting(want, "milan")))
	l, err := invite.NewInvitation(want, "milan", rome.facts(), time.Hour)
	invitation = sent(t, l, err)
	must(milan.run(t, join(invitation)))
	l, err = invite.NewAnswer(invitation, milan.facts(), time.Hour)
	answer = sent(t, l, err)
	must(rome.run(t, accept(answer)))
	return invitation, answer
}

func TestTwoAdminsConnectTheirClustersByTwoFiles(t *testing.T) {
	p := flowtest.NewPair()
	want := flowtest.NodePort()
	want.Server, want.MTU = flows.A, 1300
	invitation, answer := exchange(t, p, want)

	// Who has access to both finds nothing to change.
	if plan := flows.PlanConnect(want, flowtest.Facts(p)); !plan.Empty() || !plan.Done() {
		t.Errorf("connect with both in sight would change something: %s; %+v", plan.Changes(), plan.Failure())
	}
	// Nor does anything change if each does their part again.
	for name, again := range map[string]flows.Plan{
		"invite": invite.PlanInvite(want, "milan", "second", admin{p, p.A}.facts()),
		"join":   invite.PlanJoin(flows.Defaults(), invitation, admin{p, p.B}.facts()),
		"accept": invite.PlanAccept(flows.Defaults(), answer, admin{p, p.A}.facts()),
	} {
		if !again.Done() || !again.Empty() {
			t.Errorf("%s again: got %s, failure %v", name, again.Changes(), again.Failure())
		}
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		if n := flowtest.Facts(p).End(side).ImportsFrom(); n.String() != "" {
			t.Errorf("%s allows a stranger to serve %s", flowtest.Facts(p).Sides[side].ID, n)
		}
	}
	text, err := invitation.Text()
	if err != nil || strings.Contains(string(text), "rivate") {
		t.Errorf("got %v, and a file that speaks of private things:\n%s", err, text)
	}
}

// An earlier version may have written no UID.
func TestAFileWithoutAUIDIsReadWithAWarning(t *testing.T) {
	p := flowtest.NewPair()
	want := flowtest.NodePort()
	want.Server = flows.A
	invitation, _ := exchange(t, p, want)
	invitation.From.UID = ""
	plan := invite.PlanJoin(flows.Defaults(), invitation, admin{p, p.B}.facts())
	if !plan.Done() || !strings.Contains(strings.Join(plan.Kept, " "), "warning: the invitation does not say by a UID which cluster rome is") {
		t.Errorf("got %v, failure %v", plan.Kept, plan.Failure())
	}
	if uid := p.B.Facts().End("rome").UID(); uid != "uid-of-rome" {
		t.Errorf("milan has stored UID %q of rome", uid)
	}
}

// An endpoint that has changed is told by a new invitation.
func TestANewInvitationBringsTheNewEndpoint(t *testing.T) {
	p := flowtest.NewPair()
	want := flowtest.NodePort()
	want.Server = flows.A
	invitation, _ := exchange(t, p, want)
	invitation.From.Endpoint.Addresses = []string{"203.0.113.9"}
	milan := admin{p, p.B}
	if err := milan.run(t, join(invitation)); err != nil {
		t.Fatal(err)
	}
	if got := p.B.Facts().Clients[0].Spec.Endpoint.Addresses; len(got) != 1 || got[0] != "203.0.113.9" {
		t.Errorf("milan dials %v", got)
	}
}

func TestInvitationsAndAnswersThatDoNotFitAreRefused(t *testing.T) {
	want := flowtest.NodePort()
	want.Server = flows.A
	for name, tc := range map[string]struct {
		plan func(*flowtest.Pair, peerfile.File, peerfile.File) flows.Plan
		kind flows.FailureKind
		says string
	}{
		"an invitation for somebody else": {func(p *flowtest.Pair, i, _ peerfile.File) flows.Plan {
			i.For = "turin"
			return join(i)(admin{p, p.B}.facts())
		}, flows.FailedPreflight, "rome wrote it for turin, and this is milan"},
		"an answer of a cluster that was not invited": {func(p *flowtest.Pair, _, a peerfile.File) flows.Plan {
			a.From.ClusterID, a.From.UID = "turin", "another"
			return accept(a)(admin{p, p.A}.facts())
		}, flows.FailedPreflight, "rome has not invited turin"},
		"an answer of another cluster with the same ID": {func(p *flowtest.Pair, _, a peerfile.File) flows.Plan {
			a.From.UID = "uid-of-another"
			return accept(a)(admin{p, p.A}.facts())
		}, flows.FailedConflict, "rome knows milan as the cluster with UID uid-of-milan, and the file leads to the one with UID uid-of-another"},
		"an invitation of another cluster with the same ID": {func(p *flowtest.Pair, i, _ peerfile.File) flows.Plan {
			i.From.UID = "uid-of-another"
			return join(i)(admin{p, p.B}.facts())
		}, flows.FailedConflict, "milan knows rome as the cluster with UID uid-of-rome"},
		"one's own ID": {func(p *flowtest.Pair, _, _ peerfile.File) flows.Plan {
			return inviting(want, "rome")(admin{p, p.A}.facts())
		}, flows.FailedPreflight, `both clusters call themselves "rome"`},
		"the same cluster under another ID": {func(p *flowtest.Pair, i, _ peerfile.File) flows.Plan {
			i.From.UID = p.B.Facts().UID
			return join(i)(admin{p, p.B}.facts())
		}, flows.FailedPreflight, "rome is this cluster itself"},
		"both invite each other": {func(p *flowtest.Pair, _, a peerfile.File) flows.Plan {
			a.Kind, a.From.Endpoint = peerfile.Invitation, &peerfile.Dial{Addresses: []string{"192.0.2.1"}, Port: 1}
			return join(a)(admin{p, p.A}.facts())
		}, flows.FailedConflict, "rome already hosts a gateway server for milan"},
		"who was invited invites": {func(p *flowtest.Pair, _, _ peerfile.File) flows.Plan {
			return inviting(want, "rome")(admin{p, p.B}.facts())
		}, flows.FailedConflict, "milan is already the client of a connection with rome"},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			invitation, answer := exchange(t, p, want)
			s := tc.plan(p, invitation, answer).Failure()
			if s == nil || s.Kind != tc.kind || !strings.Contains(s.Reason, tc.says) || s.Hint().IsZero() {
				t.Errorf("got %+v, want kind %d, %q, and a hint", s, tc.kind, tc.says)
			}
		})
	}
}

func TestAnAnswerIsToTheInvitationThatStands(t *testing.T) {
	want := flowtest.NodePort()
	want.Server = flows.A
	for name, tc := range map[string]struct {
		onTheWay func(*peerfile.File)             // to milan
		back     func(*peerfile.File)             // to rome
		since    func(*testing.T, *flowtest.Pair) // on rome
		refused  string
		warns    bool
	}{
		"as it was sent": {},
		"the endpoint has changed since": {since: func(_ *testing.T, p *flowtest.Pair) {
			p.A.Behave(func(b *flowtest.Behaviour) { b.ServicePort = 31999 })
			p.Settle()
		}},
		"another gateway was made since": {since: func(t *testing.T, p *flowtest.Pair) {
			t.Helper()
			server := p.A.Facts().Servers[0]
			p.A.Remove(&server)
			p.Settle()
			again := func(f flows.Facts) flows.Plan { return invite.PlanInvite(want, "milan", "second", f) }
			if err := (admin{p, p.A}).run(t, again); err != nil {
				t.Fatal(err)
			}
		}, refused: "it answers another invitation"},
		"somebody put in their key":       {onTheWay: func(l *peerfile.File) { l.From.PublicKey = strings.Repeat("A", 43) + "=" }, refused: "milan was told another key"},
		"somebody put in a range":         {onTheWay: func(l *peerfile.File) { l.From.PodCIDRs[0] = "10.99.0.0/16" }, refused: "address range"},
		"an answer of an earlier version": {back: func(l *peerfile.File) { l.Answers = nil }, warns: true},
		"an invitation of one":            {onTheWay: func(l *peerfile.File) { l.Nonce = "" }, warns: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			rome, milan := admin{p, p.A}, admin{p, p.B}
			change := func(l peerfile.File, how func(*peerfile.File)) peerfile.File {
				if how != nil {
					how(&l)
				}
				return l
			}
			if err := rome.run(t, inviting(want, "milan")); err != nil {
				t.Fatal(err)
			}
			l, err := invite.NewInvitation(want, "milan", rome.facts(), time.Hour)
			invitation := change(sent(t, l, err), tc.onTheWay)
			if err := milan.run(t, join(invitation)); err != nil {
				t.Fatal(err)
			}
			l, err = invite.NewAnswer(invitation, milan.facts(), time.Hour)
			answer := change(sent(t, l, err), tc.back)
			if tc.since != nil {
				tc.since(t, p)
			}
			plan := accept(answer)(rome.facts())
			switch s := plan.Failure(); {
			case (s != nil) != (tc.refused != ""):
				t.Errorf("got failure %+v", s)
			case s != nil && (!strings.Contains(s.Reason, tc.refused) || !strings.Contains(s.Hint().String(), "network invite --for milan")):
				t.Errorf("got %q, hint %q, want %q", s.Reason, s.Hint(), tc.refused)
			}
			if warns := strings.Contains(strings.Join(plan.Kept, "\n"), "warning: an earlier liqo-tui"); warns != tc.warns {
				t.Errorf("warns: %v, in %q", warns, plan.Kept)
			}
		})
	}
}

func TestAFingerprintIsOfAllThatAFileSays(t *testing.T) {
	p := flowtest.NewPair()
	want := flowtest.NodePort()
	want.Server = flows.A
	invitation, _ := exchange(t, p, want)
	b, err := invitation.Text()
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	fingerprint := func(text string) string {
		l, err := peerfile.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		return l.Fingerprint
	}
	is := fingerprint(text)
	if !regexp.MustCompile(`^[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){3}$`).MatchString(is) || is != invitation.Fingerprint {
		t.Errorf("got %q, %q, want four groups of four", is, invitation.Fingerprint)
	}
	for name, changed := range map[string]struct {
		text string
		same bool
	}{
		"lines as mail ends them": {strings.ReplaceAll(text, "\n", "\r\n"), true},
		"no comments":             {text[strings.Index(text, "apiVersion"):], true},
		"another port":            {strings.Replace(text, "port: 30010", "port: 30011", 1), false},
		"another nonce":           {strings.Replace(text, "nonce: first", "nonce: worst", 1), false},
		"a field of tomorrow":     {text + "tomorrow: true\n", false},
	} {
		if changed.text == text {
			t.Errorf("%s: nothing has changed in:\n%s", name, text)
		} else if got := fingerprint(changed.text); (got == is) != changed.same {
			t.Errorf("%s: got %s, it was %s", name, got, is)
		}
	}
	spoken := strings.ToUpper(strings.ReplaceAll(is, "-", " "))
	for told, differs := range map[string]bool{"": false, is: false, spoken: false, "0" + is[1:] + "0": true} {
		err := invite.WrongFingerprint(invitation, told)
		var failed *flows.StepError
		if (err != nil) != differs || differs && (!errors.As(err, &failed) || failed.Hint().IsZero() || !strings.Contains(err.Error(), is)) {
			t.Errorf("told %q: got %v", told, err)
		}
	}
}

func TestAPeerFileWithErrorsIsRefused(t *testing.T) {
	p := flowtest.NewPair()
	want := flowtest.NodePort()
	want.Server = flows.A
	invitation, answer := exchange(t, p, want)
	text := func(l peerfile.File) string {
		b, err := l.Text()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, tc := range map[string]struct{ text, says string }{
		"something else":   {"apiVersion: v1\nkind: Secret\n", "not a file of"},
		"no YAML":          {"{", "yaml"},
		"no key":           {strings.Replace(text(invitation), "publicKey: ", "publicKey: x", 1), "from.publicKey"},
		"host bits":        {strings.Replace(text(invitation), "10.244.0.0/16", "10.244.0.1/16", 1), "from.podCIDRs"},
		"no ranges":        {strings.Replace(text(answer), "externalCIDRs", "others", 1), "from.externalCIDRs: missing"},
		"an absurd MTU":    {strings.Replace(text(answer), "mtu: 1340", "mtu: 9", 1), "from.mtu: 9"},
		"an ID that is no": {strings.Replace(text(answer), "for: rome", "for: Rome!", 1), "for: cluster ID"},
		"nothing to dial":  {strings.Replace(text(answer), "kind: Answer", "kind: Invitation", 1), "from.endpoint: missing"},
		"no host":          {strings.Replace(text(invitation), "addresses:\n    - ", "addresses:\n    - a b", 1), "from.endpoint.addresses"},
		"who is dialled":   {strings.Replace(text(invitation), "kind: Invitation", "kind: Answer", 1), "from.endpoint: an answer has none"},
	} {
		if _, err := peerfile.Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want %q", name, err, tc.says)
		}
	}
	var failed *flows.StepError
	if err := invite.Expired(invitation, p.Now().Add(2*time.Hour)); !errors.As(err, &failed) || failed.Step.Kind != flows.FailedPreflight || failed.Hint().IsZero() {
		t.Errorf("after its time: got %v", err)
	}
	if err := invite.Expired(invitation, invitation.Created); err != nil {
		t.Errorf("in time: got %v", err)
	}
}

// Nobody administrates both clusters, so each opens what it exports, and all where there are no exports.
func TestAnInvitationOpensWhatIsExported(t *testing.T) {
	p := flowtest.NewPair()
	p.A.Behave(func(b *flowtest.Behaviour) { b.Services = true })
	want := flowtest.NodePort()
	want.Given &^= flows.FieldAllow
	plan := invite.PlanInvite(want, "milan", "first", admin{p, p.A}.facts())
	if kept := strings.Join(plan.Kept, "|"); kept != "pods of milan may open connections only to pods of Services that rome exports. --allow all opens all pods, and lending needs that" {
		t.Errorf("the plan says %q", kept)
	}
	invitation, _ := exchange(t, p, want)
	if plan := invite.PlanJoin(flows.Defaults(), invitation, admin{flowtest.NewPair(), flowtest.NewPair().B}.facts()); !strings.Contains(strings.Join(plan.Kept, "|"), "pods of rome may open connections to all pods, because milan exchanges no Services") {
		t.Errorf("the plan says %q", plan.Kept)
	}
	allows := func() (all [2]string) {
		f := flowtest.Facts(p)
		for side := range all {
			allow, _ := wire.AllowOf(f.End(flows.Side(side)).Gateway())
			all[side] = allow.String()
		}
		return all
	}
	if got := allows(); got != [2]string{"exported", "all"} {
		t.Errorf("rome and milan allow %v", got)
	}
	p.B.Behave(func(b *flowtest.Behaviour) { b.Services = true })
	p.Forget()
	exchange(t, p, want)
	if got := allows(); got != [2]string{"exported", "all"} {
		t.Errorf("again: rome and milan allow %v", got)
	}
	lending := flows.Defaults()
	lending.ForLending = true
	if s := flows.PlanConnect(lending, flowtest.Facts(p)).Failure(); s == nil || !strings.Contains(s.Reason, "the two clusters lend") || !strings.Contains(s.Hint().String(), "--allow all. Or its admin runs network invite or join again") {
		t.Errorf("lending: got %+v", s)
	}
	for _, more := range []flows.Params{
		{Given: flows.FieldAllow},
		{Preset: flows.FieldAllow},
	} {
		p := flowtest.NewPair()
		p.A.Behave(func(b *flowtest.Behaviour) { b.Services = true })
		chosen := want
		chosen.Given, chosen.Preset = chosen.Given|more.Given, more.Preset
		plan := invite.PlanInvite(chosen, "milan", "first", admin{p, p.A}.facts())
		if len(plan.Kept) > 0 || plan.Params.Allow[flows.A] != wire.AllowAll {
			t.Errorf("%+v: got %v, %q", more, plan.Params.Allow, plan.Kept)
		}
	}
}
