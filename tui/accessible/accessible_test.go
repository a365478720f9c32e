package accessible_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui/accessible"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// world is a kubeconfig with two clusters in memory, and one that is gone.
type world struct{ pair *flowtest.Pair }

func (w world) Contexts([]string) ([]session.Context, []error) {
	var contexts []session.Context
	for _, name := range []string{"kind-rome", "kind-milan", "edge-07"} {
		contexts = append(contexts, session.Context{Ref: flows.ContextRef{Name: name}})
	}
	return contexts, []error{errors.New("kubeconfig /home/ada/old: no such file")}
}

func (w world) Open(ref flows.ContextRef) (engine.Cluster, error) {
	switch ref.Name {
	case "kind-rome":
		return w.pair.A, nil
	case "kind-milan":
		return w.pair.B, nil
	}
	return nil, fmt.Errorf("dial tcp 10.77.0.7:6443: i/o timeout")
}

func converse(p *flowtest.Pair, in string) (string, error) {
	return converseOn(context.Background(), p, strings.NewReader(in))
}

func converseOn(ctx context.Context, p *flowtest.Pair, in io.Reader) (string, error) {
	var out bytes.Buffer
	err := accessible.Run(ctx, optionsFor(p), in, &out)
	return out.String(), err
}

func optionsFor(p *flowtest.Pair) session.Options {
	return session.Options{
		Backend: world{p}, Params: flows.Defaults(), Now: p.Now,
		Command: func(r session.Request) command.Command {
			return command.Ours("network", r.Goal.String()).On(r.A.Flags(), r.B.Flags())
		},
		Install: func(f flows.ClusterFacts, _ wire.ClusterID) (flows.Installation, error) {
			return install.New(render.InstallParams{ClusterID: "milan", Image: "example.org/liqo-gateway:v1"})
		},
	}
}

// answers connect rome and milan: every line is needed.
const answers = "1\n2\n\napply\n"

func TestItIsLinesWithoutDrawing(t *testing.T) {
	got, err := converse(flowtest.NewPair(), answers)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(got, "\x1b\r\b") {
		t.Errorf("got control characters in %q", got)
	}
	if drawn := regexp.MustCompile(`[─│┌▸✓✗]`).FindString(got); drawn != "" {
		t.Errorf("got %s, which a screen reader can't say", drawn)
	}
}

// slowly gives lines one by one, with a minute before each.
type slowly struct {
	*strings.Reader
	pair *flowtest.Pair
}

func (s slowly) Read(p []byte) (int, error) {
	s.pair.Advance(time.Minute)
	return s.Reader.Read(p[:2])
}

func TestAnAdminWhoTakesMinutesHearsOfNow(t *testing.T) {
	pair := flowtest.NewPair()
	if _, err := converse(pair, answers); err != nil {
		t.Fatal(err)
	}
	got, err := converseOn(t.Context(), pair, slowly{strings.NewReader("1\n2\nq\n"), pair})
	if !errors.Is(err, accessible.ErrLeft) {
		t.Fatal(err)
	}
	if strings.Contains(got, "stale") || !strings.Contains(got, "rome says of its connection with milan: tunnel up") {
		t.Errorf("the reports are those of minutes ago:\n%s", got)
	}
}

func TestTheEndOfTheInputIsNoAnswer(t *testing.T) {
	for end := range len(answers) {
		pair := flowtest.NewPair()
		got, err := converse(pair, answers[:end])
		if !errors.Is(err, accessible.ErrNoAnswer) {
			t.Errorf("input %q: got %v, want %v\n%s", answers[:end], err, accessible.ErrNoAnswer, got)
		}
		if log := pair.Log(); len(log) > 0 {
			t.Errorf("input %q: got writes %v", answers[:end], log)
		}
	}
}

func TestOnlyTheWordApplies(t *testing.T) {
	for _, word := range []string{"q", "no\nq", "yes\nq", "y\nq", "\nq", "APPLY\nq", "diff\nq"} {
		pair := flowtest.NewPair()
		_, err := converse(pair, "1\n2\n\n"+word+"\n")
		if !errors.Is(err, engine.ErrDeclined) {
			t.Errorf("%q: got %v, want %v", word, err, engine.ErrDeclined)
		}
		if log := pair.Log(); len(log) > 0 {
			t.Errorf("%q: got writes %v", word, log)
		}
	}
}

func TestTheOperatorIsInstalledWhereNothingIs(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Bare()
	got, err := converse(pair, answers)
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	if want := "installing the operator, as milan, becomes a part of the plan"; !strings.Contains(got, want) {
		t.Errorf("it does not say %q:\n%s", want, got)
	}
	if got := pair.B.Facts().Software; got != flows.Operator {
		t.Errorf("got %s", got)
	}
}

func TestAFailureIsSaidWithWhatToDo(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Behave(func(b *flowtest.Behaviour) {
		b.WriteErrors = map[int]error{3: flowtest.Forbidden("ada", "gatewayservers", "liqo-tenant-rome")}
	})
	got, err := converse(pair, answers)
	if _, ok := errors.AsType[*flows.StepError](err); !ok {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"Failed: GatewayServer rome on milan", "To do: ", "To continue: liqo-tui network connect --context kind-rome"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
}

func TestASignalEndsAQuestion(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, typed := io.Pipe()
	defer typed.Close()
	go func() {
		_, _ = io.WriteString(typed, "1\n")
		cancel()
	}()
	if _, err := converseOn(ctx, flowtest.NewPair(), in); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTextOfAClusterCantDrawOnTheTerminal(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Behave(func(b *flowtest.Behaviour) { b.PodWaiting = "\x1b[2JImagePullBackOff\n\u202eevil" })
	o, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, _ := converseOn(o, pair, strings.NewReader(answers))
	if strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("it reaches the terminal: %q", got)
	}
	if !strings.Contains(got, "ImagePullBackOff") {
		t.Errorf("it does not say what the pod waits for:\n%s", got)
	}
}

// An entry of the table is all that a question needs.
func TestASettingOfTheTableIsAQuestion(t *testing.T) {
	p := flowtest.NewPair()
	o := optionsFor(p)
	cable := "red"
	o.Settings = append(flows.Settings(), flows.ConnectionSetting{
		Name: "cable", Label: "Colour of the cable", Explain: "It is laid out in the sun.", Kind: setting.Choice,
		Options: []setting.Option{{Value: "red"}, {Value: "blue"}},
		Store:   setting.Store[flows.Params]{Write: func(flows.Params) string { return cable }, Read: func(_ *flows.Params, text string) { cable = text }},
	})
	var out strings.Builder
	in := "1\n2\nedit\n" + strings.Repeat("\n", 9) + "?\ngreen\nblue\nq\n"
	if err := accessible.Run(t.Context(), o, strings.NewReader(in), &out); err == nil || cable != "blue" {
		t.Errorf("got %v and a %s cable, want a blue one, and nothing done:\n%s", err, cable, out.String())
	}
	for _, want := range []string{"Colour of the cable: red.", "Colour of the cable, red or blue: red.", "It is laid out in the sun.", `"green" can't be used: want red or blue.`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it never says %q:\n%s", want, out.String())
		}
	}
}
