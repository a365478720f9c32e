package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is the ID of the newest process on the node whose command line matches
// the regular expression, and whose pod has this name, if one is given; "" if
// there is none. A pod's name is the host name of its processes.
func (l lab) process(t *testing.T, cluster, node, pattern, pod string) string {
	t.Helper()
	out, _ := l.try(t, "exec", cluster, node, "--", "sh", "-c", // a process may end meanwhile
		`for p in $(pgrep -f '`+pattern+`'); do [ -z "`+pod+`" ] || grep -qz '^HOSTNAME=`+pod+`$' /proc/$p/environ && echo $p; done 2>/dev/null | tail -1`)
	return out
}

// inside is the command line that runs a program of the node in the network
// namespace of one of its processes. It does not need the API server, which may
// be down.
func (l lab) inside(cluster, node, pid string, command ...string) []string {
	return append([]string{"exec", cluster, node, "--", "nsenter", "--target=" + pid, "--net", "--"}, command...)
}

// sender is a pod of way.a, its process, and the address of a pod of way.b.
type sender struct {
	lab
	way           connection
	node, pid, to string
	program       string // the path of lab.local/pod's program on nodes
}

// sender returns a pod on the second node of way.a, because the first one is that
// of the control plane. It asks a pod on the second node of way.b.
func (l lab) sender(t *testing.T, way connection) sender {
	t.Helper()
	return l.senderBetween(t, way, way.a+"-2", way.b+"-2")
}

// senderBetween returns a sender with pods of these nodes.
func (l lab) senderBetween(t *testing.T, way connection, from, to string) sender {
	t.Helper()
	program, err := filepath.Abs("../../../bin/pod")
	if err != nil {
		t.Fatal(err)
	}
	s := sender{lab: l, way: way, node: from, program: program}
	s.to = l.translations(t, way.a, way.b).of(t, l.podIP(t, way.b, web(to))).String() + ":8080"
	if s.pid = l.process(t, way.a, s.node, "^/pod serve", web(s.node)); s.pid == "" {
		t.Fatalf("pod %s: has no process on %s", web(s.node), s.node)
	}
	return s
}

// works asks for an answer of several full packets.
func (s sender) works(t *testing.T) error {
	t.Helper()
	_, err := s.try(t, s.inside(s.way.a, s.node, s.pid, s.program, "get", "--timeout", "1s", "http://"+s.to+"/?bytes=20000")...)
	if err != nil {
		return fmt.Errorf("pod of %s to pod of %s: %w", s.way.a, s.way.b, err)
	}
	return nil
}

// answers reports whether a stream of datagrams of size bytes ends with an
// answer.
func (s sender) answers(t *testing.T, size int) error {
	t.Helper()
	_, err := s.try(t, s.inside(s.way.a, s.node, s.pid, "sh", "-c", "sleep 0.3 | "+s.program+" stream "+s.to+" --size "+fmt.Sprint(size))...)
	if err != nil {
		return fmt.Errorf("datagrams of %d bytes from a pod of %s to one of %s: %w", size, s.way.a, s.way.b, err)
	}
	return nil
}

// stall is a time without answers.
type stall struct{ Last, First time.Time }

func (s stall) length() time.Duration { return s.First.Sub(s.Last) }

// stream is a flow of datagrams from a pod to one of another cluster and back.
type stream struct {
	way    connection
	in     io.Closer
	cmd    *exec.Cmd
	errs   strings.Builder
	read   chan error // gets a value when reading has ended
	mu     sync.Mutex
	stalls []stall
}

// stream starts a stream of datagrams of size bytes. The caller has to stop it.
func (s sender) stream(t *testing.T, size int, flags ...string) *stream {
	t.Helper()
	st := &stream{way: s.way, read: make(chan error, 1)}
	st.cmd = exec.CommandContext(t.Context(), labProgram, append(s.inside(s.way.a, s.node, s.pid, s.program, "stream", s.to, "--size", fmt.Sprint(size)), flags...)...)
	st.cmd.Stderr = &st.errs
	in, err := st.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := st.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := st.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	st.in = in
	go func() { st.read <- st.follow(out) }()
	return st
}

func (st *stream) follow(out io.Reader) error {
	for d := json.NewDecoder(out); ; {
		var s stall
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		st.mu.Lock()
		st.stalls = append(st.stalls, s)
		st.mu.Unlock()
	}
}

// stop ends the stream and returns its stalls. The test fails if the stream gets
// no answers at the end.
func (st *stream) stop(t *testing.T) []stall {
	t.Helper()
	st.in.Close()
	err := errors.Join(<-st.read, st.cmd.Wait())
	if err != nil {
		t.Errorf("stream of %s: %v %s", st.way, err, st.errs.String())
	}
	return st.stalls
}

// outage is how long pods could not talk, as seen by a stream of datagrams from a
// pod of way.a to one of way.b while something is broken and repaired.
type outage struct {
	longest time.Duration
	end     time.Time // of the longest stall
}

// after is the part of the outage after the repair.
func (o outage) after(back time.Time) time.Duration {
	return max(min(o.end.Sub(back), o.longest), 0)
}

// during sends a stream while it breaks something, for at least length, and until
// answers arrive again.
func (l lab) during(t *testing.T, way connection, length time.Duration, breakIt func()) outage {
	t.Helper()
	return l.sender(t, way).during(t, 8, length, breakIt)
}

// during does the same with datagrams of size bytes.
func (s sender) during(t *testing.T, size int, length time.Duration, breakIt func()) outage {
	t.Helper()
	stream := s.stream(t, size)
	enough := time.Now().Add(length)
	breakIt()
	time.Sleep(time.Until(enough)) // an outage may begin late, with the end of an old pod
	s.untilItWorks(t)
	eventually(t, time.Minute, func() error { return s.answers(t, size) })
	var o outage
	for _, stall := range stream.stop(t) {
		if stall.length() > o.longest {
			o = outage{stall.length(), stall.First}
		}
	}
	return o
}

// untilItWorks waits for answers of several full packets. If they don't arrive,
// it prints the state of the gateways.
func (s sender) untilItWorks(t *testing.T) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if err = s.works(t); err == nil {
			return
		}
	}
	for _, way := range s.way.ways() {
		t.Logf("gateway of %s:\n%s", way.a, s.inspect(t, way))
	}
	t.Fatalf("not within a minute: %v", err)
}

// inspect returns the kernel state of way.a's gateway to way.b, and the gateway's
// own report.
func (l lab) inspect(t *testing.T, way connection) string {
	t.Helper()
	var out []string
	for _, node := range l.nodes(t, way.a) {
		if pid := l.process(t, way.a, node, tunnelOf(way.b), ""); pid != "" {
			text, _ := l.try(t, l.inside(way.a, node, pid, "sh", "-c",
				"ip -s link show liqo-tunnel; ip route show table 18100; ip route show table 18001; nft list chain ip liqo-tui clamp; nft list counters; netstat -s 2>/dev/null | head -40; ip route show cache")...)
			out = append(out, node, text)
		}
	}
	for _, command := range [][]string{
		{"get", "connections", "-o", `jsonpath={.items[*].metadata.annotations.liqo-tui\.dev/status}`},
		{"logs", "-l", "networking.liqo.io/component=gateway", "--tail=20"},
	} {
		text, _ := l.try(t, append([]string{"kubectl", way.a, "-n", "liqo-tenant-" + way.b}, command...)...)
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}
