package board

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// reported is what a gateway says of its peering with peer.
func reported(peer wire.ClusterID, role flows.Role, value networkingv1beta1.ConnectionStatusValue, at time.Time) flows.Reading {
	return flows.Reading{
		Peer: peer, Namespace: wire.TenantNamespaceName(peer), Role: role, CIDRs: true, Created: flowtest.Epoch().Add(-48 * time.Hour),
		Exists: true, Value: value, At: at, Interval: 10 * time.Second, Latency: 1200 * time.Microsecond, Reported: true, Message: "as the gateway says", PodTraffic: at,
	}
}

const (
	up       = networkingv1beta1.Connected
	dialling = networkingv1beta1.Connecting
	broken   = networkingv1beta1.ConnectionError
)

func refsOf(names ...string) []flows.ContextRef {
	refs := make([]flows.ContextRef, len(names))
	for i, name := range names {
		refs[i] = flows.ContextRef{Name: name}
	}
	return refs
}

// toldBy is news of a cluster whose context has the same name.
func toldBy(id wire.ClusterID, changed ...flows.Reading) News {
	return News{Ref: flows.ContextRef{Name: string(id)}, ID: id, UID: "uid-" + string(id), Changed: changed}
}

func silent(name string) News {
	return News{Ref: flows.ContextRef{Name: name}, Problem: &flows.Problem{Kind: flows.Unreachable, Message: "i/o timeout"}}
}

// lines are the rows as short texts.
func (b *board) lines() []string {
	var all []string
	for _, p := range b.List {
		all = append(all, fmt.Sprintf("%s %s %s", p.ends[0].ID, p.ends[1].ID, p.State))
	}
	return all
}

