// Command cilium is one of several programs of Cilium on a node of the lab; its name at
// the start selects the program. cilium-agent prepares the node, as Cilium's init
// containers do, and then runs the agent. cilium-operator writes the settings into the
// cluster, as Helm does, and then runs the operator. cilium-cni is the CNI plugin,
// which containerd starts, and cilium-dbg is for admins. All this is in Cilium's own
// packages.
//
//	cilium-agent NODE KUBECONFIG SETUP.json
//	cilium-operator NODE KUBECONFIG SETUP.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	dbg "github.com/cilium/cilium/cilium-dbg/cmd"
	agent "github.com/cilium/cilium/daemon/cmd"
	operator "github.com/cilium/cilium/operator/cmd"
	"github.com/cilium/cilium/pkg/hive"
	cni "github.com/cilium/cilium/plugins/cilium-cni/cmd"
)

func main() {
	if err := run(filepath.Base(os.Args[0])); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
}

func run(program string) error {
	switch program {
	case "cilium-cni":
		runtime.LockOSThread() // the plugin enters the network namespaces of pods
		cni.PluginMain()
		return nil
	case "cilium-dbg":
		dbg.Execute()
		return nil
	}
	n, err := readMember(program, os.Args)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch program {
	case "cilium-agent":
		if err := n.prepare(ctx); err != nil {
			return fmt.Errorf("prepare the node: %w", err)
		}
		go func() {
			if err := n.admit(); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
				os.Exit(1)
			}
		}()
		os.Args = n.arguments()
		agent.Execute(agent.NewAgentCmd(func() *hive.Hive { return hive.New(agent.Agent) }))
	case "cilium-operator":
		if err := n.publish(ctx); err != nil {
			return fmt.Errorf("write the settings into the cluster: %w", err)
		}
		os.Args = append(n.arguments(), "--shell-sock-path="+filepath.Join(n.settings(), "..", "shell.sock")) // otherwise it would use the agent's socket
		operator.Execute(operator.NewOperatorCmd(hive.New(operator.Operator())))
	default:
		return errors.New("started under an unknown name")
	}
	return nil
}

// setup is the lab's description of a node and of its cluster's network.
type setup struct {
	Settings map[string]string `json:"settings"` // as in the ConfigMap cilium-config
	Sources  string            `json:"sources"`  // folder with the C sources of the BPF programs
	Tools    string            `json:"tools"`    // folder with clang
	// CNI is written to the file Config when the agent is ready, because pods wait for
	// this file.
	CNI    json.RawMessage `json:"cni"`
	Config string          `json:"config"`
}

// member is a program of Cilium on a node.
type member struct {
	program, node, kubeconfig string
	setup                     setup
}

// readMember reads the arguments, and writes the settings to the files that the program
// reads.
func readMember(program string, args []string) (member, error) {
	if len(args) != 4 {
		return member{}, fmt.Errorf("usage: %s NODE KUBECONFIG SETUP.json", program)
	}
	n := member{program: program, node: args[1], kubeconfig: args[2]}
	data, err := os.ReadFile(args[3])
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(data, &n.setup); err != nil {
		return n, fmt.Errorf("read %s: %w", args[3], err)
	}
	if err := os.MkdirAll(n.settings(), 0o755); err != nil {
		return n, err
	}
	for name, value := range n.setup.Settings {
		if err := os.WriteFile(filepath.Join(n.settings(), name), []byte(value), 0o644); err != nil {
			return n, err
		}
	}
	for name, value := range map[string]string{
		"K8S_NODE_NAME": n.node, "CILIUM_K8S_NAMESPACE": namespace, "PATH": n.setup.Tools + ":" + os.Getenv("PATH"),
	} {
		if err := os.Setenv(name, value); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (n member) settings() string { return filepath.Join("/run", n.program, "settings") }

func (n member) arguments() []string {
	return []string{os.Args[0], "--config-dir=" + n.settings(), "--k8s-kubeconfig-path=" + n.kubeconfig}
}
