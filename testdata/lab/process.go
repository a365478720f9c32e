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

// startNode starts the program lab as the PID 1 of a node in new namespaces, detached from this
// process. Its output goes to a log file. It returns this machine's pid of it.
func startNode(netns, lab string, spec nodeSpec) (pid int, err error) {
	log, err := os.OpenFile(filepath.Join(spec.logs(), initComponent+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	// nsenter enters the network and then becomes the lab. Not `ip netns exec`:
	// that mounts a new /sys, which hides the cgroups.
	cmd := exec.Command("nsenter", "--net="+filepath.Join(netnsFolder, netns), lab, nodeInitCommand, spec.Dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start node %s: %w", spec.Name, err)
	}
	// `up` leaves it to this machine's PID 1; while `up` runs, a node that
	// dies must not stay as a zombie that looks alive.
	go func() { _ = cmd.Wait() }()
	return cmd.Process.Pid, nil
}

// findNodes returns the processes, by this machine's pid, that are the PID 1
// of a node of the lab in labDir, by the node's folder. It looks at what runs
// and not at a record: a record may be missing after a crash, or name a pid
// that has been reused.
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

// nodeOf returns the node folder that pid is the PID 1 of, or "".
func nodeOf(pid int) string {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	argv := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	if len(argv) < 3 || argv[len(argv)-2] != nodeInitCommand {
		return "" // the first two are nsenter's before it becomes the lab
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !firstOfNamespace(status) {
		return ""
	}
	return argv[len(argv)-1]
}

// firstOfNamespace tells from /proc/PID/status whether the process is the
// first one of a pid namespace directly below the reader's, and no zombie.
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

// killNode ends a node with all its processes and waits until its PID 1 is
// gone, which the kernel lets happen last. The process is identified again by
// a handle that cannot come to mean another one.
func killNode(pid int, dir string, timeout time.Duration) error {
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(handle)
	if nodeOf(pid) != dir {
		return nil // ended meanwhile
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill node %s, process %d: %w", filepath.Base(dir), pid, err)
	}
	for deadline := time.Now().Add(timeout); ; {
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