func wantLines(t *testing.T, b *board, want ...string) {
	t.Helper()
	if got := b.lines(); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

func TestAPeeringIsOneRowFromWhicheverSide(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome", "milan"), now)
	b.take(now, []News{toldBy("milan", reported("rome", flows.RoleServer, up, now), reported("turin", flows.RoleServer, up, now))})
	wantLines(t, b, "milan rome connected", "milan turin connected")
	before := b.Rows[PairOf("rome", "milan")]
	b.take(now, []News{toldBy("rome", reported("milan", flows.RoleClient, up, now))})
	wantLines(t, b, "milan turin connected", "rome milan connected")
	row := b.Rows[PairOf("milan", "rome")]
	if row != before || !row.ends[0].Says() || !row.ends[1].Says() || row.History[1].Last == 0 || row.History[1].At(row.History[1].Last) == (session.Point{}) {
		t.Errorf("the row, or what it measured, was lost when its second side came: %+v", row)
	}
	if side, ok := row.server(); !ok || side != flows.B {
		t.Errorf("got server %v, want B, which is milan", side)
	}
}

func TestAClusterThatStopsAnsweringIsAStateOfItsRows(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome", "milan"), now)
	b.take(now, []News{
		toldBy("rome", reported("milan", flows.RoleClient, up, now), reported("turin", flows.RoleClient, up, now)),
		toldBy("milan", reported("rome", flows.RoleServer, up, now)),
	})
	b.take(now.Add(5*time.Second), []News{silent("milan")})
	wantLines(t, b, "rome milan unreachable", "rome turin connected")
	if since := b.Rows[PairOf("rome", "milan")].began(); !since.Equal(now.Add(5 * time.Second)) {
		t.Errorf("got since %s, want when it stopped answering", since)
	}
	b.take(now.Add(9*time.Second), []News{toldBy("milan")})
	wantLines(t, b, "rome milan connected", "rome turin connected")
	if n := b.Rows[PairOf("rome", "milan")].flapCount(b.now); n != 0 {
		t.Errorf("got %d flaps, want none: the tunnel never failed", n)
	}
	if got := len(b.Log.Events); got != 2 {
		t.Errorf("got %d events, want its going and its coming back", got)
	}
}

// A context that has not answered yet may be of any cluster: nothing says that one is missing.
func TestWhoHasNotAnsweredIsNotMissing(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome", "milan"), now)
	b.take(now, []News{toldBy("rome", reported("milan", flows.RoleClient, up, now))})
	if got := b.absence(); got != "not among the contexts that have answered" {
		t.Errorf("milan was not asked yet: got %q", got)
	}
	b.take(now, []News{toldBy("milan")})
	if got := b.absence(); got != "not among the contexts" {
		t.Errorf("all have answered: got %q", got)
	}
}

func TestWhatIsTooOldBecomesStaleWithoutNews(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome"), now)
	b.take(now, []News{toldBy("rome", reported("milan", flows.RoleClient, up, now))})
	stale := now.Add(30*time.Second + time.Millisecond)
	b.take(stale.Add(-time.Millisecond), nil)
	if wake := b.wakes(); !wake.Equal(stale) {
		t.Errorf("got to be woken at %s, want %s", wake, stale)
	}
	b.take(stale, nil)
	wantLines(t, b, "rome milan stale")
	if got := b.Rows[PairOf("rome", "milan")].roundTrip(flows.A, b.now); got != 0 {
		t.Errorf("got a round trip of %s, want none of now", got)
	}
}

// After an outage it matters that it is over, and how long it was. Lost pings of before are no loss of now.
func TestTheEndOfAnOutageSaysHowLongItWas(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome"), now)
	told := func(after time.Duration, value networkingv1beta1.ConnectionStatusValue, loss float64, since time.Duration) {
		now = now.Add(after)
		r := reported("milan", flows.RoleClient, value, now)
		r.Reported, r.Loss, r.Since, r.PodTraffic = true, loss, now.Add(-since), now
		b.take(now, []News{toldBy("rome", r)})
	}
	told(0, up, 0, time.Hour)
	told(10*time.Second, broken, 1, 0)
	told(50*time.Second, up, 0.6, 5*time.Second)
	p := b.Rows[PairOf("rome", "milan")]
	if p.State != view.Recovering || p.Health() != view.Healthy || !strings.HasSuffix(p.Why, "back for 5s") {
		t.Errorf("got %s: %s, want it to recover", p.State, p.Why)
	}
	told(10*time.Second, up, 0, 15*time.Second)
	var got []string
	for _, e := range b.Log.recent() {
		got = append(got, e.line(draw.NewTheme(false, false), "rome/milan"))
	}
	want := []string{"○ rome/milan: recovering (was down): back after 50s", "✓ rome/milan: connected (was recovering)"}
	if !slices.Equal(got[1:], want) {
		t.Errorf("got %q, want %q after the outage", got, want)
	}
}

// Whoever opens the diagnosis of an outage does not wait for observations that could have been made before.
func TestConnectionsThatDoNotWorkAreObserved(t *testing.T) {
	e := around(120, 40)
	s := New(session.Options{Contexts: refsOf("rome")}, e)
	id := PairOf("rome", "milan")
	for _, step := range []struct {
		value networkingv1beta1.ConnectionStatusValue
		want  bool
	}{{up, false}, {broken, true}, {broken, true}, {up, false}} {
		e.Now = e.Now.Add(10 * time.Second)
		s.list.selected = pairID{}
		s = s.Take(e, []News{toldBy("rome", reported("milan", flows.RoleClient, step.value, e.Now))})
		if _, got := s.looks[id]; got != step.want {
			t.Errorf("%s: got an observation: %t, want %t", step.value, got, step.want)
		}
	}
}

// The first minute of an outage is the one in which somebody watches. Later, ages count in minutes, and nothing is
// drawn in between.
func TestTheFirstMinuteCountsInSeconds(t *testing.T) {
	e := around(120, 40)
	s := New(session.Options{Contexts: refsOf("rome")}, e)
	s = s.Take(e, []News{toldBy("rome", reported("milan", flows.RoleClient, up, e.Now))})
	e.Now = e.Now.Add(10 * time.Second)
	s = s.Take(e, []News{toldBy("rome", reported("milan", flows.RoleClient, broken, e.Now))})
	for _, step := range []struct {
		after time.Duration
		want  string
		next  time.Duration
	}{{7 * time.Second, "down 7s", time.Second}, {12 * time.Second, "down 12s", time.Second}, {40 * time.Second, "stale 40s", time.Second}, {3 * time.Minute, "stale 3m", 50 * time.Second}} {
		at := e
		at.Now = e.Now.Add(step.after)
		s = s.Take(at, nil)
		if got := ansi.Strip(strings.Join(s.View(at), "\n")); !strings.Contains(got, step.want) || strings.Contains(got, "<1m") {
			t.Errorf("after %s: got\n%s\nwant %q", step.after, got, step.want)
		}
		if got := s.Ages(at.Now); got != step.next {
			t.Errorf("after %s: got it drawn again after %s, want %s", step.after, got, step.next)
		}
	}
}

func TestFlapsAreCounted(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome"), now)
	for i, value := range []networkingv1beta1.ConnectionStatusValue{broken, dialling, up, broken, dialling, up, dialling} {
		now = now.Add(time.Second)
		r := reported("milan", flows.RoleClient, value, now)
		r.Loss = float64(i%3) / 10
		b.take(now, []News{toldBy("rome", r)})
	}
	row := b.Rows[PairOf("rome", "milan")]
	if got := row.flapCount(now); got != 2 {
		t.Errorf("got %d flaps, want the two times that it had worked before", got)
	}
	if got := row.flapCount(now.Add(24*time.Hour - time.Second)); got != 1 {
		t.Errorf("a day after the first: got %d, want 1", got)
	}
}

func TestOneClusterThroughTwoContexts(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome", "admin@rome"), now)
	second := toldBy("rome", reported("milan", flows.RoleClient, up, now))
	second.Ref.Name = "admin@rome"
	b.take(now, []News{toldBy("rome", reported("milan", flows.RoleClient, up, now)), second})
	wantLines(t, b, "rome milan connected")
	b.take(now, []News{silent("rome")})
	wantLines(t, b, "rome milan connected") // the other way to it works
	second.Ref.Name = "admin@rome"
	b.take(now, []News{{Ref: second.Ref, Problem: &flows.Problem{Message: "i/o timeout"}}})
	wantLines(t, b, "rome milan unreachable")
	if got := b.strangers(); len(got) != 0 {
		t.Errorf("got %q, want nothing to be said of one cluster", got)
	}
}

func TestTwoClustersWithOneIDAreSaid(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome", "other"), now)
	other := toldBy("rome", reported("turin", flows.RoleClient, up, now))
	other.Ref.Name, other.UID = "other", "uid-other"
	b.take(now, []News{toldBy("rome", reported("milan", flows.RoleClient, up, now)), other})
	wantLines(t, b, "rome milan connected")
	if got := strings.Join(b.strangers(), "\n"); !strings.Contains(got, "rome and other are different clusters") {
		t.Errorf("got %q", got)
	}
}

// The wizard tests a connection as soon as it is up, often before the dashboard has heard of it.
func TestATestThatCameBeforeTheRowCounts(t *testing.T) {
	e := around(120, 40)
	s := New(session.Options{Contexts: refsOf("rome", "milan")}, e)
	passed := verify.Result{A: "rome", B: "milan", At: e.Now, Between: verify.Pods, Directions: [2]verify.Direction{{Sent: 5, Received: 5}, {Sent: 5, Received: 5}}}
	s = s.Tested(e, session.VerifiedMsg{Result: passed})
	quiet := func(peer wire.ClusterID, role flows.Role) flows.Reading {
		r := reported(peer, role, up, e.Now)
		r.PodTraffic = time.Time{}
		return r
	}
	s = s.Take(e, []News{toldBy("rome", quiet("milan", flows.RoleClient)), toldBy("milan", quiet("rome", flows.RoleServer))})
	if got := s.Board.lines(); !slices.Equal(got, []string{"rome milan connected"}) {
		t.Errorf("got %q, want a connection that was tested", got)
	}
}

// A cluster that has no ID yet answers, too.
func TestWhoHasNoIDAnswersAllTheSame(t *testing.T) {
	e := around(120, 40)
	s := New(session.Options{Contexts: refsOf("rome", "staging")}, e)
	s = s.Take(e, []News{toldBy("rome", reported("milan", flows.RoleClient, up, e.Now)), {Ref: flows.ContextRef{Name: "staging"}}})
	if got := ansi.Strip(strings.Join(s.View(e), "\n")); strings.Contains(got, "no answer") || strings.Contains(got, "asking") {
		t.Errorf("got\n%s", got)
	}
}

func TestAPeeringThatIsRemovedGoes(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome", "milan"), now)
	b.take(now, []News{
		toldBy("rome", reported("milan", flows.RoleClient, up, now)), toldBy("milan", reported("rome", flows.RoleServer, up, now)),
	})
	gone := toldBy("rome")
	gone.Gone = []wire.ClusterID{"milan"}
	b.take(now, []News{gone})
	wantLines(t, b, "rome milan one-sided")
	gone = toldBy("milan")
	gone.Gone = []wire.ClusterID{"rome"}
	b.take(now, []News{gone})
	wantLines(t, b)
	if e, ok := b.Log.latest(); !ok || e.kind != eventGone {
		t.Errorf("got %+v, want an event of its end", e)
	}
}

func TestSorting(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome"), now)
	slow := reported("slow", flows.RoleClient, up, now)
	slow.Latency = 150 * time.Millisecond
	busy := reported("busy", flows.RoleClient, up, now)
	young := reported("young", flows.RoleClient, dialling, now)
	young.Latency, young.Created = 0, now
	b.take(now, []News{toldBy("rome", slow, busy, young)})
	now = now.Add(10 * time.Second)
	busy.At, busy.Received = now, 1<<20
	slow.At, slow.Received = now, 1<<10
	b.take(now, []News{toldBy("rome", busy, slow)})
	for _, step := range []struct {
		key  column
		want []string
	}{
		{ByStatus, []string{"busy", "slow", "young"}}, // it was the order already: the other way round
		{ByStatus, []string{"young", "busy", "slow"}},
		{byName, []string{"busy", "slow", "young"}},
		{byName, []string{"young", "slow", "busy"}},
		{ByLatency, []string{"slow", "busy", "young"}},
		{ByLatency, []string{"busy", "slow", "young"}}, // what isn't known stays last
		{byThroughput, []string{"busy", "slow", "young"}},
		{byAge, []string{"young", "busy", "slow"}},
	} {
		b.sortBy(step.key)
		var got []string
		for _, p := range b.List {
			got = append(got, string(p.ends[1].ID))
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("by %s: got %v, want %v", step.key, got, step.want)
		}
	}
}

func TestFiltering(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome"), now)
	b.take(now, []News{toldBy(
		"rome",
		reported("milan", flows.RoleClient, up, now), reported("turin", flows.RoleClient, broken, now),
		reported("milan-2", flows.RoleClient, dialling, now),
	)})
	for text, want := range map[string]string{
		"": "turin milan-2 milan", "milan": "milan-2 milan", "MILAN": "milan-2 milan", "!milan": "turin", "status:down": "turin", "status:fail": "turin",
		"down": "turin", "!down": "milan-2 milan", "dow": "", "fail": "turin", "!status:conn": "turin", "status:ok": "milan", "milan !status:connected": "milan-2", "rome": "turin milan-2 milan", "rome/milan": "milan-2 milan", "nobody": "", "! status:": "turin milan-2 milan",
	} {
		b.filterBy(text)
		var got []string
		for _, p := range b.List {
			got = append(got, string(p.ends[1].ID))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %s", text, got, want)
		}
	}
}

// Whatever comes in whatever order, the board that was changed step by step is
// the board that is made at once of what is known at the end.
func TestTheBoardThatGrewIsTheBoardMadeAtOnce(t *testing.T) {
	ids := []wire.ClusterID{"a", "b", "c", "d", "e", "f"} // e and f are not chosen
	chosen := refsOf("a", "b", "c", "d")
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		now := flowtest.Epoch()
		b := newBoard(chosen, now)
		if seed%3 == 0 {
			b.sortBy(column(r.IntN(5)))
		}
		if seed%4 == 0 {
			b.filterBy([]string{"a", "!b", "status:down", "!status:ok"}[r.IntN(4)])
		}
		for range 80 {
			now = now.Add(time.Duration(r.IntN(8000)) * time.Millisecond)
			b.take(now, []News{randomNews(r, ids, now)})
		}
		if seed%2 == 0 {
			now = now.Add(time.Minute)
			b.take(now, nil)
		}
		checkBoard(t, b, now)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomNews(r *rand.Rand, ids []wire.ClusterID, now time.Time) News {
	id := ids[r.IntN(4)]
	if r.IntN(6) == 0 {
		return silent(string(id))
	}
	n := toldBy(id)
	for range r.IntN(3) {
		peer := ids[r.IntN(len(ids))]
		if peer == id {
			continue
		}
		if r.IntN(4) == 0 {
			n.Gone = append(n.Gone, peer)
			continue
		}
		value := []networkingv1beta1.ConnectionStatusValue{up, dialling, broken}[r.IntN(3)]
		reading := reported(peer, flows.RoleClient, value, now)
		reading.Latency, reading.Loss = time.Duration(r.IntN(5))*time.Millisecond, float64(r.IntN(3))/10
		n.Changed = append(n.Changed, reading)
	}
	// One cannot have changed and be gone.
	n.Changed = slices.DeleteFunc(n.Changed, func(c flows.Reading) bool { return slices.Contains(n.Gone, c.Peer) })
	return n
}

func checkBoard(t *testing.T, b *board, now time.Time) {
	t.Helper()
	want := newBoard(nil, now)
	want.Order, want.filter = b.Order, b.filter
	want.sources = append(want.sources, b.sources...)
	want.now = now
	want.settle()
	for id, p := range b.Rows { // rates are not of the present alone
		for i := range p.ends {
			if row, ok := want.Rows[id]; ok {
				row.ends[i].rate = p.ends[i].rate
			}
		}
	}
	want.sort()
	if got, want := b.lines(), want.lines(); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	if b.counts != want.counts {
		t.Errorf("got counts %v, want %v", b.counts, want.counts)
	}
}

// Who was A while the pair was worked on stays A, whichever context comes first.
func TestTheLettersOfAPairStay(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("milan", "rome"), now)
	b.prefer([2]flows.ContextRef{{Name: "rome"}, {Name: "milan"}})
	slow := reported("rome", flows.RoleServer, up, now)
	slow.Latency = 9 * time.Millisecond
	b.take(now, []News{toldBy("rome", reported("milan", flows.RoleClient, up, now)), toldBy("milan", slow)})
	row := b.Rows[PairOf("rome", "milan")]
	if row.ends[flows.A].ID != "rome" || row.roundTrip(flows.B, now) != slow.Latency {
		t.Errorf("got A %s and a round trip of B of %s, want rome, and milan's", row.ends[flows.A].ID, row.roundTrip(flows.B, now))
	}
	b.prefer([2]flows.ContextRef{{Name: "milan"}, {Name: "rome"}})
	if row.ends[flows.A].ID != "milan" || row.roundTrip(flows.A, now) != slow.Latency {
		t.Errorf("turned: got A %s, and a round trip of %s", row.ends[flows.A].ID, row.roundTrip(flows.A, now))
	}
	wantLines(t, b, "milan rome connected")
}

// A pause holds the screen still; what is measured meanwhile is no gap afterwards.
func TestAPauseLeavesNoGap(t *testing.T) {
	e := around(100, 30)
	now := e.Now
	s := New(session.Options{Contexts: refsOf("rome")}, e)
	told := func(bucket int) {
		e.Now = now.Add(time.Duration(bucket) * session.Bucket)
		s = s.Take(e, []News{toldBy("rome", reported("milan", flows.RoleClient, up, e.Now))})
	}
	told(0)
	s = s.pause(e)
	before := strings.Join(s.View(e), "\n")
	for bucket := range 4 {
		told(bucket + 1)
	}
	if got := strings.Join(s.View(e), "\n"); got != before {
		t.Errorf("paused: got\n%s\nwant\n%s", got, before)
	}
	e.Now = now.Add(6 * session.Bucket) // nothing was told in the last two
	s = s.pause(e)
	points := s.Board.Rows[PairOf("rome", "milan")].History[0].Until(e.Now, 7)
	for i, p := range points {
		if known := p != (session.Point{}); known != (i < 5) {
			t.Errorf("bucket %d: known is %t; all: %+v", i, known, points)
		}
	}
}

// The bucket of now is not full yet: it would look like a gap until the next report.
func TestALineEndsWithTheLatestFullBucket(t *testing.T) {
	now := flowtest.Epoch()
	b := newBoard(refsOf("rome"), now)
	for i := range 4 {
		at := now.Add(time.Duration(i) * session.Bucket)
		b.take(at, []News{toldBy("rome", reported("milan", flows.RoleClient, up, at))})
	}
	p := b.Rows[PairOf("rome", "milan")]
	for _, later := range []time.Duration{3 * session.Bucket, 4*session.Bucket + time.Second} {
		if points := p.measured(now.Add(later), 3); slices.Contains(points, session.Point{}) {
			t.Errorf("after %s: got %+v, want no gap", later, points)
		}
	}
}

// 50 contexts of which most don't answer are said in two lines, with how many there are.
func TestANoticeThatIsCutSaysSo(t *testing.T) {
	now := flowtest.Epoch()
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("arn:aws:eks:eu-central-1:123456789012:cluster/number-%02d", i))
	}
	b := newBoard(refsOf(names...), now)
	var all []News
	for _, name := range names[:46] {
		all = append(all, silent(name))
	}
	b.take(now, all)
	head := strings.Join(peeringList{board: b}.head(draw.NewTheme(false, false), 80), "\n")
	if !strings.Contains(head, "no answer from 46 contexts") || strings.Contains(head, "number-00 for") != strings.Contains(head, "and 43 more") && !strings.Contains(head, "…") {
		t.Errorf("got\n%s", head)
	}
	if !strings.Contains(head, "number-00") {
		t.Errorf("got\n%s\nwant the ends of names, which tell them apart", head)
	}
}

