//go:build linux

package linuxtest

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
)

// roleVariable is the environment variable that makes a test program a gateway's process.
const roleVariable = "LINUXTEST_PROCESS"

// Main is TestMain of packages that use Process. The test program itself is started again as a gateway's
// process.
func Main(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		os.Exit(m.Run())
	}
	if err := keepTunnel(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// keepTunnel keeps the tunnel that it reads from in working, and writes its status to out.
func keepTunnel(in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	kernel, err := linux.New(linux.Options{Logger: log})
	if err != nil {
		return err
	}
	decoder := gob.NewDecoder(in)
	var first order
	if err := decoder.Decode(&first); err != nil {
		return err
	}
	p := first.Wanted.Inputs.Peers[0]
	t := tunnel.New(tunnel.Config{Role: p.Role, PeerID: p.ClusterID, Log: log, Kernel: kernel, Changed: func() {}})
	_ = t.Set(first.Wanted) // the Status has the error
	go func() {
		for {
			var o order
			if decoder.Decode(&o) != nil {
				return
			}
			switch {
			case o.Lead:
				_ = t.Lead(true)
			case o.StandBy:
				_ = t.Lead(false)
			default:
				_ = t.Set(o.Wanted)
			}
		}
	}()
	go func() {
		encoder := gob.NewEncoder(out)
		for encoder.Encode(stated(t)) == nil {
			time.Sleep(20 * time.Millisecond)
		}
	}()
	err = t.Run(ctx)
	kernel.Close()
	return err
}

// order is a message to a process: to hold the tunnel, to stand by, or a new wanted state.
type order struct {
	Lead, StandBy bool
	Wanted        tunnel.Wanted
}

// Stated is a tunnel.Status that can be sent through a pipe: its error is a text.
type Stated struct {
	tunnel.Status
	Problem string
}

func stated(t *tunnel.Tunnel) Stated {
	s := Stated{Status: t.Status(time.Now())}
	if s.Status.Problem != nil {
		s.Problem = s.Status.Problem.Error()
		s.Status.Problem = nil
	}
	return s
}

// Process is a gateway's process, in the namespace of its pod.
type Process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	in   *gob.Encoder
	done chan struct{}

	mu   sync.Mutex
	last Stated
}

// Start starts the gateway's process, which ends with the test.
func (c *Cluster) Start(w tunnel.Wanted) *Process {
	c.t.Helper()
	p := &Process{t: c.t, name: "gateway " + c.Name, done: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), roleVariable+"=1")
	p.cmd.Stderr = c.t.Output()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.Gateway.Do(func() { err = p.cmd.Start() })
	if err != nil {
		c.t.Fatalf("start %s: %v", p.name, err)
	}
	c.t.Cleanup(p.Kill)
	go func() {
		defer close(p.done)
		decoder := gob.NewDecoder(out)
		for {
			var s Stated
			if decoder.Decode(&s) != nil {
				return
			}
			p.mu.Lock()
			p.last = s
			p.mu.Unlock()
		}
	}()
	p.in = gob.NewEncoder(in)
	p.Set(w)
	return p
}

// Set changes the wanted state.
func (p *Process) Set(w tunnel.Wanted) {
	p.t.Helper()
	p.tell(order{Wanted: w})
}

// Lead makes the process hold the tunnel, or stand by.
func (p *Process) Lead(lead bool) {
	p.t.Helper()
	p.tell(order{Lead: lead, StandBy: !lead})
}

// Stop stops the process until [Process.Continue], as a machine without free CPU does.
func (p *Process) Stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
}

// Continue ends a Stop.
func (p *Process) Continue() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

func (p *Process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

func (p *Process) tell(o order) {
	p.t.Helper()
	if err := p.in.Encode(o); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// Kill ends the process as a crash does: at once.
func (p *Process) Kill() {
	err := p.cmd.Process.Kill()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("kill %s: %v", p.name, err)
	}
	<-p.done
	_ = p.cmd.Wait()
}

// Status returns the last status that the process has sent.
func (p *Process) Status() Stated {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// CPU returns the CPU time that the process has used so far.
func (p *Process) CPU() time.Duration {
	p.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	// The name in parentheses may contain anything. After the name, the state is the first field, and the
	// user and system times are fields 12 and 13, in 1/100 s.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			p.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
