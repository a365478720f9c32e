package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/terminaltest"
)

// deadKubeconfig has contexts whose API servers refuse every connection.
func deadKubeconfig(t *testing.T, contexts int) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	for i := range contexts {
		name := fmt.Sprintf("edge-%02d", i)
		config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "none"}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTheProgramOnATerminal tests the parts that need no cluster.
func TestTheProgramOnATerminal(t *testing.T) {
	program, kubeconfig := program(t), deadKubeconfig(t, 50)

	t.Run("clusters that are gone are on the screen with the reason", func(t *testing.T) {
		s := terminaltest.Open(t, 100, 30, nil, program, "wizard", "--kubeconfig", kubeconfig)
		s.Wait(30*time.Second, "edge-00", "no answer", "connection refused")
		s.Press("Enter")
		s.Wait(30*time.Second, "edge-00 can't be chosen")
		s.Press("q")
		if code := s.Exit(30 * time.Second); code != "0" {
			t.Errorf("got exit code %s, want 0", code)
		}
		s.Wait(30*time.Second, "Nothing was changed.")
	})

	t.Run("ctrl+c ends it with 130", func(t *testing.T) {
		s := terminaltest.Open(t, 80, 24, nil, program, "wizard", "--kubeconfig", kubeconfig)
		s.Wait(30*time.Second, "edge-00")
		s.Press("C-c")
		if code := s.Exit(30 * time.Second); code != "130" {
			t.Errorf("got exit code %s, want 130", code)
		}
	})

	t.Run("a dumb terminal gets sentences", func(t *testing.T) {
		s := terminaltest.Open(t, 80, 24, []string{"TERM=dumb"}, program, "wizard", "--kubeconfig", kubeconfig)
		if code := s.Exit(20 * time.Second); code == "0" {
			t.Error("got exit code 0, and nothing can be connected")
		}
		s.Wait(30*time.Second, "Not available: edge-49", "two clusters are needed, but only 0 can be used")
	})

	t.Run("a terminal that is closed without a word ends it", func(t *testing.T) {
		s := terminaltest.Open(t, 80, 24, nil, program, "wizard", "--kubeconfig", kubeconfig)
		s.Wait(30*time.Second, "edge-00")
		shell, err := strconv.Atoi(strings.TrimSpace(s.Tmux("display-message", "-p", "#{pane_pid}")))
		if err != nil {
			t.Fatal(err)
		}
		s.Tmux("kill-server")
		deadline := time.Now().Add(30 * time.Second)
		for processesOf(t, shell, program) > 0 {
			if time.Now().After(deadline) {
				t.Fatal("it lives on without its terminal")
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// processesOf counts the remaining processes of a program's file.
func processesOf(t *testing.T, shell int, program string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == program {
			n++
		}
	}
	if n == 0 {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", shell)); err == nil {
			return 1 // the shell around it has not ended yet
		}
	}
	return n
}
