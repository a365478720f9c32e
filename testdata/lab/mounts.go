package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// nodeDisks returns the top-level folders in which a node's writes are invisible to
// the machine and to other nodes. The other folders are shared, so that a node
// always runs the present program in /home or /tmp. An overlay would not guarantee
// this.
func nodeDisks() []string { return []string{"/etc", "/opt", "/run", "/var"} }

// nodeFolders returns folders that are empty on a node, whatever they contain on the
// machine. They are on a tmpfs, because containerd's snapshots are overlays, and an
// overlay can't be on another overlay.
func nodeFolders() []string {
	return []string{
		"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/run/containerd", netnsFolder,
		"/etc/cni/net.d", "/var/log/pods", "/var/log/containers",
	}
}

// kernelSettings returns settings of the whole machine that kubelet requires. A node
// shows it files that already have these values, so the settings of the machine
// don't change.
func kernelSettings() map[string]string {
	return map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
}

// isolate gives the calling process its own view of the machine: /proc, the
// nodeDisks, the nodeFolders and the kernelSettings. The process is the first one in
// new mount, pid and uts namespaces. All that it writes there disappears when it
// ends.
func (n nodeSpec) isolate() error {
	// This comes first, so that no mount here reaches the machine.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.Dir, machineMounts), mounts, 0o600); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Sethostname([]byte(n.Name)); err != nil {
		return fmt.Errorf("set host name %s: %w", n.Name, err)
	}
	if err := os.MkdirAll(n.data(), 0o700); err != nil {
		return err
	}
	if err := unix.Mount("lab", n.data(), "tmpfs", 0, "size=6g,mode=755"); err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", n.data(), err)
	}
	if err := n.mountDisks(); err != nil {
		return err
	}
	for _, folder := range nodeFolders() {
		from := filepath.Join(n.data(), folder)
		if err := os.MkdirAll(from, 0o755); err != nil {
			return err
		}
		if err := bind(from, folder); err != nil {
			return err
		}
	}
	if err := n.bindKernelSettings(kernelSettings()); err != nil {
		return err
	}
	if n.CNI == cniCilium {
		if err := n.isolateBPF(); err != nil {
			return err
		}
	}
	// kubelet must see the volumes and namespaces that containerd mounts, and
	// containerd those that kubelet mounts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

// mountDisks mounts an overlay over each of the nodeDisks, and then makes the
// folders visible that the node shares with the lab. It holds these folders open
// meanwhile, because their paths would lead to copies in the overlays.
func (n nodeSpec) mountDisks() error {
	held := map[string]string{} // by path: the path by its descriptor
	for _, path := range append([]string{n.data()}, n.Shared...) {
		dir, err := os.Open(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		held[path] = fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	}
	for _, disk := range nodeDisks() {
		upper := filepath.Join(held[n.data()], "disk", disk)
		work := filepath.Join(held[n.data()], "work", disk)
		for _, dir := range []string{upper, work} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", disk, upper, work)
		if err := unix.Mount("overlay", disk, "overlay", 0, options); err != nil {
			return fmt.Errorf("mount overlay on %s: %w", disk, err)
		}
	}
	for _, path := range n.Shared {
		if err := bind(held[path], path); err != nil {
			return err
		}
	}
	return nil
}

func (n nodeSpec) bindKernelSettings(settings map[string]string) error {
	for name, value := range settings {
		setting := filepath.Join("/proc/sys", name)
		if !exists(setting) {
			continue
		}
		fake := filepath.Join(n.data(), "sys", name)
		if err := os.MkdirAll(filepath.Dir(fake), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(fake, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(fake, setting, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount on %s: %w", setting, err)
		}
	}
	return nil
}

// bind makes the folder from, with everything that is mounted below it, appear at
// the folder to.
func bind(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount on %s: %w", to, err)
	}
	return nil
}

// cgroupRoots returns the roots of the machine's cgroup hierarchies: all of version
// 1 if there are any, otherwise the one of version 2.
func cgroupRoots() ([]string, error) {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	byType := map[string][]string{}
	for scanner := bufio.NewScanner(mounts); scanner.Scan(); {
		if f := strings.Fields(scanner.Text()); len(f) > 2 && strings.HasPrefix(f[1], "/sys/fs/cgroup") {
			byType[f[2]] = append(byType[f[2]], f[1])
		}
	}
	if v1 := byType["cgroup"]; len(v1) > 0 {
		return v1, nil
	}
	if v2 := byType["cgroup2"]; len(v2) > 0 {
		return v2, nil
	}
	return nil, errors.New("find cgroups: nothing of type cgroup or cgroup2 is mounted below /sys/fs/cgroup")
}

func makeCgroups(name string) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		group := filepath.Join(root, name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		// A new group in the cpuset hierarchy (version 1) has no CPU and no memory
		// node. No process can enter it before both are set.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				continue // this is another hierarchy
			}
			if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroups removes the groups with that name in all hierarchies, including the
// hybrid one, which container runtimes use by themselves. While a process of the
// group is still dying, the error satisfies errors.Is(err, unix.EBUSY).
func removeCgroups(name string) error {
	var errs []error
	for _, glob := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		groups, err := filepath.Glob(glob)
		if err != nil {
			return err
		}
		for _, group := range groups {
			errs = append(errs, removeCgroup(group))
		}
	}
	return errors.Join(errs...)
}

func removeCgroup(group string) error {
	var dirs []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
