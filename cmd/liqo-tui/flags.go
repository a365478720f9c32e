package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// connectionSettings are the settings of a connection. Flags, keys of the file of network connect -f, and the
// wizard's form are made from them.
var connectionSettings = flows.Settings()

// clusterFlags choose one cluster as kubectl's flags do.
type clusterFlags struct {
	kubeconfig, context, namespace string
	command.Instead
	// files are the files of all --kubeconfig flags. If there is only one file, kubeconfig is that file;
	// otherwise kubeconfig is "".
	files []string
	// delegation is set to observe also the operators' access to each other.
	delegation bool
	image      string // of our gateways; "" for the release's image
	tenant     string // the namespace to observe if this user may not read all
	// lending chooses the observed objects of lending.
	lending kube.Lending
}

func (c *clusterFlags) add(f *pflag.FlagSet, prefix, whose string) {
	f.Var((*kubeconfigs)(c), prefix+"kubeconfig", "kubeconfig file of "+whose+"; may be repeated: the file with the context is used (default: as kubectl finds it)")
	f.StringVar(&c.context, prefix+"context", "", "kubeconfig context of "+whose+" (default: the current one)")
	f.StringVar(&c.Cluster, prefix+"cluster", "", "kubeconfig cluster to use instead of the context's")
	f.StringVar(&c.User, prefix+"user", "", "kubeconfig user to use instead of the context's")
	addRequests(f, prefix, &c.Instead)
	f.StringVar(&c.namespace, prefix+"liqo-namespace", wire.DefaultNamespace, "namespace of Liqo or the operator on "+whose)
}

// addRequests adds the flags that apply to every request, to any cluster.
func addRequests(f *pflag.FlagSet, prefix string, to *command.Instead) {
	f.StringVar(&to.As, prefix+"as", "", "user to impersonate, as with kubectl")
	f.StringArrayVar(&to.AsGroups, prefix+"as-group", nil, "group to impersonate; may be repeated")
	f.StringVar(&to.AsUID, prefix+"as-uid", "", "UID to impersonate")
	f.Var((*requestTimeout)(&to.RequestTimeout), prefix+"request-timeout", "how long the API server may be silent within a request; 0: no limit (default: 15s)")
}

// requestTimeout is the value of --request-timeout, in kubectl's form.
type requestTimeout string

func (r *requestTimeout) String() string { return string(*r) }
func (*requestTimeout) Type() string     { return "duration" }

// Set implements [pflag.Value].
func (r *requestTimeout) Set(text string) error {
	if within, err := clientcmd.ParseTimeout(text); err != nil || within < 0 {
		return errors.New("want seconds, or a number with its unit, such as 30s or 2m")
	}
	*r = requestTimeout(text)
	return nil
}

func (c *clusterFlags) options() kube.Options {
	return kube.Options{
		Context: flows.ContextRef{File: c.kubeconfig, Name: c.context}, Files: c.files,
		Instead: c.Instead, Namespace: c.namespace, Tenant: c.tenant, Delegation: c.delegation, Lending: c.lending, Image: cmp.Or(c.image, releasedImage),
	}
}

// kubeconfigs is the value of --kubeconfig. The flag may be repeated, and each value may be a list as in
// KUBECONFIG.
type kubeconfigs clusterFlags

func (k *kubeconfigs) String() string { return strings.Join(k.files, ", ") }
func (*kubeconfigs) Type() string     { return "file" }

// GetSlice returns the files.
func (k *kubeconfigs) GetSlice() []string { return k.files }

// Set implements [pflag.Value].
func (k *kubeconfigs) Set(file string) error {
	list := []string{file}
	if _, err := os.Stat(file); err != nil { // a file's name may contain the separator
		list = slices.DeleteFunc(filepath.SplitList(file), func(file string) bool { return file == "" })
	}
	if k.files = append(k.files, list...); len(k.files) == 1 {
		k.kubeconfig = k.files[0]
	} else {
		k.kubeconfig = ""
	}
	return nil
}

// named reports whether --kubeconfig or --context chooses the cluster.
func (c *clusterFlags) named() bool { return len(c.files) > 0 || c.context != "" }

func (c *clusterFlags) open() (*kube.Cluster, error) { return kube.Open(c.options()) }

// everywhere returns the flags that also apply to the clusters of other contexts: the flags of requests,
// without --cluster and --user.
func (c *clusterFlags) everywhere() command.Instead {
	i := c.Instead
	i.Cluster, i.User = "", ""
	return i
}

// pairFlags choose the two clusters: A is local, B is remote.
type pairFlags struct {
	local, remote clusterFlags
	others        command.Instead // flags for the other contexts that a screen opens
	image         string          // the image of our operator, for an installation, and of test pods
}

