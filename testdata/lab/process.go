package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nodeInitCommand is the hidden command that is a node's PID 1.
const nodeInitCommand = "node-init"

// startNode starts the program lab as the PID 1 of a node in new namespaces,
// detached from this process. Its output goes to a log file. The channel is
// closed when the node has ended.
//
// The node holds a lock on its folder's life file from before its start until its
// end, even if other processes were killed meanwhile.
func startNode(netns, lab string, spec nodeSpec) (ended <-chan struct{}, err error) {
	log, err := os.OpenFile(filepath.Join(spec.logs(), initComponent+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	life, err := os.Create(filepath.Join(spec.Dir, lifeFile))
	if err != nil {
		return nil, err
	}
	defer life.Close()
	if err := unix.Flock(int(life.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w", life.Name(), err)
	}
	// nsenter enters the network, and then becomes the lab. `ip netns exec` can't
	// be used, because it mounts a new /sys, which hides the cgroups.
	cmd := exec.Command("nsenter", "--net="+filepath.Join(netnsFolder, netns), lab, nodeInitCommand, spec.Dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{life}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start node %s: %w", spec.Name, err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log has the reason
		close(gone)
	}()
	return gone, nil
}

// lifeFile is locked while the PID 1 of its folder's node lives. This process has
// the file open as lifeDescriptor.
const (
	lifeFile       = "life"
	lifeDescriptor = 3
)

// lives reports whether the node of the folder has a PID 1.
func lives(nodeDir string) bool {
	file, err := os.Open(filepath.Join(nodeDir, lifeFile))
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// running returns the running nodes of the lab, in the form of findNodes. A
// process can't be recognized while it is becoming another program, so running
// searches again while a node lives that it has not found.
func (l Lab) running() (map[string]int, error) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(pollInterval) {
		found, err := findNodes(l.Dir)
		if err != nil {
			return nil, err
		}
		hidden := ""
		for _, c := range l.Plan() {
			for _, n := range c.Nodes {
				if dir := l.nodeDir(n); found[dir] == 0 && lives(dir) {
					hidden = dir
				}
			}
		}
		if hidden == "" {
			return found, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("node %s: runs, but its process cannot be found", filepath.Base(hidden))
		}
	}
}

// findNodes returns the PID 1 of each node of the lab in labDir, by the node's
// folder, with this machine's pids. It looks at processes and needs no record: a
// record may be missing after a crash, or name a reused pid.
func findNodes(labDir string) (map[string]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if dir := nodeOf(pid); dir != "" && filepath.Dir(dir) == labDir {
			found[dir] = pid
		}
	}
	return found, nil
}

// nodeOf returns the node folder whose PID 1 is pid; "" if there is none.
func nodeOf(pid int) string {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	// Before nsenter becomes the lab, its arguments end with the lab's arguments.
	argv := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	if len(argv) < 3 || argv[len(argv)-2] != nodeInitCommand {
		return ""
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !firstOfNamespace(status) {
		return ""
	}
	return argv[len(argv)-1]
}

// firstOfNamespace reports, from /proc/PID/status, whether the process is the
// first one of a pid namespace directly below the reader's. It is false for a
// zombie.
func firstOfNamespace(status []byte) bool {
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) > 1 && string(fields[0]) == "State:" && string(fields[1]) == "Z" {
			return false
		}
		if len(fields) > 0 && string(fields[0]) == "NSpid:" {
			return len(fields) == 3 && string(fields[2]) == "1"
		}
	}
	return false
}

// killNode ends a node with all its processes, and waits until its PID 1 has
// ended, which is the last of them. It identifies the process by a handle that
// can never mean another process.
func killNode(pid int, dir string, timeout time.Duration) error {
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(handle)
	deadline := time.Now().Add(timeout)
	for nodeOf(pid) != dir {
		if !lives(dir) || time.Now().After(deadline) {
			return nil // it has ended meanwhile, and another process may have its pid
		}
		time.Sleep(pollInterval)
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill node %s, process %d: %w", filepath.Base(dir), pid, err)
	}
	for {
		poll := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(max(0, time.Until(deadline).Milliseconds())))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", pid, err)
		case n == 0:
			return fmt.Errorf("node %s, process %d: still dying after %s", filepath.Base(dir), pid, timeout)
		default:
			return nil
		}
	}
}
