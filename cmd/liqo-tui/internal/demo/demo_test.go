package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// begun is a world in which the test lets time pass, and how often each cluster was observed.
func begun(t *testing.T) (*World, map[flows.ContextRef]int) {
	t.Helper()
	w, seen := New(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)), map[flows.ContextRef]int{}
	for o := range w.Live(over(t)) {
		seen[o.Ref]++
	}
	return w, seen
}

// over is a context that has ended.
func over(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func pass(w *World, d time.Duration) {
	for end := w.Now().Add(d); w.Now().Before(end); {
		w.TickTo(w.Now().Add(TickLength))
	}
}

func (w *World) state(a, b wire.ClusterID) flows.EndState {
	r := w.cluster(string(a)).Facts().End(b).Reading()
	state, _ := r.State(w.Now())
	return state
}

func TestTheDemonstrationBeginsWithEveryKindOfState(t *testing.T) {
	w, seen := begun(t)
	for _, r := range []struct {
		a, b wire.ClusterID
		want flows.EndState
	}{
		{"rome", "milan", flows.StateConnected},
		{"rome", "paris", flows.StateConnected},
		{"milan", "paris", flows.StateDegraded},
		{"rome", "oslo", flows.StateConnected},
		{"paris", "edge-07", flows.StateDown},
		{"oslo", "edge-07", flows.StateConnecting},
	} {
		if got := w.state(r.a, r.b); got != r.want {
			t.Errorf("%s, %s: got %s, want %s", r.a, r.b, got, r.want)
		}
	}
	for ref, n := range seen {
		if n < int(memory/step)-10 {
			t.Errorf("%s was observed %d times in %s", ref, n, memory)
		}
	}
	if len(seen) != len(places)+1 {
		t.Errorf("%d clusters were observed, want %d", len(seen), len(places)+1)
	}
}

func TestKeysBreakWhatTheyAreFor(t *testing.T) {
	w, _ := begun(t)
	pair := [2]flows.ContextRef{{Name: "rome"}, {Name: "milan"}}
	play := func(trick session.Trick, says string) {
		t.Helper()
		if got := w.Play(trick, pair); !strings.Contains(got, says) {
			t.Errorf("got %q, want it to say %q", got, says)
		}
	}
	becomes := func(want flows.EndState, within time.Duration) {
		t.Helper()
		for end := w.Now().Add(within); w.Now().Before(end); pass(w, TickLength) {
			if w.state("rome", "milan") == want {
				return
			}
		}
		t.Errorf("rome is %s after %s, want %s", w.state("rome", "milan"), within, want)
	}
	facts := func() flows.Facts {
		return flows.Facts{Sides: [2]flows.ClusterFacts{w.cluster("rome").Facts(), w.cluster("milan").Facts()}, At: w.Now()}
	}
	play(session.CutUDP, "is cut")
	becomes(flows.StateDown, 15*time.Second)
	first := facts()
	pass(w, 12*time.Second)
	var roots []string
	for _, r := range check.Diagnose(facts(), &first) {
		if r.Root {
			roots = append(roots, fmt.Sprint(r.ID))
		}
	}
	if !slices.Equal(roots, []string{string(check.UDPPath)}) {
		t.Errorf("UDP is cut: root causes %v, want %s", roots, check.UDPPath)
	}
	play(session.CutUDP, "passes again")
	becomes(flows.StateConnected, 90*time.Second)
	play(session.SlowLink, "slow")
	becomes(flows.StateDegraded, time.Minute)
	if r := facts().Sides[flows.A].End("milan").Reading(); r.Latency < 100*ms {
		t.Errorf("a slow link has a round trip of %s", r.Latency)
	}
	play(session.SlowLink, "as it was")
	becomes(flows.StateConnected, 90*time.Second)
	play(session.KillGateway, "gateway of milan")
	becomes(flows.StateDown, 15*time.Second)
	if p := facts().Sides[flows.B].End("rome").Pod; p == nil || p.Waiting == "" {
		t.Errorf("the pod of milan's gateway: got %+v, want one that is started", p)
	}
	becomes(flows.StateConnected, restart+90*time.Second)
	before, _ := w.Contexts(nil)
	play(session.AddCluster, "turin")
	after, _ := w.Contexts(nil)
	if len(after) != len(before)+1 || w.cluster("turin").Facts().Software != flows.NoSoftware {
		t.Errorf("got %d contexts after %d, want one more, with nothing installed", len(after), len(before))
	}
	pair = [2]flows.ContextRef{}
	play(session.CutUDP, "Select")
}

func TestTheDemonstrationHasHealthyServicesAndABrokenOne(t *testing.T) {
	w, _ := begun(t)
	f := flows.Facts{Sides: [2]flows.ClusterFacts{w.cluster("rome").Facts(), w.cluster("milan").Facts()}, At: w.Now()}
	answers := engine.Answers{Now: w.Now}
	if err := answers.Ask(t.Context(), &f, [2]engine.Cluster{w.cluster("rome"), w.cluster("milan")}, service.Asks(types.NamespacedName{}, flows.A, flows.B)...); err != nil {
		t.Fatal(err)
	}
	rows, _, _ := services.Rows(service.ViewOf(f, flows.A))
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Name, r.Type, r.From, fmt.Sprint(r.Problems)))
	}
	want := []string{"shop/api ClusterSetIP [milan] [import: no endpoint is ready: milan 0 of 1; see why the pods are not ready, in the clusters that export it]", "shop/db Headless [paris] []", "shop/web ClusterSetIP [milan rome] []"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What the program plans for the bare cluster can be applied, and connects it.
func TestABareClusterCanBeConnected(t *testing.T) {
	w, _ := begun(t)
	var clusters [2]engine.Cluster
	for i, name := range []string{"rome", "staging"} {
		c, err := w.Open(flows.ContextRef{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		clusters[i] = c
	}
	p := flows.Defaults()
	p.ServiceType, p.Given = "NodePort", flows.AllFields
	var err error
	if p.Install[flows.B], err = install.New(render.InstallParams{ClusterID: "staging", Image: "registry.example/liqo-gateway:v1"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			w.TickTo(w.Now().Add(TickLength))
			time.Sleep(time.Millisecond)
		}
	}()
	plan := func(f flows.Facts) flows.Plan { return flows.PlanConnect(p, f) }
	if err := engine.Run(ctx, flows.Planner(plan), clusters[0], clusters[1], func(engine.Event) {}, engine.Options{Now: w.Now}); err != nil {
		t.Fatal(err)
	}
	v, err := engine.VerifyPair(ctx, clusters[0], clusters[1], engine.VerifyRequest{Now: w.Now}, func(flows.Side, string) {})
	if err != nil || !v.Verified() {
		t.Errorf("got %v, %v, want packets from pod to pod", v.Lines(), err)
	}
}

// The plan that the diagnosis of the first fault advises mends it.
func TestTheFirstFaultIsMendedByItsRemedy(t *testing.T) {
	w, _ := begun(t)
	a, b := w.cluster("paris"), w.cluster("edge-07")
	facts := func() flows.Facts {
		return flows.Facts{Sides: [2]flows.ClusterFacts{a.Facts(), b.Facts()}, At: w.Now()}
	}
	first := facts()
	pass(w, 12*time.Second)
	results := check.Diagnose(facts(), &first)
	root := slices.IndexFunc(results, func(r check.Result) bool { return r.Root && r.Plan != nil })
	if root < 0 {
		t.Fatal("no root cause has a plan")
	}
	p := flows.Defaults()
	for _, s := range flows.Settings() {
		if s.Name == results[root].Plan.Setting {
			if err := s.Set(&p, results[root].Plan.Value); err != nil {
				t.Fatal(err)
			}
			p.Given |= s.Sets
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			w.TickTo(w.Now().Add(TickLength))
			time.Sleep(time.Millisecond)
		}
	}()
	if err := engine.Run(ctx, connect.Goal{Params: p}, a, b, func(engine.Event) {}, engine.Options{Now: w.Now}); err != nil {
		t.Fatal(err)
	}
	if got := w.state("paris", "edge-07"); got != flows.StateConnected {
		t.Errorf("after the remedy %q, paris is %s", results[root].Plan.Means, got)
	}
}

// The key that cuts UDP also mends the faults of the beginning.
func TestTheFirstFaultIsMendedByItsKey(t *testing.T) {
	w, _ := begun(t)
	if got := w.Play(session.CutUDP, [2]flows.ContextRef{{Name: "paris"}, {Name: "edge-07"}}); !strings.Contains(got, "passes again") {
		t.Errorf("got %q", got)
	}
	pass(w, 90*time.Second)
	if got := w.state("paris", "edge-07"); got != flows.StateConnected {
		t.Errorf("got %s, want connected", got)
	}
}

// Paris and edge-07 use the same addresses: who is connected with both sees them under two
// ranges, as the plan has said before.
func TestPeersOfOneRangeAreSeenApart(t *testing.T) {
	w, _ := begun(t)
	var clusters [2]engine.Cluster
	for i, name := range []string{"rome", "edge-07"} {
		c, err := w.Open(flows.ContextRef{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		clusters[i] = c
	}
	before, err := engine.Observe(t.Context(), clusters[0], clusters[1], w.Now)
	if err != nil {
		t.Fatal(err)
	}
	p := flows.Defaults()
	p.ServiceType, p.Given = "NodePort", flows.AllFields
	predicted, err := check.Views(flows.Expected(p, before), flows.A)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			w.TickTo(w.Now().Add(TickLength))
			time.Sleep(time.Millisecond)
		}
	}()
	if err := engine.Run(ctx, connect.Goal{Params: p}, clusters[0], clusters[1], func(engine.Event) {}, engine.Options{Now: w.Now}); err != nil {
		t.Fatal(err)
	}
	after, err := engine.Observe(t.Context(), clusters[0], clusters[1], w.Now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := check.Views(after, flows.A)
	if err != nil {
		t.Fatal(err)
	}
	for i := range predicted {
		predicted[i].Predicted = false
	}
	if !slices.Equal(predicted, got) {
		t.Errorf("rome was to see %v, and sees %v", predicted, got)
	}
	seen := map[networkingv1beta1.CIDR]string{}
	for _, c := range after.Sides[flows.A].Configurations {
		for _, r := range append(slices.Clone(c.Status.Remote.CIDR.Pod), c.Status.Remote.CIDR.External...) {
			if seen[r] != "" {
				t.Errorf("rome sees both %s and %s as %s", seen[r], c.Name, r)
			}
			seen[r] = c.Name
		}
	}
}

// Whatever is typed and however small the terminal is, the first line says what this is.
func TestEveryScreenSaysDEMO(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := New(time.Now())
	var m tea.Model = tui.New(ctx, tui.Options{Backend: w, Start: tui.StartDashboard, Demo: w, Past: w.Live(over(t)), Params: flows.Defaults(), Now: w.Now})
	var every []string
	for _, name := range keys.Names() {
		if name.Command != "quit" {
			every = append(every, name.Keys...)
		}
	}
	every = append(every, "enter", "esc", "tab", "1", "?", "esc", "n", "enter")
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 13}, {40, 12}, {39, 5}, {9, 2}, {120, 40}} {
		m, _ = m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, name := range every {
			m, _ = m.Update(press(name))
			lines := strings.Split(ansi.Strip(fmt.Sprint(m.View().Content)), "\n")
			if !strings.Contains(lines[0], "DEMO") {
				t.Fatalf("%v after %s: the first line is %q", size, name, lines[0])
			}
			for _, line := range lines {
				if len(lines) > size[1] || ansi.StringWidth(line) > size[0] {
					t.Fatalf("%v after %s: %d lines, one of %d cells", size, name, len(lines), ansi.StringWidth(line))
				}
			}
		}
	}
}

// Nobody has watched before the program began.
func TestThePastIsCalledSimulated(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := New(time.Now())
	var m tea.Model = tui.New(ctx, tui.Options{Backend: w, Start: tui.StartDashboard, Demo: w, Past: w.Live(over(t)), Params: flows.Defaults(), Now: w.Now})
	m, _ = m.Update(tea.WindowSizeMsg{Width: 120, Height: 60})
	if got := ansi.Strip(fmt.Sprint(m.View().Content)); !strings.Contains(got, "(history begins there)") {
		t.Errorf("got\n%s", got)
	}
	m, _ = m.Update(press("E"))
	for range 40 {
		m, _ = m.Update(press("G"))
	}
	if got := ansi.Strip(fmt.Sprint(m.View().Content)); !strings.Contains(got, "simulated since ") {
		t.Errorf("got\n%s", got)
	}
}

func press(name string) tea.KeyPressMsg {
	if code, ok := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown}[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	r := []rune(name)
	if len(r) > 1 {
		return tea.KeyPressMsg{Code: r[len(r)-1], Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: r[0], Text: name}
}