func newPairFlags(cmd *cobra.Command, persistent bool) *pairFlags {
	f := cmd.Flags()
	if persistent {
		f = cmd.PersistentFlags()
	}
	p := &pairFlags{}
	p.add(f)
	return p
}

func (p *pairFlags) add(f *pflag.FlagSet) { ofClusters.add(f, func() { p.addBoth(f) }) }

func (p *pairFlags) addBoth(f *pflag.FlagSet) {
	p.local.add(f, "", "the local cluster (A)")
	p.remote.add(f, "remote-", "the remote cluster (B)")
	f.Lookup("remote-kubeconfig").Usage = "kubeconfig file of the remote cluster; may be repeated: the file with the context is used (default: as kubectl finds it; if that has no such context, the files of --kubeconfig)"
	f.Lookup("remote-context").Usage = "kubeconfig context of the remote cluster (B); needed, unless --remote-kubeconfig is given"
}

// open opens both clusters. If one can't be opened, it opens none.
func (p *pairFlags) open() (a, b *kube.Cluster, err error) {
	p.local.image, p.remote.image = p.image, p.image
	if a, err = p.local.open(); err != nil {
		return nil, nil, err
	}
	remote := p.remote
	if !remote.named() {
		a.Close()
		return nil, nil, exit.UsageError{Err: errNoRemote}
	}
	if b, err = remote.open(); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

// openFor opens both clusters, or only the local one if localOnly is set.
func (p *pairFlags) openFor(localOnly bool) (a, b engine.Cluster, closeAll func(), err error) {
	if localOnly {
		local, err := p.local.open()
		if err != nil {
			return nil, nil, nil, err
		}
		return local, engine.Absent{Context: p.remote.options().Context}, local.Close, nil
	}
	local, remote, err := p.open()
	if err != nil {
		return nil, nil, nil, err
	}
	return local, remote, func() { local.Close(); remote.Close() }, nil
}

func addNamespaces(f *pflag.FlagSet, to *[2]string) {
	f.StringVarP(&to[flows.A], "namespace", "n", "", "tenant namespace on the local cluster (default: the peering's own)")
	f.StringVar(&to[flows.B], "remote-namespace", "", "tenant namespace on the remote cluster (default: the peering's own)")
}

// addRemoval adds the flags that choose the connection to remove: --local-only, the remote cluster's ID, and the
// tenant namespaces.
func addRemoval(f *pflag.FlagSet, o *flows.RemoveOptions) {
	f.BoolVar(&o.LocalOnly, "local-only", false, "work on the local cluster only; the remote one need not answer or exist")
	f.StringVar((*string)(&o.Peer), "remote-cluster-id", "", "cluster ID of the remote cluster, for --local-only (default: the only peer)")
	addNamespaces(f, &o.Namespaces)
}

// wrongPeer returns an error for a --remote-cluster-id without --local-only, or with a value that can't be an
// ID. It accepts an ID of digits only, although no new cluster may have one: Liqo may have left an unfinished
// connection with such an ID.
func wrongPeer(o flows.RemoveOptions) error {
	switch {
	case o.Peer == "":
		return nil
	case !o.LocalOnly:
		return errors.New("--remote-cluster-id: applies to --local-only only; else the remote cluster is asked for its ID")
	}
	if wrong := validation.IsDNS1123Label(string(o.Peer)); len(wrong) > 0 {
		return fmt.Errorf("--remote-cluster-id %q: want a cluster ID: a-z, 0-9 and -, starting and ending with a letter or digit", o.Peer)
	}
	return nil
}

// acceptLiqoctl makes a command accept liqoctl's names of flags as well.
func acceptLiqoctl(cmd *cobra.Command) {
	ours := map[string]string{"skip-confirm": "yes"}
	for _, s := range connectionSettings {
		ours[s.Liqoctl] = s.Name
	}
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(ours[strings.ToLower(name)], name))
	})
}

// protected returns the names of the clusters' contexts that the guard protects. A cluster without --context
// has the current context.
func protected(g config.Guard, clusters ...clusterFlags) []string {
	var names []string
	for _, c := range clusters {
		name := c.context
		if name == "" && len(g) > 0 {
			name = c.currentContext()
		}
		if g.Protects(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// currentContext returns the name of the context that kubectl uses without --context.
func (c clusterFlags) currentContext() string {
	contexts, _ := kubeconfig.Contexts(c.files) // an unreadable file was reported when the cluster was opened
	if i := slices.IndexFunc(contexts, func(c kubeconfig.Context) bool { return c.Current }); i >= 0 {
		return contexts[i].Ref.Name
	}
	return ""
}
