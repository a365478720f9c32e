package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Files of the lab's directory.
const (
	labFile       = "lab.json"
	lockFile      = "lock"
	networkMarker = "network-complete"
)

// killTimeout is enough to end a node with dozens of pods on a busy machine,
// because the kernel removes one network namespace after the other.
const killTimeout = 60 * time.Second

// down removes all traces of the lab from this machine. It removes what it finds,
// so it also cleans up after crashes.
func down(l Lab, r *reporter) error {
	running, err := l.running()
	if err != nil {
		return err
	}
	if err := l.killNodes(running); err != nil {
		return err
	}
	if len(running) > 0 {
		r.say("%d nodes have ended", len(running))
	}
	var errs []error
	for _, name := range l.cgroups() {
		errs = append(errs, retryBusy(func() error { return removeCgroups(name) }))
	}
	// Another lab may have taken the name meanwhile.
	if owner := l.owner(); owner == "" || owner == l.Dir {
		errs = append(errs, l.removeNetwork())
	}
	if err := errors.Join(errs...); err != nil {
		return err // the state is kept, so that `down` can be repeated
	}
	if err := l.removeState(); err != nil {
		return err
	}
	r.say("nothing is left of the lab")
	return nil
}

// checkDir refuses a directory with other content than a lab.
func checkDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if exists(filepath.Join(dir, labFile)) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			return fmt.Errorf("--dir %s: holds %s, which is no part of a lab", dir, e.Name())
		}
	}
	return nil
}

// removeState removes the lab's files from its directory, and the directory too
// if nothing else is in it. The file that marks a lab is the last one except for
// the lock, so that removeState can be repeated.
func (l Lab) removeState() error {
	names := []string{"bin", "kubeconfig", "registries", markFile, markFile + ".new", networkMarker}
	for _, c := range l.Plan() {
		names = append(names, c.Name)
		for _, n := range c.Nodes {
			names = append(names, n.Name)
		}
	}
	for _, name := range append(names, labFile+".new", labFile, lockFile) {
		if err := os.RemoveAll(l.path(name)); err != nil {
			return err
		}
	}
	if err := os.Remove(l.Dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// recoverLab finds the objects of the lab in dir if somebody has deleted the
// lab's state. The lab's link to this machine has the name of the lab, and
// namespaces with this name show the rest.
func recoverLab(dir string) (l Lab, found bool) {
	links, err := net.Interfaces()
	if err != nil {
		return Lab{}, false
	}
	l = Lab{Dir: dir, Nodes: maxNodes, WAN: netip.MustParsePrefix(defaultWAN)}
	for _, link := range links {
		if name, ok := strings.CutSuffix(link.Name, "wan"); ok && (Lab{Name: name}).owner() == dir {
			l.Name = name
		}
	}
	if l.Name == "" {
		return Lab{}, false
	}
	entries, err := filepath.Glob(filepath.Join(netnsFolder, l.Name+"-*-*"))
	if err != nil {
		return Lab{}, false
	}
	for _, entry := range entries {
		cluster := strings.Split(filepath.Base(entry), "-")[1]
		if !slices.Contains(l.Clusters, cluster) {
			l.Clusters = append(l.Clusters, cluster)
		}
	}
	l.NAT = l.Clusters // perhaps; objects that don't exist are not removed
	return l, true
}

func (l Lab) killNodes(nodes map[string]int) error {
	var group errgroup.Group
	for dir, pid := range nodes {
		group.Go(func() error { return killNode(pid, dir, killTimeout) })
	}
	return group.Wait()
}

// retryBusy repeats remove while a cgroup still has dying processes. A process
// leaves its groups a little later than its parent learns of its end.
func retryBusy(remove func() error) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := remove()
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pollInterval)
	}
}

// lock makes sure that only one `up` or `down` works in dir at a time. The end of
// the process ends the lock.
func lock(ctx context.Context, dir string, r *reporter) error {
	path := filepath.Join(dir, lockFile)
	for {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		if err := flock(ctx, fd, r); err != nil {
			unix.Close(fd)
			return fmt.Errorf("lock %s: %w", path, err)
		}
		var held, there unix.Stat_t
		if unix.Fstat(fd, &held) == nil && unix.Stat(path, &there) == nil && held.Ino == there.Ino {
			return nil
		}
		unix.Close(fd) // `down` removed it while this process waited
	}
}

func flock(ctx context.Context, fd int, r *reporter) error {
	for told := false; ; told = true {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if !told {
			r.say("waiting for another `lab up` or `lab down`")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}
