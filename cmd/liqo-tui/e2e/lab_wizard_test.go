package e2e

import (
	"strings"
	"testing"
	"time"
)

// wizardOn is the wizard on a terminal of another kind, for two named clusters.
func (l lab) wizardOn(t *testing.T, program string, env ...string) *terminal {
	t.Helper()
	return openTerminal(t, 100, 30, env, program, "wizard", "--kubeconfig", l.kubeconfig, "--image", labImage,
		"--context", "lab-rome", "--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-milan")
}

// agree applies the shown plan.
func (s *terminal) agree() {
	s.t.Helper()
	s.Wait(30*time.Second, " Apply:")
	s.Press("Enter")
	s.Wait(30*time.Second, "Apply these changes?")
	s.Press("y")
}

// testOtherTerminals changes, removes and makes the present connection, on
// terminals that can do less than usual.
func (l lab) testOtherTerminals(t *testing.T, program string) {
	t.Run("over SSH, a live connection is changed", func(t *testing.T) {
		s := l.wizardOn(t, program, "SSH_TTY=/dev/pts/9")
		s.Wait(30*time.Second, "Live", "each gateway gets answers")
		s.Press("C")
		s.Wait(30*time.Second, "┃ Gateway server on")
		s.Press("Up", "Up") // to the last field but one
		s.Wait(30*time.Second, "┃ MTU")
		s.Press("C-u", "1", "3", "0", "0", "Enter")
		s.Wait(30*time.Second, "network connect", "--mtu 1300")
		s.agree()
		s.Wait(120*time.Second, "Live", "each gateway gets answers", "MTU         1300")
		s.Press("q")
		if code := s.Exit(30 * time.Second); code != "0" {
			t.Errorf("got exit code %s, want 0", code)
		}
		for _, cluster := range l.clusters {
			got := l.must(t, "kubectl", cluster, "get", "gatewayservers,gatewayclients", "-A", "-o", "jsonpath={.items[*].spec.mtu}")
			if got != "1300" {
				t.Errorf("the gateway of %s has the MTU %q, want 1300", cluster, got)
			}
		}
	})

	t.Run("without UTF-8, the connection is ended", func(t *testing.T) {
		s := l.wizardOn(t, program, "LANG=C", "LC_ALL=C")
		s.Wait(30*time.Second, "Live", "each gateway gets answers")
		s.Press("x")
		screen := s.Wait(30*time.Second, "disconnect", " Apply:")
		s.agree()
		screen += s.Wait(60*time.Second, "not connected")
		if i := strings.IndexFunc(screen, func(r rune) bool { return r >= 0x80 }); i >= 0 {
			t.Errorf("more than ASCII, %q, on the screen:\n%s", screen[i:i+3], screen)
		}
		s.Press("q")
		s.Exit(30 * time.Second)
		for _, cluster := range l.clusters {
			if got := l.must(t, "kubectl", cluster, "get", "gatewayservers,gatewayclients", "-A", "-o", "name"); got != "" {
				t.Errorf("left on %s: %s", cluster, got)
			}
			if got := l.must(t, "kubectl", cluster, "get", "configurations", "-A", "-o", "name"); got == "" {
				t.Errorf("%s has forgotten the other's addresses", cluster)
			}
		}
	})

	t.Run("a dumb terminal connects them in sentences", func(t *testing.T) {
		s := openTerminal(t, 100, 120, []string{"TERM=dumb"}, program, "wizard", "--kubeconfig", l.kubeconfig,
			"--context", "lab-rome", "--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-milan")
		answer := func(question, text string) {
			t.Helper()
			s.Wait(60*time.Second, question)
			if text != "" {
				s.Press(text)
			}
			s.Press("Enter")
		}
		answer("What to do?", "connect")
		answer("settings right?", "")
		answer("Go on?", "apply")
		if code := s.Exit(180 * time.Second); code != "0" {
			t.Errorf("got exit code %s, want 0", code)
		}
		s.Wait(time.Second, "Result: connected", "verified from ")
	})
}
