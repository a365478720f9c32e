//go:build linux

// Package netns provides network namespaces for tests. A namespace stands for a machine, but all share one
// kernel.
package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Require skips a test if there are no network namespaces. If REQUIRE_NETNS is set, the test fails instead.
func Require(t testing.TB) {
	t.Helper()
	missing := ""
	if testing.Short() {
		missing = "left out by -short"
	}
	if os.Geteuid() != 0 {
		missing = "not root"
	}
	for _, tool := range []string{"ip", "nft", "bridge"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = "no " + tool + " command"
		}
	}
	if missing == "" {
		return
	}
	if os.Getenv("REQUIRE_NETNS") != "" {
		t.Fatal(missing)
	}
	t.Skip("needs network namespaces: " + missing)
}

// Namespace is a network namespace, with a thread that runs in it.
type Namespace struct {
	t    testing.TB
	Name string
	fd   int
	work chan func()
}

// New makes a namespace that lasts until the test ends.
func New(t testing.TB, name string) *Namespace {
	t.Helper()
	Require(t)
	n := &Namespace{t: t, Name: name, work: make(chan func())}
	ready, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		// The thread stays locked. It ends with the goroutine, and the namespace ends with the thread.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		ready <- err
		for f := range n.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatalf("make namespace %s: %v", name, err)
	}
	t.Cleanup(func() {
		close(n.work)
		<-done
		_ = unix.Close(n.fd)
	})
	// IPv6 gives a device its addresses after a random delay, so they would appear and disappear between two
	// dumps. The write fails if the kernel has no IPv6.
	n.Do(func() {
		for _, which := range []string{"all", "default"} {
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0)
		}
	})
	n.Run("ip", "link", "set", "lo", "up")
	return n
}

// Do runs f in the namespace.
func (n *Namespace) Do(f func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); f() }
	<-done
}

// Run runs a command in the namespace and returns its output.
func (n *Namespace) Run(command ...string) string {
	n.t.Helper()
	out, err := n.Try(command...)
	if err != nil {
		n.t.Fatalf("%s: %s: %v\n%s", n.Name, strings.Join(command, " "), err, out)
	}
	return out
}

// Try is like Run, for commands that may fail.
func (n *Namespace) Try(command ...string) (out string, err error) {
	n.Do(func() {
		var b []byte
		b, err = exec.Command(command[0], command[1:]...).CombinedOutput()
		out = string(b)
	})
	return out, err
}

// Script runs lines of space-separated commands.
func (n *Namespace) Script(text string) {
	n.t.Helper()
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			n.Run(words...)
		}
	}
}

// NFT loads a script of nft.
func (n *Namespace) NFT(text string) {
	n.t.Helper()
	var out []byte
	var err error
	n.Do(func() {
		c := exec.Command("nft", "-f", "-")
		c.Stdin = strings.NewReader(text)
		out, err = c.CombinedOutput()
	})
	if err != nil {
		n.t.Fatalf("%s: nft: %v\n%s\n%s", n.Name, err, out, text)
	}
}

// Sysctl sets a value below net.ipv4. Parts of path are separated by slashes.
func (n *Namespace) Sysctl(path, value string) {
	n.t.Helper()
	var err error
	n.Do(func() { err = os.WriteFile("/proc/sys/net/ipv4/"+path, []byte(value), 0) })
	if err != nil {
		n.t.Fatalf("%s: sysctl %s: %v", n.Name, path, err)
	}
}

// Veth connects two namespaces.
func Veth(a *Namespace, aName string, b *Namespace, bName string) {
	a.t.Helper()
	var err error
	a.Do(func() {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = aName
		err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: bName, PeerNamespace: netlink.NsFd(b.fd)})
	})
	if err != nil {
		a.t.Fatalf("connect %s to %s: %v", a.Name, b.Name, err)
	}
	a.Run("ip", "link", "set", aName, "up")
	b.Run("ip", "link", "set", bName, "up")
}

// DumpAll prints everything in a namespace that a KernelState could change.
func (n *Namespace) DumpAll() string {
	n.t.Helper()
	var b strings.Builder
	for _, c := range []string{
		"ip -o link", "ip -4 -o addr", "ip rule", "ip -4 route show table all", "ip -4 neigh show nud permanent",
		"bridge fdb show", "nft list ruleset",
	} {
		fmt.Fprintf(&b, "# %s\n", c)
		for line := range strings.Lines(n.Run(strings.Fields(c)...)) {
			// These are multicast groups of IPv6. A device joins them after a random delay.
			if !strings.HasPrefix(line, "33:33:") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// Listen opens a TCP listener in the namespace.
func (n *Namespace) Listen(address string) net.Listener {
	n.t.Helper()
	var l net.Listener
	var err error
	n.Do(func() { l, err = net.Listen("tcp4", address) })
	if err != nil {
		n.t.Fatalf("%s: listen on %s: %v", n.Name, address, err)
	}
	n.t.Cleanup(func() { _ = l.Close() })
	return l
}

// ListenUDP opens a UDP socket in the namespace.
func (n *Namespace) ListenUDP(address string) *net.UDPConn {
	n.t.Helper()
	var c *net.UDPConn
	var err error
	n.Do(func() { c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address))) })
	if err != nil {
		n.t.Fatalf("%s: listen on %s: %v", n.Name, address, err)
	}
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Whoami serves over HTTP its own name and the client's address that it sees, followed by the requested
// number of bytes.
func (n *Namespace) Whoami(address string) {
	n.t.Helper()
	l := n.Listen(address)
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			size := 0
			_, _ = fmt.Sscan(r.URL.Query().Get("size"), &size)
			fmt.Fprintf(w, "%s sees %s\n", n.Name, host)
			_, _ = w.Write(make([]byte, size))
		}),
	}
	go func() { _ = server.Serve(l) }()
	n.t.Cleanup(func() { _ = server.Close() })
}

// Get asks a Whoami server, and returns its answer and the size of the rest.
func (n *Namespace) Get(from, to string, size int) (answer string, rest int, err error) {
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, address string) (c net.Conn, err error) {
				d := net.Dialer{Timeout: 4 * time.Second}
				if from != "" {
					d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
				}
				n.Do(func() { c, err = d.DialContext(ctx, "tcp4", address) })
				return c, err
			},
		},
	}
	resp, err := client.Get(fmt.Sprintf("http://%s/?size=%d", to, size))
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	answer, body, ok := strings.Cut(string(b), "\n")
	if !ok && err == nil {
		err = errors.New("answer without line end")
	}
	return answer, len(body), err
}
