package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/kube"
)

// TestKilledRunsAreContinued kills every plan at each of its changes, against
// real API servers: before the request is sent, after it was carried out and
// before the answer is read, or by a cancellation. Running it again has to end
// where an undisturbed run ends, and a third run has to change nothing.
func TestKilledRunsAreContinued(t *testing.T) {
	t.Parallel()
	s := useStage(t)
	rome, milan := s.planes["rome"], s.planes["milan"]
	p := flows.Defaults()
	p.ServiceType = corev1.ServiceTypeNodePort
	moved := p
	moved.Server, moved.Given = flows.A, flows.FieldServer
	elsewhere := upkeep.DelegateParams{APIServer: [2]string{"https://rome.example:6443", "https://milan.example:6443"}}
	plans := []killed{
		{"init", flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanInit(p, f) })},
		{"connect", connect.Goal{Params: p}},
		{"delegate", flows.Planner(func(f flows.Facts) flows.Plan { return upkeep.Delegate(elsewhere, f) })},
		{"rotate-keys", upkeep.Rotation{}},
		{"the server's move to the other side", connect.Goal{Params: moved}},
		{"disconnect", flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanDisconnect(flows.RemoveOptions{}, f) })},
		{"reset", flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) })},
	}
	kills, ways, first, step := map[string]int{}, len(deaths), 0, 1
	if !sample.All() {
		ways, first, step = 1, int(sample.Seed(t)%uint64(3*len(deaths))), 3
	}
	for n := 1 + first%step; ; n += step {
		reached := 0
		for i := range ways {
			how := deaths[(first/step+n+i)%len(deaths)] // nine seeds have each, at each change
			for _, k := range plans {
				t.Run(fmt.Sprintf("%s, killed %s change %d", k.name, how, n), func(t *testing.T) {
					if !k.die(t, rome, milan, how, n) {
						return // it makes fewer changes, and has made them all
					}
					kills[k.name]++
					reached++
					k.finish(t, rome, milan)
				})
				if t.Failed() {
					t.FailNow() // what follows builds on it
				}
			}
		}
		if reached == 0 {
			break // no plan makes that many changes
		}
	}
	t.Logf("killed: %v", kills)
	for _, k := range plans {
		// Two namespaces and two Configurations; or a server, a client and two keys.
		if kills[k.name] < ways*4/step {
			t.Errorf("%s was killed %d times, want each of its 4 changes or more in %d ways, or every third", k.name, kills[k.name], ways)
		}
	}
}

// killed is a goal whose run is killed.
type killed struct {
	name string
	goal flows.Goal
}

// die runs the plan until its n-th change, and reports whether it got that far.
func (k killed) die(t *testing.T, rome, milan *controlPlane, how death, n int) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &reaper{how: how, left: n, kill: cancel}
	_, err := runPlan(ctx, t, k.goal, r, rome, milan)
	if !r.hasKilled() {
		if err != nil {
			t.Fatalf("undisturbed: %v", err)
		}
		return false
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Logf("killed run: %v", err)
	}
	return true
}

// finish runs the plan again, to its end, and once more with the goal that the second run has settled: a new rotation
// would replace the keys again.
func (k killed) finish(t *testing.T, rome, milan *controlPlane) {
	t.Helper()
	settled, err := runPlan(t.Context(), t, k.goal, &reaper{}, rome, milan)
	if err != nil {
		t.Fatalf("second run: %v", err)
	}
	third := &reaper{}
	if _, err := runPlan(t.Context(), t, settled, third, rome, milan); err != nil {
		t.Fatalf("third run: %v", err)
	}
	if made := third.made(); len(made) > 0 {
		t.Errorf("the third run made changes: %s", strings.Join(made, ", "))
	}
}

// runPlan returns the goal as the run has settled it.
func runPlan(ctx context.Context, t *testing.T, goal flows.Goal, r *reaper, planes ...*controlPlane) (flows.Goal, error) {
	t.Helper()
	clusters := make([]*kube.Cluster, len(planes))
	for i, p := range planes {
		config, err := clientcmd.RESTConfigFromKubeConfig(p.admin)
		if err != nil {
			t.Fatal(err)
		}
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return watched{r, rt} })
		if clusters[i], err = kube.ForConfig(rest.CopyConfig(config), kube.Options{Context: flows.ContextRef{Name: p.name}, Delegation: true}); err != nil {
			t.Fatal(err)
		}
		defer clusters[i].Close()
	}
	var last engine.Event
	err := engine.Run(ctx, goal, clusters[0], clusters[1], func(e engine.Event) { last = e }, engine.Options{Timeout: time.Minute})
	if err == nil && !last.Plan.Done() {
		t.Errorf("the run has ended, and the plan is not done: %+v", last.Plan)
	}
	return last.Goal, err
}

// death is how a program ends at one of its changes.
type death string

const (
	beforeSending  death = "before sending"
	afterSending   death = "after sending"
	byCancellation death = "by a cancellation at"
)

var deaths = []death{beforeSending, afterSending, byCancellation}

// reaper kills a program at one of its changes: from then on none of its
// requests is sent, and no answer arrives.
type reaper struct {
	how  death
	kill context.CancelFunc

	mu      sync.Mutex
	left    int // changes until it dies; 0 for never
	dead    bool
	changes []string
}

func (r *reaper) hasKilled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead
}

// made are the changes that were sent.
func (r *reaper) made() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.changes)
}

var errKilled = errors.New("the program is dead")

// fate says whether the request may be sent, and whether its answer arrives.
func (r *reaper) fate(request *http.Request) (send, answer bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead && r.how != byCancellation {
		return false, false
	}
	if !isChange(request) {
		return true, true
	}
	if r.left > 0 {
		if r.left--; r.left == 0 {
			r.dead = true
			r.kill()
			send, answer = r.how != beforeSending, r.how == byCancellation
			if send {
				r.changes = append(r.changes, request.Method+" "+request.URL.Path)
			}
			return send, answer
		}
	}
	r.changes = append(r.changes, request.Method+" "+request.URL.Path)
	return true, true
}

// isChange reports whether a request changes something: questions about rights
// are sent as creations.
func isChange(r *http.Request) bool {
	return r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/selfsubject") && r.URL.Query().Get("dryRun") == ""
}

type watched struct {
	reaper *reaper
	next   http.RoundTripper
}

func (w watched) RoundTrip(request *http.Request) (*http.Response, error) {
	send, answer := w.reaper.fate(request)
	if !send {
		return nil, errKilled
	}
	response, err := w.next.RoundTrip(request)
	if err == nil && !answer {
		_ = response.Body.Close()
		return nil, errKilled
	}
	return response, err
}
