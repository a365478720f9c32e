//go:build linux

package accessible_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/tui/accessible"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// A transcript is a whole conversation as a terminal shows it: this test binary
// converses in a process of its own, whose terminal echoes what is typed, edits
// lines, and makes signals of ctrl+c and an end of input of ctrl+d.

const transcriptEnv = "ACCESSIBLE_TRANSCRIPT"

// Keys that the terminal itself takes.
const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	erase = "\x7f"
)

// answer is typed when its question is asked.
type exchange struct{ question, answer string }

// transcripts are the conversations; exit is the process' own code.
var transcripts = map[string]struct {
	prepare func(*flowtest.Pair, *session.Options)
	talk    []exchange
	exit    int
}{
	"connect": {nil, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"settings right?", ""}, {"Go on?", "apply"},
	}, 0},
	"settings": {nil, []exchange{
		{"Local cluster", "1"},
		{"Remote cluster", "2"},
		{"settings right?", "edit"},
		{"Gateway server on", "?"},
		{"Gateway server on", "rome"},
		{"Reached through", "nodeport"},
		{"UDP port", ""},
		{"Node port: ", "99999"},
		{"Node port: ", "31840"},
		{"Client dials", "gw.example.org"},
		{"At UDP port", ""},
		{"Relay", ""},
		{"MTU at most: ", "large"},
		{"MTU at most: ", "1280"},
		{"Done when", "applied"},
		{"Go on?", "diff"},
		{"Go on?", "apply"},
	}, 0},
	"wrong-answers": {nil, []exchange{
		{"Local cluster", "7"},
		{"Local cluster", "rome"},
		{"Local cluster", "1"},
		{"Remote cluster", "1"},
		{"Remote cluster", "22" + erase},
		{"settings right?", "yes"},
		{"settings right?", ""},
		{"Go on?", "y"},
		{"Go on?", ""},
		{"Go on?", "q"},
	}, 1},
	"end-of-input": {nil, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"settings right?", ""}, {"Go on?", ctrlD},
	}, 1},
	"change": {connected, []exchange{
		{"Local cluster", "1"},
		{"Remote cluster", "2"},
		{"What to do?", "change"},
		{"settings right?", "edit"},
		{"Gateway server on", ""},
		{"Reached through", ""},
		{"UDP port", ""},
		{"Node port: ", ""},
		{"Client dials", ""},
		{"At UDP port", ""},
		{"Relay", ""},
		{"MTU at most: ", "1280"},
		{"Done when", ""},
		{"Go on?", "apply"},
	}, 0},
	"nothing-to-change": {connected, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"What to do?", "change"}, {"settings right?", ""},
	}, 0},
	"disconnect": {connected, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"What to do?", "disconnect"}, {"Go on?", "apply"},
	}, 0},
	"reset": {connected, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"What to do?", "reset"}, {"Go on?", "apply"},
	}, 0},
	"reset-without-the-other": {func(p *flowtest.Pair, o *session.Options) {
		connected(p, o)
		p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
	}, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "gone"}, {"What to do?", "reset"}, {"Go on?", "apply"},
	}, 0},
	"protected": {func(_ *flowtest.Pair, o *session.Options) {
		o.Protected = func(ref flows.ContextRef) bool { return ref.Name == "kind-milan" }
	}, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"settings right?", ""}, {"Go on?", "apply"}, {"Go on?", "kind-milan"},
	}, 0},
	"failure": {func(p *flowtest.Pair, _ *session.Options) {
		p.B.Behave(func(b *flowtest.Behaviour) {
			b.WriteErrors = map[int]error{3: flowtest.Forbidden("ada", "gatewayservers", "liqo-tenant-rome")}
		})
	}, []exchange{
		{"Local cluster", "1"},
		{"Remote cluster", "2"},
		{"settings right?", ""},
		{"Go on?", "apply"},
		{"What now?", "again"},
		{"Go on?", "apply"},
	}, 0},
	"reach": {sharing, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"What to do?", "change"}, {"settings right?", ""}, {"Service, number", "1"}, {"Go on?", "apply"},
	}, 0},
	"reach-nothing": {sharing, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"What to do?", "change"}, {"settings right?", ""}, {"Service, number", "none"},
	}, 0},
	"reach-with-one": {func(p *flowtest.Pair, o *session.Options) {
		sharing(p, o)
		p.B.Behave(func(b *flowtest.Behaviour) { b.Services = false })
		p.Advance(time.Minute)
	}, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"What to do?", "change"}, {"settings right?", ""},
	}, 0},
	"ctrl+c-at-a-question": {nil, []exchange{{"Local cluster", "1"}, {"Remote cluster", ctrlC}}, 1},
	"ctrl+c-in-a-run": {func(p *flowtest.Pair, o *session.Options) {
		o.Protected = func(flows.ContextRef) bool { p.Pacing = flowtest.Manual; return false } // from the plan on, time stands still
	}, []exchange{
		{"Local cluster", "1"}, {"Remote cluster", "2"}, {"settings right?", ""}, {"Go on?", "apply"}, {"has reported nothing yet", ctrlC},
	}, 1},
}

