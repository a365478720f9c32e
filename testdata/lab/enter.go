package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// enterArgs returns the command that runs argv as a process of the node.
func (l Lab) enterArgs(n Node, argv []string) ([]string, error) {
	nodes, err := l.running()
	if err != nil {
		return nil, err
	}
	pid := nodes[l.nodeDir(n)]
	if pid == 0 {
		return nil, fmt.Errorf("node %s does not run; `lab up` starts it again", n.Name)
	}
	enter := []string{"nsenter", fmt.Sprintf("--target=%d", pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}
	return append(enter, argv...), nil
}

// become replaces this process by the program, so that exit status, signals and
// standard streams are those of the program.
func become(argv, env []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, argv, env))
}

// environment returns the environment for commands on a node: the commands find
// kubectl and similar programs, and don't use a kubeconfig of the caller.
func (l Lab) environment(c Cluster) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "KUBECONFIG=")
	})
	return append(env,
		"PATH="+l.path("bin")+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"KUBECONFIG="+l.adminKubeconfig(c))
}

// loadImages imports archives into every node of the lab. The returned lab
// records them.
func loadImages(l Lab, archives []string, r *reporter) (Lab, error) {
	var group errgroup.Group
	for _, c := range l.Plan() {
		for _, n := range c.Nodes {
			group.Go(func() error {
				for _, archive := range archives {
					if err := l.loadImage(n, archive); err != nil {
						return err
					}
					r.say("%s: %s", n.Name, archive)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return l, err
	}
	for _, archive := range archives {
		path, err := filepath.Abs(archive)
		if err != nil {
			return l, err
		}
		if !slices.Contains(l.Loaded, path) {
			l.Loaded = append(l.Loaded, path)
		}
	}
	return l, l.write()
}

func (l Lab) loadImage(n Node, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	argv, err := l.enterArgs(n, importCommand())
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = file
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s into %s: %w: %s", archive, n.Name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// status prints a line for each node, and the cut paths. It returns false if a
// node is not ready.
func status(ctx context.Context, l Lab, out io.Writer) (bool, error) {
	nodes, err := l.running()
	if err != nil {
		return false, err
	}
	ready := true
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tADDRESS\tPOD CIDR\tPID\tSTATE")
	for _, c := range l.Plan() {
		for _, n := range c.Nodes {
			pid, state := nodes[l.nodeDir(n)], "dead"
			switch {
			case pid == 0:
			case !l.networkComplete():
				// Packets to the node's address would leave this machine by
				// another route.
				state = "cut off: the network of the lab is damaged"
			default:
				state = nodeState(ctx, l, c, n)
			}
			ready = ready && state == "ready"
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", n.Name, n.Address, n.PodCIDR, pid, state)
		}
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	for _, rule := range cutRules(l) {
		fmt.Fprintln(out, "cut:", rule)
	}
	return ready, nil
}

func nodeState(ctx context.Context, l Lab, c Cluster, n Node) string {
	api, err := apiClient(l.adminKubeconfig(c))
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	node, err := api.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return "ready"
		}
	}
	return "not ready"
}

func outputOf(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	return string(out), err
}
