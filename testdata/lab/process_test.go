package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestOnlyTheFirstOfANamespaceIsANode(t *testing.T) {
	for name, tt := range map[string]struct {
		status string
		want   bool
	}{
		"PID 1 of a node":          {"Name:\tlab\nState:\tS (sleeping)\nNSpid:\t4711\t1\n", true},
		"its child":                {"State:\tS (sleeping)\nNSpid:\t4712\t17\n", false},
		"PID 1 of a pod":           {"State:\tS (sleeping)\nNSpid:\t4713\t18\t1\n", false},
		"a process of the machine": {"State:\tS (sleeping)\nNSpid:\t4714\n", false},
		"the machine's PID 1":      {"State:\tS (sleeping)\nNSpid:\t1\n", false},
		"a dead PID 1 of a node":   {"State:\tZ (zombie)\nNSpid:\t4711\t1\n", false},
		"nothing":                  {"", false},
	} {
		if got := firstOfNamespace([]byte(tt.status)); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// TestBystandersAreNotKilled runs a process whose command line looks like a
// node's but which is not the first of a pid namespace.
func TestBystandersAreNotKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rome-1")
	bystander := exec.Command("sh", "-c", "read line", nodeInitCommand, dir)
	stdin, err := bystander.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	nodes, err := findNodes(filepath.Dir(dir))
	if err != nil || len(nodes) != 0 {
		t.Errorf("got nodes %v, %v, want none", nodes, err)
	}
	if err := killNode(bystander.Process.Pid, dir, time.Second); err != nil {
		t.Error(err)
	}
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the bystander is gone: %v", err)
	}
	if _, err := stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := bystander.Wait(); err != nil {
		t.Errorf("the bystander ended: %v", err)
	}
}

func TestSupervisorStartsComponentsAgain(t *testing.T) {
	events := make(chan event, 8)
	s := newSupervisor(t.Context(), t.TempDir(), os.Environ(), func(e event) { events <- e })
	go s.keep(t.Context(), "broken", "/bin/sh", "-c", "exit 3")
	for range 2 {
		select {
		case e := <-events:
			if e.Component != "broken" || e.Failure != "exit status 3" {
				t.Errorf("got %+v, want exit status 3 of broken", e)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the component was not started again")
		}
	}
	if err := s.run("fine", nil, "/bin/sh", "-c", "echo done"); err != nil {
		t.Error(err)
	}
	if got := tail(filepath.Join(s.logs, "fine.log"), 1); got != "done" {
		t.Errorf("log: got %q, want done", got)
	}
	if err := s.run("killed", nil, "/bin/sh", "-c", "kill -9 $$"); err == nil {
		t.Error("a killed process: got no error")
	}
	if err := s.run("missing", nil, "/nonexistent"); err == nil {
		t.Error("a missing program: got no error")
	}
}