// connected is the pair as an earlier run has left it.
func connected(p *flowtest.Pair, _ *session.Options) {
	plan := func(f flows.Facts) flows.Plan {
		params := flows.Defaults()
		params.ServiceType = "NodePort"
		return flows.PlanConnect(params, f)
	}
	if err := engine.Run(context.Background(), flows.Planner(plan), p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now}); err != nil {
		panic(err)
	}
	p.Forget()
}

// sharing is the connected pair with Services. milan has one, and both can run pods.
func sharing(p *flowtest.Pair, o *session.Options) {
	for _, c := range []*flowtest.Cluster{p.A, p.B} {
		c.Behave(func(b *flowtest.Behaviour) { b.Services = true })
		c.PutAs("kubectl", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	}
	p.B.PutAs("kubectl", &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.7", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}, &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-abcde", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.5"}}},
	})
	connected(p, o)
	o.Backend = equipped{world{p}}
}

// equipped has clusters that can run pods.
type equipped struct{ world }

func (e equipped) Open(ref flows.ContextRef) (engine.Cluster, error) {
	c, err := e.world.Open(ref)
	if err != nil {
		return nil, err
	}
	return simulated.Equipped{Cluster: c.(*simulated.Cluster)}, nil
}

func TestMain(m *testing.M) {
	if name := os.Getenv(transcriptEnv); name != "" {
		os.Exit(transcribe(name))
	}
	os.Exit(m.Run())
}

// transcribe is the process of one conversation.
func transcribe(name string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pair := flowtest.NewPair()
	o := optionsFor(pair)
	if prepare := transcripts[name].prepare; prepare != nil {
		prepare(pair, &o)
	}
	if err := accessible.Run(ctx, o, os.Stdin, os.Stdout); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

func TestTranscripts(t *testing.T) {
	for name, test := range transcripts {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), transcriptEnv+"="+name)
			terminal, inside := openTerminal(t)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			heard := listen(terminal)
			from := 0
			for _, e := range test.talk {
				from = heard.wait(t, from, e.question)
				line := e.answer
				if line != ctrlC && line != ctrlD {
					line += "\n"
				}
				if _, err := terminal.WriteString(line); err != nil {
					t.Fatal(err)
				}
			}
			err := cmd.Wait()
			if _, err := inside.WriteString(lastLine); err != nil {
				t.Fatal(err)
			}
			heard.wait(t, from, lastLine)
			if got := cmd.ProcessState.ExitCode(); got != test.exit {
				t.Errorf("got exit code %d (%v), want %d", got, err, test.exit)
			}
			compare(t, name, strings.TrimSuffix(heard.String(), lastLine))
		})
	}
}

// lastLine is what the test itself says when the program has ended.
const lastLine = "that was all\n"

// openTerminal is a terminal, from outside and from inside. The test keeps the
// inside open: what a program says last could be lost with it. For the same reason
// ctrl+c does not discard what waits to be shown, as it does by default.
func openTerminal(t *testing.T) (terminal, inside *os.File) {
	t.Helper()
	terminal, inside, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { terminal.Close(); inside.Close() })
	state, err := unix.IoctlGetTermios(int(inside.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	state.Lflag |= unix.NOFLSH
	if err := unix.IoctlSetTermios(int(inside.Fd()), unix.TCSETS, state); err != nil {
		t.Fatal(err)
	}
	return terminal, inside
}

// transcript is what a terminal has shown so far.
type transcript struct {
	mu    sync.Mutex
	text  bytes.Buffer
	more  chan struct{}
	ended chan struct{}
}

func listen(terminal *os.File) *transcript {
	s := &transcript{more: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		piece := make([]byte, 4096)
		for {
			n, err := terminal.Read(piece)
			s.mu.Lock()
			s.text.Write(piece[:n])
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			if err != nil {
				return // on Linux, EIO: the process has ended
			}
		}
	}()
	return s
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// wait waits until a text is followed by the end of a question, or of a line,
// and gives the place behind it.
func (s *transcript) wait(t *testing.T, from int, text string) int {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		said := s.String()
		if i := strings.Index(said[from:], text); i >= 0 && strings.ContainsAny(said[from+i:], ":\n") {
			return from + i + len(text) + strings.IndexAny(said[from+i+len(text):], ":\n") + 1
		}
		select {
		case <-s.more:
		case <-s.ended:
			t.Fatalf("it ended before it said %q:\n%s", text, said)
		case <-deadline:
			t.Fatalf("it does not say %q:\n%s", text, said)
		}
	}
}

// compare holds a transcript against its file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	// Which of the two is found first to run no probes is left to chance.
	got = strings.Replace(got, "measure: milan: can't", "measure: rome: can't", 1)
	golden.Compare(t, name+".txt", got)
}