// A refused login needs another remedy than a VPN.
func TestARefusedLoginIsNotCalledSilence(t *testing.T) {
	e := around(100, 30)
	refused := silent("nobody")
	refused.Problem = &flows.Problem{Kind: flows.Unauthorized, Message: "https://rome.example does not accept the credentials"}
	s := New(session.Options{Contexts: refsOf("gone", "nobody")}, e).Take(e, []News{silent("gone"), refused})
	view := strings.Join(s.View(e), "\n")
	if !strings.Contains(view, "no answer from gone for 0s: ") || !strings.Contains(view, "login refused: nobody for 0s: https://rome.example does not accept") {
		t.Errorf("got\n%s", view)
	}
	if lines := strings.Join(s.contextsText(e), "\n"); !strings.Contains(lines, "login refused for 0s") {
		t.Errorf("got\n%s", lines)
	}
}

// Contexts that are gone for good are named until the admin has seen enough of them; a page
// has all.
func TestSilentContextsAreHiddenAndListed(t *testing.T) {
	e := around(100, 30)
	s := New(session.Options{Contexts: refsOf("gone-1", "rome", "gone-2")}, e).Take(e, []News{silent("gone-1"), silent("gone-2"), toldBy("rome", reported("milan", flows.RoleClient, up, e.Now))})
	view := func() string { return strings.Join(s.View(e), "\n") }
	if got := view(); !strings.Contains(got, "no answer from 2 contexts: gone-1") {
		t.Errorf("got\n%s", got)
	}
	s, _ = s.Update(e, actHide)
	if got := view(); strings.Contains(got, "gone-1") || !strings.Contains(got, "no answer from 2 contexts, hidden") {
		t.Errorf("got\n%s", got)
	}
	s, _ = s.Update(e, pageContexts)
	if slices.ContainsFunc(s.Commands(e), func(c keys.Command) bool { return c.Msg == pageContexts }) {
		t.Error("the page of all contexts is offered on itself")
	}
	lines := s.contextRows(e.Theme, e, e.Width)[1:]
	for i, want := range []string{"gone-1", "  i/o timeout", "gone-2", "  i/o timeout", "rome"} {
		if !strings.HasPrefix(lines[i], want) || strings.Contains(lines[i], "no answer for 0s") != strings.HasPrefix(want, "gone") {
			t.Errorf("got %q", lines[i])
		}
	}
	if got := ansi.Strip(lines[4]); !strings.Contains(got, "✓ rome ") || !strings.HasSuffix(got, "✓ milan") {
		t.Errorf("got %q, want the peers beside it", got)
	}
	s, _ = s.Update(e, actBack)
	if s.Detail {
		t.Error("back from the contexts does not lead to the list")
	}
}

