package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// kernels lists the state of the kernel, the disks and the runtime of every node and router, and the lab's
// objects on this machine. nodes has the running nodes, in the form of [Lab.running].
func (l Lab) kernels(nodes map[string]int) (listing, error) {
	var group errgroup.Group
	var parts []listing
	in := func(work func(listing) error) {
		part := listing{}
		parts = append(parts, part)
		group.Go(func() error { return work(part) })
	}
	for _, netns := range l.routers() {
		in(func(to listing) error { return listNetwork(to, netns, netns) })
	}
	for _, c := range l.Plan() {
		for _, n := range c.Nodes {
			in(func(to listing) error {
				pid := nodes[l.nodeDir(n)]
				if pid == 0 {
					to.add(n.Name, "dead", "")
					return nil
				}
				return errors.Join(
					listNetwork(to, n.Name, l.nodeNetns(n)),
					listProcesses(to, n.Name, pid),
					listMounts(to, n.Name, pid, l.nodeDir(n)),
					listDisks(to, n.Name, pid, l.nodeDir(n)),
					l.listImages(to, n),
				)
			})
		}
	}
	in(l.listMachine)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := listing{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all, nil
}

// thisMachine is a section of the listing. No cluster or node can have this name.
const thisMachine = "this-machine"

// listMachine lists the lab's objects on this machine, but no objects of other programs.
func (l Lab) listMachine(to listing) error {
	const section = thisMachine
	links, err := outputOf("ip", "-json", "-details", "addr", "show")
	if err != nil {
		return fmt.Errorf("list links of this machine: %w", err)
	}
	all := listing{}
	if err := readLinks(all, section, []byte(links)); err != nil {
		return err
	}
	for name, value := range all[section] {
		if name == l.hostLink() {
			to.add(section, "link "+name, value)
		}
	}
	for _, family := range []string{"-4", "-6"} {
		routes, err := outputOf("ip", family, "route", "show", "table", "all")
		if err != nil {
			return fmt.Errorf("list routes of this machine: %w", err)
		}
		for _, route := range readRoutes(routes) {
			if strings.Contains(route+" ", " dev "+l.hostLink()+" ") {
				to.add(section, "route "+route, "")
			}
		}
	}
	for what, pattern := range map[string]string{
		"network namespace": filepath.Join(netnsFolder, l.Name+"-*"),
		"control group":     "/sys/fs/cgroup/" + l.Name + "-*",
		"control group of":  "/sys/fs/cgroup/*/" + l.Name + "-*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range found {
			to.add(section, what+" "+path, "")
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, m := range readMounts(mounts) {
		if strings.HasPrefix(m.point+"/", l.Dir+"/") {
			to.add(section, "mount "+m.point, m.kind)
		}
	}
	return nil
}

// listNetwork lists links, routes, rules and nftables of a network namespace.
func listNetwork(to listing, name, netns string) error {
	in := func(argv ...string) (string, error) {
		out, err := outputOf("nsenter", append([]string{"--net=" + filepath.Join(netnsFolder, netns)}, argv...)...)
		if err != nil {
			return "", fmt.Errorf("%s: %s: %w", name, strings.Join(argv, " "), err)
		}
		return out, nil
	}
	links, err := in("ip", "-json", "-details", "addr", "show")
	if err != nil {
		return err
	}
	if err := readLinks(to, name+" links", []byte(links)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, family := range []string{"-4", "-6"} {
		routes, err := in("ip", family, "route", "show", "table", "all")
		if err != nil {
			return err
		}
		for _, route := range readRoutes(routes) {
			to.add(name+" routes", family+" "+route, "")
		}
		rules, err := in("ip", family, "rule", "show")
		if err != nil {
			return err
		}
		for rule := range strings.Lines(rules) {
			to.add(name+" rules", family+" "+strings.Join(strings.Fields(rule), " "), "")
		}
	}
	ruleset, err := in("nft", "--stateless", "list", "ruleset")
	if err != nil {
		return err
	}
	readRuleset(to, name+" nftables", ruleset)
	return nil
}

// readLinks reads the output of `ip -json -details addr show`. It leaves out hardware addresses (those of
// bridges and tunnels are random), the carrier (a bridge without pods has none), and the link's own IPv6
// addresses, because the kernel adds them only a second or two later.
func readLinks(to listing, section string, text []byte) error {
	var links []struct {
		Name   string   `json:"ifname"`
		Flags  []string `json:"flags"`
		MTU    int      `json:"mtu"`
		Master string   `json:"master"`
		Info   struct {
			Kind string `json:"info_kind"`
		} `json:"linkinfo"`
		Addresses []struct {
			Local  string `json:"local"`
			Prefix int    `json:"prefixlen"`
			Scope  string `json:"scope"`
			Family string `json:"family"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("read links: %w", err)
	}
	for _, link := range links {
		lines := []string{strings.TrimSpace(fmt.Sprintf("%s mtu %d", link.Info.Kind, link.MTU))}
		if slices.Contains(link.Flags, "UP") {
			lines = append(lines, "up")
		}
		if link.Master != "" {
			lines = append(lines, "port of "+link.Master)
		}
		var addresses []string
		for _, a := range link.Addresses {
			if a.Family != "inet6" || a.Scope != "link" {
				addresses = append(addresses, fmt.Sprintf("address %s/%d", a.Local, a.Prefix))
			}
		}
		slices.Sort(addresses)
		to.add(section, withoutPassingNames(link.Name), strings.Join(append(lines, addresses...), "\n"))
	}
	return nil
}

// readRoutes reads the output of `ip route show table all`. It leaves out the carrier, and the routes that
// the kernel adds late for each link's own IPv6 address.
func readRoutes(text string) []string {
	var routes []string
	for line := range strings.Lines(text) {
		f := slices.DeleteFunc(strings.Fields(line), func(word string) bool { return word == "linkdown" || word == "dead" })
		ofLink := slices.ContainsFunc(f, func(word string) bool {
			return strings.HasPrefix(word, "fe80:") || word == "ff00::/8"
		})
		if len(f) > 0 && !ofLink {
			routes = append(routes, withoutPassingNames(strings.Join(f, " ")))
		}
	}
	return routes
}

// The names of kube-proxy's tables, and one of its rules.
const (
	proxyTable  = "kube-proxy"
	unallocated = "Drop traffic to unallocated ClusterIPs"
)

// readRuleset reads the output of `nft --stateless list ruleset`, which has no counters and no handles. It
// ignores the order of chains and of a set's elements, because this is only the order of their creation. The
// order of rules counts. kube-proxy empties the chains of a deleted Service at once, but deletes them only at
// its next full sync, 30 s later, so an empty chain is ignored. kube-proxy's rule for addresses without a
// Service may exist once, twice or not at all, depending on the order of events at its start.
func readRuleset(to listing, section, text string) {
	var table, block string
	var body []string
	elements := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(withoutPassingNames(line))
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case table == "" && strings.HasSuffix(line, "{"):
			table = strings.TrimSpace(strings.TrimSuffix(line, "{"))
			to.add(section, table, "")
		case table != "" && block == "" && line == "}":
			table = ""
		case block == "" && strings.HasSuffix(line, "{"):
			block, body = strings.TrimSpace(strings.TrimSuffix(line, "{")), nil
		case block == "":
			to.add(section, table+" "+line, "")
		case elements || strings.HasPrefix(line, "elements = {"):
			elements = !strings.HasSuffix(line, "}")
			line = strings.TrimSuffix(strings.TrimPrefix(line, "elements = {"), "}")
			for element := range strings.SplitSeq(line, ",") {
				if element = strings.TrimSpace(element); element != "" {
					body = append(body, "element "+element)
				}
			}
		case line == "}":
			if strings.HasPrefix(block, "map ") || strings.HasPrefix(block, "set ") {
				slices.Sort(body)
			}
			if strings.HasSuffix(table, " "+proxyTable) {
				body = slices.DeleteFunc(body, func(rule string) bool { return strings.Contains(rule, unallocated) })
			}
			emptied := strings.HasSuffix(table, " "+proxyTable) && strings.HasPrefix(block, "chain ") && len(body) == 0
			if !emptied {
				to.add(section, table+" "+block, strings.Join(body, "\n"))
			}
			block = ""
		default:
			body = append(body, line)
		}
	}
}

// listProcesses lists the command lines of all processes of a node, including those of pods. The node's own
// /proc has all of them.
func listProcesses(to listing, name string, pid int) error {
	proc := fmt.Sprintf("/proc/%d/root/proc", pid)
	entries, err := os.ReadDir(proc)
	if err != nil {
		return fmt.Errorf("%s: list processes: %w", name, err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil {
			continue // the process has ended
		}
		line := strings.ReplaceAll(strings.TrimRight(string(cmdline), "\x00"), "\x00", " ")
		if line == "" { // a zombie has a name, but no command line
			comm, err := os.ReadFile(filepath.Join(proc, e.Name(), "comm"))
			if err != nil {
				continue
			}
			line = "[" + strings.TrimSpace(string(comm)) + "]"
		}
		to.add(name+" processes", withoutPassingNames(line), "")
	}
	return nil
}

// mount is a line of mountinfo.
type mount struct {
	id, parent  string
	point, kind string
}

func readMounts(text []byte) []mount {
	var mounts []mount
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		before, after, _ := strings.Cut(scanner.Text(), " - ")
		f, more := strings.Fields(before), strings.Fields(after)
		if len(f) >= 5 && len(more) > 0 {
			mounts = append(mounts, mount{id: f[0], parent: f[1], point: f[4], kind: more[0]})
		}
	}
	return mounts
}

// machineMounts is a file in a node's folder. It lists the mounts of this machine that the node had at its
// start, because other programs, such as other labs, mount and unmount at any time.
const machineMounts = "mounts-of-machine"

func listMounts(to listing, name string, pid int, dir string) error {
	before, err := os.ReadFile(filepath.Join(dir, machineMounts))
	if err != nil {
		return fmt.Errorf("%s: list mounts: %w", name, err)
	}
	now, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return fmt.Errorf("%s: list mounts: %w", name, err)
	}
	inherited := map[mount]bool{}
	for _, m := range readMounts(before) {
		inherited[m] = true
	}
	for _, m := range readMounts(now) {
		if !inherited[m] {
			to.add(name+" mounts", withoutPassingNames(m.point), m.kind)
		}
	}
	return nil
}

// listedDisks returns the nodeDisks with settings, into which other programs write files. The other nodeDisks
// contain the programs' own state.
func listedDisks() []string { return []string{"/etc", "/opt"} }

// listDisks lists the files that a node has written.
func listDisks(to listing, name string, pid int, dir string) error {
	root := filepath.Join(fmt.Sprintf("/proc/%d/root", pid), nodeSpec{Dir: dir}.data(), "disk")
	for _, disk := range listedDisks() {
		err := filepath.WalkDir(filepath.Join(root, disk), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			value := e.Type().String()
			if e.Type().IsRegular() {
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				value = fmt.Sprintf("%d bytes, SHA-256 %.6x", len(text), sha256.Sum256(text))
			}
			to.add(name+" files", strings.TrimPrefix(path, root), value)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: list files: %w", name, err)
		}
	}
	return nil
}

// listImages lists the images of a node by name. containerd has another entry for each digest.
func (l Lab) listImages(to listing, n Node) error {
	images, err := l.images(n)
	for _, image := range images {
		to.add(n.Name+" images", image, "")
	}
	return err
}

func (l Lab) images(n Node) ([]string, error) {
	argv, err := l.enterArgs(n, []string{"/usr/bin/ctr", "--namespace=k8s.io", "images", "list", "--quiet"})
	if err != nil {
		return nil, err
	}
	out, err := outputOf(argv[0], argv[1:]...)
	if err != nil {
		return nil, fmt.Errorf("%s: list images: %w", n.Name, err)
	}
	return strings.Fields(out), nil
}
