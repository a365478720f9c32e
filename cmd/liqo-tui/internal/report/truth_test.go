package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// trouble is what can be the matter with a cluster while it is connected.
var trouble = map[string]func(*flowtest.Behaviour){
	"nothing":          func(*flowtest.Behaviour) {},
	"wrong key":        func(b *flowtest.Behaviour) { b.WrongKey = true },
	"no reports":       func(b *flowtest.Behaviour) { b.NoReports = true },
	"no keys":          func(b *flowtest.Behaviour) { b.NoKeys = true },
	"no addresses":     func(b *flowtest.Behaviour) { b.NoCIDRs = true },
	"a pod that waits": func(b *flowtest.Behaviour) { b.PodWaiting = "ImagePullBackOff" },
	"no operator":      func(b *flowtest.Behaviour) { b.Silent = true },
	"lost for a while": func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 4, For: 5}} },
	"a write refused": func(b *flowtest.Behaviour) {
		b.WriteErrors = map[int]error{3: flowtest.Forbidden("ada", "gatewayservers", "liqo-tenant-rome")}
	},
}

// Whatever goes wrong on whichever side: no line of a run says that something works
// before the clusters have said so.
func TestNoRunTellsMoreThanWasSeen(t *testing.T) {
	for name, behave := range trouble {
		for _, troubled := range []flows.Side{flows.A, flows.B} {
			t.Run(fmt.Sprintf("%s on %s", name, troubled), func(t *testing.T) {
				p := flowtest.NewPair()
				p.Side(troubled).Behave(behave)
				params := flowtest.NodePort()
				params.Wait = flows.WaitVerified
				var lines, text bytes.Buffer
				n := &NDJSON{Out: &lines, Now: p.Now}
				tr := &transcript{out: &text, err: &text}
				n.Begin("connect", flows.ContextRef{}, flows.ContextRef{})
				var seen flows.Facts
				plan := func(f flows.Facts) flows.Plan { return flows.PlanConnect(params, f) }
				works := func(side flows.Side) bool {
					state, _ := seen.End(side).Reading().State(seen.At)
					return state.Works()
				}
				err := engine.Run(t.Context(), flows.Planner(plan), p.A, p.B, func(e engine.Event) {
					seen = e.Facts
					lines.Reset()
					text.Reset()
					n.Event(e)
					tr.Event(e)
					for line := range strings.Lines(lines.String()) {
						var said map[string]any
						if err := json.Unmarshal([]byte(line), &said); err != nil {
							t.Fatal(err)
						}
						side := map[any]flows.Side{"a": flows.A, "b": flows.B}[said["side"]]
						c := seen.Sides[side]
						end := c.End(seen.Sides[side.Other()].ID)
						ok := true
						switch done := said["type"] == "step.end" && said["result"] == "done"; {
						case done && strings.HasPrefix(fmt.Sprint(said["step"]), "connected-"):
							ok = works(side)
						case done && said["step"] == "verified":
							ok = seen.Measured.Value() != nil && seen.Measured.Value().OK
						case said["milestone"] == "pod":
							ok = end.Pod != nil && end.Pod.Ready
						case said["milestone"] == "key":
							ok = end.Key != nil
						}
						if !ok {
							t.Errorf("%s, at %s", line, seen.At)
						}
					}
					if strings.Contains(text.String(), "Connected") && !works(flows.A) && !works(flows.B) {
						t.Errorf("got %q, where no side works", text.String())
					}
				}, engine.Options{Now: p.Now, Timeout: time.Minute})
				if verified := seen.Measured.Value() != nil && seen.Measured.Value().OK; (err == nil) != verified {
					t.Errorf("got %v, where the measurement says %+v", err, seen.Measured.Value())
				}
			})
		}
	}
}

// A context's name is no ID, and the current context has a name.
func TestAClusterWithoutAnIDHasNoneForPrograms(t *testing.T) {
	p := flowtest.NewPair()
	p.A.Be(func(f *flows.ClusterFacts) { f.ID, f.HasCRDs, f.Software = "", false, flows.NoSoftware })
	for _, format := range []string{JSON, EventStream} {
		var out, progress bytes.Buffer
		var r Reporter = &NDJSON{Out: &out, Now: p.Now}
		if format == JSON {
			var err error
			if r, err = New(&out, &progress, format); err != nil {
				t.Fatal(err)
			}
		}
		r.Begin("connect", flows.ContextRef{}, flows.ContextRef{})
		plan := func(f flows.Facts) flows.Plan { return flows.PlanConnect(flowtest.NodePort(), f) }
		r.End(engine.Run(t.Context(), flows.Planner(plan), p.A, p.B, r.Event, engine.Options{Now: p.Now}), Achieved{})
		if strings.Contains(out.String(), `"id":"kind-rome"`) || strings.Contains(out.String(), `"id": "kind-rome"`) || strings.Count(out.String(), `kind-rome"`) == 0 {
			t.Errorf("%s: got %s", format, out.String())
		}
	}
}

// A step that is done says what it did, not what a plan would do with it now.
func TestADocumentSaysWhatStepsHaveDone(t *testing.T) {
	p := flowtest.NewPair()
	var out, progress bytes.Buffer
	d, err := New(&out, &progress, JSON)
	if err != nil {
		t.Fatal(err)
	}
	d.Begin("connect", flows.ContextRef{}, flows.ContextRef{})
	plan := func(f flows.Facts) flows.Plan { return flows.PlanConnect(flowtest.NodePort(), f) }
	if err := engine.Run(t.Context(), flows.Planner(plan), p.A, p.B, d.Event, engine.Options{Now: p.Now}); err != nil {
		t.Fatal(err)
	}
	d.End(nil, Achieved{})
	var doc struct {
		Steps []struct{ Step, Action, Status string }
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	created := 0
	for _, s := range doc.Steps {
		if s.Action == "update" {
			t.Errorf("got %+v of a run that has created everything", s)
		}
		if s.Action == "create" {
			created++
		}
	}
	if created < 6 {
		t.Errorf("got %d steps that created something:\n%s", created, out.String())
	}
}