func TestHidingNothingSaysSo(t *testing.T) {
	e, note := around(80, 24), ""
	e.Post = func(msg tea.Msg) { note = fmt.Sprint(msg) }
	s := New(session.Options{Contexts: refsOf("rome")}, e).Take(e, []News{toldBy("rome", reported("milan", flows.RoleClient, up, e.Now))})
	if s, _ = s.Update(e, actHide); note == "" || s.Board.hides {
		t.Errorf("got note %q, and later silent contexts hidden: %t", note, s.Board.hides)
	}
}

// The names of contexts that clouds give differ in their ends.
func TestSilentContextsWithLongNamesDiffer(t *testing.T) {
	const arn = "arn:aws:eks:eu-central-1:123456789012:cluster/"
	e := around(80, 24)
	of := func(name string) flows.ContextRef {
		return flows.ContextRef{File: "/home/ada/kubeconfig", Name: arn + name}
	}
	problem := &flows.Problem{Kind: flows.Unreachable, Message: "https://a.very.long.name.of.an.api.server.example.org:6443: connect: connection refused"}
	s := New(session.Options{Contexts: []flows.ContextRef{of("rome"), of("milan")}}, e).Take(e, []News{{Ref: of("rome"), Problem: problem}, {Ref: of("milan"), Problem: problem}})
	got := ansi.Strip(strings.Join(s.View(e), "\n"))
	for _, want := range []string{"cluster/rome for", "cluster/milan for", "No cluster answers. Press i for the reasons."} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant it to say %q", got, want)
		}
	}
	if all := ansi.Strip(strings.Join(s.contextsText(e), "\n")); strings.Count(all, "connection refused") != 2 {
		t.Errorf("got\n%s\nwant both reasons whole", all)
	}
}

