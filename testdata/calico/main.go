// Command calico runs Calico on a node of the lab. As calico and calico-ipam it is the
// CNI plugin and its address management, which containerd starts. As calico-node it joins
// a node to the network, as Calico's own init containers do, and then runs felix, which
// makes routes and rules. All this is in Calico's own packages. BIRD is left out, because
// the network is a VXLAN.
//
//	calico-node NODE KUBECONFIG SETUP.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/projectcalico/calico/cni-plugin/pkg/ipamplugin"
	"github.com/projectcalico/calico/cni-plugin/pkg/plugin"
	"github.com/projectcalico/calico/felix/daemon"
)

const version = "v3.28"

func main() {
	switch filepath.Base(os.Args[0]) {
	case "calico":
		plugin.Main(version)
	case "calico-ipam":
		ipamplugin.Main(version)
	default:
		if err := node(); err != nil {
			fmt.Fprintln(os.Stderr, "calico-node:", err)
			os.Exit(1)
		}
	}
}

func node() error {
	if len(os.Args) != 4 {
		return errors.New("usage: calico-node NODE KUBECONFIG SETUP.json")
	}
	data, err := os.ReadFile(os.Args[3])
	if err != nil {
		return err
	}
	n := member{name: os.Args[1], kubeconfig: os.Args[2]}
	if err := json.Unmarshal(data, &n.setup); err != nil {
		return fmt.Errorf("read %s: %w", os.Args[3], err)
	}
	// The program that starts this one repeats it until the API server answers, the CRDs
	// are served and the Node exists.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.join(ctx); err != nil {
		return fmt.Errorf("join the network: %w", err)
	}
	for name, value := range map[string]string{
		"KUBECONFIG": n.kubeconfig, "DATASTORE_TYPE": "kubernetes",
		"FELIX_DATASTORETYPE": "kubernetes", "FELIX_FELIXHOSTNAME": n.name,
		"FELIX_IPV6SUPPORT": "false", "FELIX_USAGEREPORTINGENABLED": "false", "FELIX_XDPENABLED": "false",
		"FELIX_HEALTHENABLED": "true",
		// A Felix without cgo has no system calls of BPF. On a kernel with BPF, its
		// search for programs of an earlier BPF data plane would panic.
		"FELIX_DebugSkipCTLBCleanup": "true",
		// As in Calico's manifests. The built-in default would block packets from pods to
		// their node.
		"FELIX_DEFAULTENDPOINTTOHOSTACTION": "ACCEPT",
		"FELIX_IPTABLESBACKEND":             "nft",
		"FELIX_LOGSEVERITYSCREEN":           "warning",
		"FELIX_LOGFILEPATH":                 "none", "FELIX_LOGSEVERITYFILE": "none", "FELIX_LOGSEVERITYSYS": "none",
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	go func() {
		if err := n.admit(); err != nil {
			fmt.Fprintln(os.Stderr, "calico-node:", err)
			os.Exit(1)
		}
	}()
	daemon.Run("", version, "", "") // this ends the process
	return nil
}
