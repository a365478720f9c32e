package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// page is the zone of docs/discovery.md, with a port and an address of this machine.
func page(t *testing.T, server netip.AddrPort) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/discovery.md")
	if err != nil {
		t.Fatal(err)
	}
	zone := regexp.MustCompile("(?s)```zone\n(.*?)```").FindStringSubmatch(string(text))
	if zone == nil {
		t.Fatal("the page has no zone")
	}
	mine := strings.NewReplacer(" 6443 ", " "+strconv.Itoa(int(server.Port()))+" ", "203.0.113.7", server.Addr().String()).Replace(zone[1])
	return strings.Split(strings.TrimSpace(mine), "\n")
}

// serve is a name server of a zone: NAME TTL IN TYPE DATA. It returns its address.
func serve(t *testing.T, zone []string) string {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Authoritative, m.RCode, m.Additionals = true, true, dnsmessage.RCodeNameError, nil
			for _, line := range zone {
				f := strings.Fields(line)
				if !strings.EqualFold(f[0], q.Name.String()) {
					continue
				}
				m.RCode = dnsmessage.RCodeSuccess
				r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type, TTL: 300}}
				switch {
				case f[3] == "SRV" && q.Type == dnsmessage.TypeSRV:
					port, _ := strconv.Atoi(f[6])
					r.Body = &dnsmessage.SRVResource{Port: uint16(port), Target: dnsmessage.MustNewName(f[7])}
				case f[3] == "TXT" && q.Type == dnsmessage.TypeTXT:
					r.Body = &dnsmessage.TXTResource{TXT: []string{strings.Trim(f[4], `"`)}}
				case f[3] == "A" && q.Type == dnsmessage.TypeA:
					r.Body = &dnsmessage.AResource{A: netip.MustParseAddr(f[4]).As4()}
				default:
					continue
				}
				m.Answers = append(m.Answers, r)
			}
			if packet, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packet, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