// The traffic above the rows is of all of them, says what it does not know, and is of now.
func TestTotalsSayWhatTheyAreOf(t *testing.T) {
	now := flowtest.Epoch()
	e := around(120, 40)
	s := New(session.Options{Contexts: refsOf("rome", "milan", "oslo")}, e)
	send := func(at time.Time, bytes uint64, peers ...wire.ClusterID) {
		n := toldBy("rome")
		for _, peer := range peers {
			r := reported(peer, flows.RoleClient, up, at)
			r.Received, r.Sent = 3*bytes, bytes
			n.Changed = append(n.Changed, r)
		}
		e.Now = at
		s = s.Take(e, []News{n, silent("oslo")})
	}
	above := func() string { return ansi.Strip(s.Heading(e)) }
	send(now, 0, "milan", "oslo")
	if got := above(); strings.Contains(got, "traffic") || !strings.Contains(got, "2 ") {
		t.Errorf("got %q", got)
	}
	if got := ansi.Strip(strings.Join(s.View(e), "\n")); !strings.Contains(got, "no answer from oslo") {
		t.Errorf("got\n%s", got)
	}
	send(now.Add(10*time.Second), 10<<10, "milan")
	if got := above(); !strings.HasSuffix(got, "traffic 4.00K/s, of 1 of 2 connections") {
		t.Errorf("got %q", got)
	}
	e.Now = now.Add(10*time.Second + 3*time.Minute)
	s = s.Take(e, nil)
	if got := above(); strings.Contains(got, "traffic") {
		t.Errorf("got %q, want no traffic of three minutes ago", got)
	}
	for i := range 2 {
		send(now.Add(4*time.Minute+time.Duration(i)*10*time.Second), uint64(20+10*i)<<10, "milan", "oslo")
	}
	if got := above(); !strings.HasSuffix(got, "traffic 8.00K/s") {
		t.Errorf("got %q", got)
	}
}

