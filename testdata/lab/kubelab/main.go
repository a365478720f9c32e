// Command kubelab is etcd and the components of Kubernetes in one program. Its name at
// the start (a symbolic link), or its first argument, selects the component. One program
// has 140 MB; six would have about 450 MB, most of it the same code. kubectl is a
// separate program, because tests start it thousands of times, and as a part of this one
// each start took 0.17 s of CPU more.
//
// The linker sets the version: see the Makefile. Without it, nodes report v0.0.0-master.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	_ "time/tzdata" // CronJobs have time zones, and the machine may have no database of them

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components returns the programs in here by name. Each takes its arguments from os.Args
// and returns an exit status, unless it ends the process itself.
func components() map[string]func() int {
	run := func(command func() *cobra.Command) func() int {
		return func() int { return cli.Run(command()) }
	}
	return map[string]func() int{
		"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
		"kube-apiserver":          run(apiserver.NewAPIServerCommand),
		"kube-controller-manager": run(manager.NewControllerManagerCommand),
		"kube-scheduler":          run(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kubelet":                 run(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		"kube-proxy":              run(proxy.NewProxyCommand),
	}
}

func main() {
	// In a lab, these programs mostly start, and serve a few objects. With the default of
	// 100, an API server used a sixth of its first seconds to collect garbage. This
	// setting costs 100 MB more.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	all := components()
	component, found := all[filepath.Base(os.Args[0])]
	if !found && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		component, found = all[os.Args[0]]
	}
	if !found {
		names := slices.Sorted(maps.Keys(all))
		fmt.Fprintf(os.Stderr, "usage: kubelab COMPONENT ARGS..., one of %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(component())
}
