package e2e

import (
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// wizard opens the real program on the lab, for the arrow keys and Enter alone.
func (l lab) wizard(t *testing.T, program string, width, height int, args ...string) *terminal {
	t.Helper()
	args = append([]string{"wizard", "--kubeconfig", l.kubeconfig, "--image", labImage}, args...)
	return openTerminal(t, width, height, nil, program, args...)
}

// choosePair chooses both clusters from the list. If nothing connects them, the program
// has chosen them already, and Escape leads to the list.
func (s *terminal) choosePair() {
	s.t.Helper()
	eventually(s.t, 30*time.Second, func() error {
		switch screen := s.Screen(); {
		case strings.Contains(screen, "chose these two"):
			s.Press("Escape")
		case strings.Contains(screen, "Choose the first") && strings.Contains(screen, "lab-milan") && strings.Contains(screen, "lab-rome") &&
			!strings.Contains(screen, "asking"):
			return nil
		}
		return errors.New("there is no list of clusters that have answered")
	})
	s.Press("Enter")
	s.Wait(30*time.Second, "Choose the other cluster")
	s.Press("Down")
	s.Press("Enter")
}

func TestLabWizard(t *testing.T) {
	l := useLab(t)
	// Nothing is installed on milan: the plan includes the installation.
	l.installImage(t, "rome", labImage)
	l.runPods(t)
	program := program(t)
	t.Run("the only two clusters are connected", func(t *testing.T) {
		s := l.wizard(t, program, 80, 24)
		s.Wait(30*time.Second, "chose these two", "lab-milan  https://", "lab-rome  https://", "passed", " Apply:", "What it means")
		s.Press("i")
		s.Wait(30*time.Second, "2 Preflight", "passed", "may do")
		s.Press("Escape")
		s.Wait(30*time.Second, " Apply:")
		s.toForm()
		s.chooseNodePort()
		s.Press("Enter")
		s.Wait(30*time.Second, " Apply:", "What it means")
		s.Press("Enter")
		s.Wait(30*time.Second, "Apply these changes?", "┃ Yes, apply")
		time.Sleep(time.Second) // an Enter that comes at once may repeat the one before, and is ignored
		s.Press("Enter")
		s.Wait(30*time.Second, "Apply", "done", "now:")
		s.Wait(120*time.Second, "each gateway gets answers")
		s.Wait(60*time.Second, "verified from ")
		s.Resize(120, 40)
		s.Wait(30*time.Second, strings.Repeat("─", 100))
		s.Press("q")
		if code := s.Exit(30 * time.Second); code != "0" {
			t.Errorf("got exit code %s, want 0", code)
		}
		s.Wait(30*time.Second, "says: tunnel up", "network reset")
	})

	t.Run("a cluster that is lost is a state of the screen", func(t *testing.T) {
		way := l.detour(t, "lab-milan")
		s := openTerminal(t, 80, 24, nil, program, "wizard", "--kubeconfig", way.kubeconfig, "--context", "lab-rome",
			"--remote-kubeconfig", way.kubeconfig, "--remote-context", "lab-milan")
		s.Wait(20*time.Second, "each gateway gets answers")
		way.close()
		s.Wait(40*time.Second, "not answering", "tunnel up")
		way.open(t)
		s.Wait(40*time.Second, "each gateway gets answers")
		s.Press("q")
		s.Exit(30 * time.Second)
	})

	t.Run("ctrl+c in the middle of a change, and again from the start", func(t *testing.T) {
		l.reset().want(t, exit.OK)
		s := l.wizard(t, program, 80, 24)
		s.choosePair()
		s.Wait(30*time.Second, "Apply these changes?", "┃ Yes, apply")
		s.Press("n")
		s.Wait(30*time.Second, " Apply:", "passed")
		s.toForm()
		s.chooseNodePort()
		s.Press("Enter")
		s.Wait(30*time.Second, " Apply:")
		s.Press("Enter")
		s.Wait(30*time.Second, "┃ Yes, apply")
		s.Press("y")
		s.Wait(20*time.Second, "done     ", "waiting")
		s.Press("C-c")
		s.Wait(15*time.Second, "stopped", "continue where it stopped", "objects that the run has created")
		s.Press("q") // leave it as it is
		if code := s.Exit(30 * time.Second); code != "130" {
			t.Errorf("got exit code %s, want 130", code)
		}
		s.Wait(30*time.Second, "What was applied stays")

		again := l.wizard(t, program, 100, 30)
		again.choosePair()
		again.continueToLive()
		// The run continues while the terminal is resized, down to sizes that fit
		// nothing.
		for i, size := range [][2]int{{120, 40}, {40, 12}, {20, 5}, {1, 1}, {60, 20}, {80, 24}} {
			again.Resize(size[0], size[1])
			if i%2 == 0 {
				again.Screen()
			}
		}
		again.Wait(120*time.Second, "each gateway gets answers")
		again.Press("q")
		again.Exit(30 * time.Second)
	})

	l.testOtherTerminals(t, program)

	t.Run("reset takes a yes, and leaves nothing of the gateways", func(t *testing.T) {
		s := l.wizard(t, program, 80, 24)
		s.choosePair()
		s.Wait(20*time.Second, "6 Live")
		s.Press("X")
		s.Wait(30*time.Second, "network reset", " Apply:")
		s.Press("Enter")
		s.Wait(30*time.Second, "┃ Not yet")
		s.Press("y")
		s.Wait(60*time.Second, "not connected")
		s.Press("q")
		s.Exit(30 * time.Second)
		for _, cluster := range l.clusters {
			l.waitForNamespacesGone(t)
			if got := l.must(t, "kubectl", cluster, "get", "configurations,gatewayservers,gatewayclients", "-A", "-o", "name"); got != "" {
				t.Errorf("left on %s: %s", cluster, got)
			}
		}
	})
}

// toForm leads from the plan to the settings.
func (s *terminal) toForm() {
	s.t.Helper()
	s.Press("C")
	s.Wait(30*time.Second, "Gateway server on")
}

// chooseNodePort sets the second field, whatever its value was.
func (s *terminal) chooseNodePort() {
	s.t.Helper()
	for range 10 {
		if strings.Contains(s.Screen(), "┃ Reached through") {
			break
		}
		_, before, _ := strings.Cut(s.Screen(), "\n") // without the clock
		s.Press("Down")
		eventually(s.t, 30*time.Second, func() error {
			if _, after, _ := strings.Cut(s.Screen(), "\n"); after == before {
				return errors.New("the field does not change")
			}
			return nil
		})
	}
	s.Press("Left", "Left", "Right")
	s.Wait(30*time.Second, "(•) NodePort", "Node port")
}

// continueToLive finds an interrupted run, and continues it.
func (s *terminal) continueToLive() {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		switch screen := s.Screen(); {
		case strings.Contains(screen, "Apply these changes?"):
			s.Press("y")
		case strings.Contains(screen, " Apply:"), strings.Contains(screen, "Wait until it works"), strings.Contains(screen, "enter continue"):
			s.Press("Enter")
		case strings.Contains(screen, " done · "), strings.Contains(screen, "each gateway gets answers"):
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	s.t.Fatalf("it does not go on:\n%s", s.Screen())
}

// detour is a kubeconfig whose connection to one API server leads through this
// test, which can close it.
type detour struct {
	kubeconfig, target string
	address            string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
}

func (l lab) detour(t *testing.T, context string) *detour {
	t.Helper()
	config, err := clientcmd.LoadFromFile(l.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cluster := config.Clusters[config.Contexts[context].Cluster]
	server, err := url.Parse(cluster.Server)
	if err != nil {
		t.Fatal(err)
	}
	d := &detour{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), target: server.Host, address: "127.0.0.1:0"}
	d.open(t)
	t.Cleanup(d.close)
	cluster.Server, cluster.TLSServerName = "https://"+d.address, server.Hostname()
	if err := clientcmd.WriteToFile(*config, d.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *detour) open(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.listener, d.address = listener, listener.Addr().String()
	d.mu.Unlock()
	go func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", d.target)
			if err != nil {
				_ = here.Close()
				continue
			}
			d.mu.Lock()
			d.conns = append(d.conns, here, there)
			d.mu.Unlock()
			go func() { _, _ = io.Copy(there, here); _ = there.Close() }()
			go func() { _, _ = io.Copy(here, there); _ = here.Close() }()
		}
	}()
}

func (d *detour) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.listener.Close()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}