// discovered is the command, with its output.
func discovered(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := discoverCommand(&out)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// kubeconfigOf has the contexts home, which is the current one, and milan.
func kubeconfigOf(t *testing.T, milan string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, current-context: home,
clusters: [{name: home, cluster: {server: "https://127.0.0.1:1"}}, {name: milan, cluster: {server: "` + milan + `"}}],
contexts: [{name: home, context: {cluster: home, user: me}}, {name: milan, context: {cluster: milan, user: me}}], users: [{name: me, user: {token: t}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// apiServer only listens: whoever is announced gets a connection, and nothing else.
func apiServer(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	visits := make(chan net.Conn, 10)
	go func() {
		defer close(visits)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			visits <- c
		}
	}()
	t.Cleanup(func() {
		l.Close()
		seen := 0
		for c := range visits { // its ends are closed by now
			if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
				t.Errorf("it was sent %q, %v", got, err)
			}
			c.Close()
			seen++
		}
		if seen == 0 {
			t.Error("nobody has opened a connection")
		}
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

func TestClustersOfADomainAreFound(t *testing.T) {
	server := apiServer(t)
	zone := append(page(t, server),
		"_liqo-tui._tcp.clusters.example.com. 300 IN SRV 0 0 1 api.turin.example.com.",
		"api.turin.example.com. 300 IN A 127.0.0.1",
		"_liqo-tui._tcp.clusters.example.com. 300 IN SRV 0 0 0 .")
	config := kubeconfigOf(t, "https://"+server.String())
	args := []string{"--listen", "30s", "--domain", "clusters.example.com", "--name-server", serve(t, zone), "--kubeconfig", config}
	text, err := discovered(t, append(args, "-o", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	var d discoverDocument
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Clusters) != 2 {
		t.Fatalf("got %s, want 2 clusters", text)
	}
	turin, milan := d.Clusters[0], d.Clusters[1]
	if milan.ID != "milan" || milan.Server != "https://api.milan.example.com:"+strconv.Itoa(int(server.Port())) || !milan.Answers || !slices.Equal(milan.Contexts, []discoveredContext{{Name: "milan", File: config}}) {
		t.Errorf("got %+v: want its API server to answer, and the context that leads there under an address", milan)
	}
	// Its record says no ID, and nobody listens at its port. That is the port of home's
	// context, too, which is the current one.
	if turin.ID != "" || turin.Answers || !strings.Contains(turin.Problem, "connection refused") {
		t.Errorf("got %+v, want a refused connection", turin)
	}
	if want := []discoverStep{{Command: "liqo-tui network connect --kubeconfig " + config + " --remote-kubeconfig " + config + " --remote-context milan", Why: "connects the current context's cluster with it"}}; !slices.Equal(d.Next, want) {
		t.Errorf("next: got %v, want %v", d.Next, want)
	}
	text, err = discovered(t, args...)
	for _, want := range []string{"milan     https://api.milan.example.com:", "not told  https://api.turin.example.com:1", "no: connect: connection refused", "next: liqo-tui network connect", "None of this is proven"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("got %v\n%s\nwant %q", err, text, want)
		}
	}
}

func TestAClusterWithoutAContextIsInvited(t *testing.T) {
	server := apiServer(t)
	text, err := discovered(t, "--listen", "30s", "--domain", "clusters.example.com", "--name-server", serve(t, page(t, server)), "--kubeconfig", kubeconfigOf(t, "https://127.0.0.1:2"))
	if err != nil || !strings.Contains(text, "next: liqo-tui network invite --kubeconfig ") || !strings.Contains(text, " --for milan") {
		t.Errorf("got %v\n%s", err, text)
	}
}

func TestAKubeconfigThatCantBeReadIsReported(t *testing.T) {
	server := apiServer(t)
	missing := filepath.Join(t.TempDir(), "missing")
	args := []string{"--listen", "30s", "--domain", "clusters.example.com", "--name-server", serve(t, page(t, server)), "--kubeconfig", missing}
	want := "kubeconfig " + missing + ": no such file or directory"
	if text, err := discovered(t, args...); err != nil || !strings.Contains(text, "Not all is known: "+want) {
		t.Errorf("got %v\n%s\nwant %q", err, text, want)
	}
	text, err := discovered(t, append(args, "-o", "json")...)
	var d discoverDocument
	if err := errors.Join(err, json.Unmarshal([]byte(text), &d)); err != nil || d.Problem != want || len(d.Clusters) != 1 {
		t.Errorf("got %v and %+v, want one cluster and problem %q", err, d, want)
	}
}

// Many clusters may be behind one host, and a path says which.
func TestAContextWithAPathHasAnotherAddress(t *testing.T) {
	server := apiServer(t)
	text, err := discovered(t, "--listen", "30s", "--domain", "clusters.example.com", "--name-server", serve(t, page(t, server)), "--kubeconfig", kubeconfigOf(t, "https://"+server.String()+"/k8s/clusters/c-1"))
	if err != nil || !strings.Contains(text, "none has this address") || strings.Contains(text, "network connect") {
		t.Errorf("got %v\n%s", err, text)
	}
}

func TestInterrupted(t *testing.T) {
	silent, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(exit.Interrupted{Signal: syscall.SIGINT})
	for _, args := range [][]string{{"--domain", "example.org", "--name-server", silent.LocalAddr().String()}, {"--listen", "100ms"}} {
		cmd := discoverCommand(io.Discard)
		cmd.SetArgs(args)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(ctx); exit.Code(err) != 130 {
			t.Errorf("%v: got %v, exit code %d, want 130", args, err, exit.Code(err))
		}
	}
}

func TestNobodyIsFound(t *testing.T) {
	none := serve(t, nil)
	text, err := discovered(t, "--listen", "30s", "--domain", "example.org", "--name-server", none)
	if exit.Code(err) != exit.Unhealthy || !strings.Contains(text, "No cluster was found. Asked: DNS of example.org.") {
		t.Errorf("got %v\n%s", err, text)
	}
	text, err = discovered(t, "--listen", "30s", "--domain", "example.org", "--name-server", none, "-o", "json")
	if exit.Code(err) != exit.Unhealthy || !strings.Contains(text, `"clusters": []`) {
		t.Errorf("got %v\n%s", err, text)
	}
	// A name server that does not answer is an error, and no empty domain.
	silent, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err = discovered(t, "--domain", "example.org", "--name-server", silent.LocalAddr().String(), "--listen", "200ms"); exit.Code(err) == exit.Unhealthy || err == nil || !strings.Contains(err.Error(), "ask DNS for the clusters of example.org") {
		t.Errorf("got %v, want an error", err)
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for want, args := range map[string][]string{
		"want text, json or yaml":            {"-o", "xml"},
		"want 100ms to 1m0s":                 {"--listen", "0s"},
		"--name-server: applies to --domain": {"--name-server", "127.0.0.1"},
		"this machine has no interface no":   {"--interface", "no"},
	} {
		_, err := discovered(t, args...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
		if _, usage := errors.AsType[exit.UsageError](err); !usage && args[0] != "--interface" {
			t.Errorf("%v: no error of usage: %v", args, err)
		}
	}
}
