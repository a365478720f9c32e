package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// supervisor runs the processes of a node from its PID 1. It waits for all
// children in one place, because PID 1 also inherits orphans (containerd's shims),
// which os/exec does not know.
type supervisor struct {
	logs    string // folder of one log file per process
	env     []string
	tell    func(event)
	mu      sync.Mutex
	waiting map[int]chan<- syscall.WaitStatus
}

// restartDelay is long enough not to burn a CPU on a component that can't start,
// and short compared to the start of any component.
const restartDelay = 500 * time.Millisecond

// newSupervisor returns a supervisor that waits for the children of this process
// until ctx is done. Nothing else in the process may wait for children meanwhile.
func newSupervisor(ctx context.Context, logs string, env []string, tell func(event)) *supervisor {
	s := &supervisor{logs: logs, env: env, tell: tell, waiting: map[int]chan<- syscall.WaitStatus{}}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go func() {
		defer signal.Stop(children)
		for {
			select {
			case <-ctx.Done():
				return
			case <-children:
				s.reap()
			}
		}
	}()
	return s
}

// reap collects all children that have ended. It holds the lock meanwhile, so that
// a process that ends at once is not reaped before start knows it.
func (s *supervisor) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			return
		}
		if ended := s.waiting[pid]; ended != nil {
			delete(s.waiting, pid)
			ended <- status
		}
	}
}

// start starts a process with its own log file. The channel announces its end. If
// stdin is nil, the process reads nothing.
func (s *supervisor) start(name string, stdin *os.File, argv ...string) (<-chan syscall.WaitStatus, error) {
	log, err := os.OpenFile(filepath.Join(s.logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			return nil, err
		}
		defer stdin.Close()
	}
	ended := make(chan syscall.WaitStatus, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   s.env,
		Files: []uintptr{stdin.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s.waiting[pid] = ended
	return ended, nil
}

func (s *supervisor) run(name string, stdin *os.File, argv ...string) error {
	ended, err := s.start(name, stdin, argv...)
	if err != nil {
		return err
	}
	if status := <-ended; status != 0 {
		return fmt.Errorf("run %s: %s", name, describe(status))
	}
	return nil
}

// keep starts a component, and starts it again whenever it ends, until ctx is
// done.
func (s *supervisor) keep(ctx context.Context, name string, argv ...string) {
	for ctx.Err() == nil {
		ended, err := s.start(name, nil, argv...)
		if err != nil {
			s.tell(event{Component: name, Failure: err.Error()})
		} else {
			s.tell(event{Component: name, Failure: describe(<-ended)})
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("signal %d (%s)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