// Rows and detail divide the screen as the admin wants, and never so that one is lost.
func TestTheListAndTheDetailDivideTheScreen(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}} {
		e := around(size[0], size[1])
		var notes []string
		e.Post = func(msg tea.Msg) { notes = append(notes, fmt.Sprint(msg)) }
		var all []News
		var names []string
		for i := range 30 {
			name := fmt.Sprintf("cluster-%02d", i)
			names = append(names, name)
			all = append(all, toldBy(wire.ClusterID(name), reported("hub", flows.RoleClient, up, e.Now)))
		}
		s := New(session.Options{Contexts: refsOf(names...)}, e).Take(e, all)
		for range 40 {
			before := s.listHeight(e)
			s, _ = s.Update(e, resizeMsg(+2))
			if grown := s.listHeight(e); grown != before+2 && grown != before {
				t.Fatalf("%v: got %d lines after %d", size, grown, before)
			}
		}
		if pane := s.paneHeight(e); size[1] >= belowHeight && pane < belowLines {
			t.Errorf("%v: the detail has %d lines", size, pane)
		}
		for range 40 {
			s, _ = s.Update(e, resizeMsg(-2))
		}
		if s.listHeight(e) < min(aroundRows, e.Body) || len(notes) == 0 {
			t.Errorf("%v: the list has %d lines, notes %q", size, s.listHeight(e), notes)
		}
		if lines := s.View(e); len(lines) > e.Body {
			t.Errorf("%v: got %d lines", size, len(lines))
		}
	}
}
