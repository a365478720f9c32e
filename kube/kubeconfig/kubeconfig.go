// Package kubeconfig finds contexts in kubeconfig files: all contexts with their clusters, or the chosen
// context.
package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Context is a context of a kubeconfig file, with the cluster that it leads to.
type Context struct {
	// Ref opens this context. It names the file if kubectl's own rules would find no context, or another one
	// of the same name.
	Ref    flows.ContextRef
	File   string
	Server string // URL of the API server
	User   string // name of the kubeconfig's user
	// Namespace is the context's namespace; "" if it has none.
	Namespace string
	Current   bool // kubectl uses this context without --context
	// Problem is the reason that this context can't be opened; nil if it can be. None of the files has its
	// cluster or its user.
	Problem error
}

// Contexts returns all contexts of the files, and the problems of files that could not be read. If files is
// empty, it reads the files that kubectl would read. It does not merge the files as kubectl does, because a
// merge keeps one of several contexts of the same name and hides the others. Like kubectl, it ignores missing
// files, unless there are no contexts at all.
func Contexts(files []string) ([]Context, []*Error) {
	k := loadKubeconfigs(files)
	var out []Context
	for _, f := range k.files {
		for _, name := range contextNames(f.config) {
			out = append(out, k.describe(f, name))
		}
	}
	if len(out) == 0 {
		return nil, append(k.problems, k.absent...)
	}
	return out, k.problems
}

// OwnOr returns the files in which a context is looked for: nil for kubectl's own if they have it, or else
// files. If these do not have it either, it returns all of them, so that the error names them all.
func OwnOr(files []string, name string) []string {
	own := loadKubeconfigs(nil)
	switch {
	case len(own.holding(name)) > 0:
		return nil
	case len(loadKubeconfigs(files).holding(name)) > 0:
		return files
	}
	var all []string
	for _, f := range own.files {
		all = append(all, f.path)
	}
	return append(all, files...)
}

// Looked returns the files in which contexts are searched: the given files, or those that kubectl would read.
func Looked(given []string) []string { return loadKubeconfigs(given).looked }

func contextNames(config *clientcmdapi.Config) []string {
	return slices.Sorted(maps.Keys(config.Contexts))
}

// kubeconfigs are the files of one invocation, in their order.
type kubeconfigs struct {
	given    bool // by the admin, not by kubectl's rules
	looked   []string
	files    []kubeconfig
	problems []*Error
	absent   []*Error // missing files that the admin has not given
}

type kubeconfig struct {
	path   string
	config *clientcmdapi.Config
}

// cache holds the parsed files. Otherwise, a file of several MB with a thousand contexts would be parsed once
// for each of them.
type cache struct {
	mu  sync.Mutex
	all map[string]parsedFile
}

type parsedFile struct {
	size    int64
	changed time.Time
	config  *clientcmdapi.Config // shared, so nobody may change it
}

var parsed = cache{all: map[string]parsedFile{}}

// settled is the age of a file from which its time identifies its contents: file systems may store times in
// steps of two seconds.
const settled = 3 * time.Second

// file returns the content of a file, which callers must not change.
func (c *cache) file(path string) (*clientcmdapi.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	known, ok := c.all[path]
	if ok && known.size == info.Size() && known.changed.Equal(info.ModTime()) {
		return known.config, nil
	}
	config, err := clientcmd.LoadFromFile(path)
	if err == nil {
		err = clientcmd.ResolveLocalPaths(config)
	}
	if delete(c.all, path); err == nil && time.Since(info.ModTime()) > settled {
		c.all[path] = parsedFile{info.Size(), info.ModTime(), config}
	}
	return config, err
}

func loadKubeconfigs(given []string) kubeconfigs {
	k := kubeconfigs{given: len(given) > 0, looked: given}
	if !k.given {
		k.looked = clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence()
	}
	for _, path := range k.looked {
		config, err := parsed.file(path)
		switch {
		case err == nil:
			k.files = append(k.files, kubeconfig{path: path, config: config})
		case !k.given && errors.Is(err, fs.ErrNotExist):
			k.absent = append(k.absent, &Error{File: path, Cause: err})
		default:
			k.problems = append(k.problems, &Error{File: path, Cause: err})
		}
	}
	return k
}

func (k kubeconfigs) describe(f kubeconfig, name string) Context {
	c := Context{File: f.path, Ref: flows.ContextRef{File: f.path, Name: name}, User: f.config.Contexts[name].AuthInfo, Namespace: f.config.Contexts[name].Namespace}
	if alone := len(k.holding(name)) == 1; alone && !k.given {
		c.Ref.File = ""
	}
	if current, ok := k.current(); ok {
		c.Current = current.path == f.path && current.config.CurrentContext == name
	}
	part, err := k.part(f, name, Choice{})
	if err != nil {
		c.Problem = err
		return c
	}
	c.Server = part.Clusters[part.Contexts[name].Cluster].Server
	return c
}

// current returns the file that names the current context: the first file that names one, as for kubectl.
func (k kubeconfigs) current() (kubeconfig, bool) {
	i := slices.IndexFunc(k.files, func(f kubeconfig) bool { return f.config.CurrentContext != "" })
	if i < 0 {
		return kubeconfig{}, false
	}
	return k.files[i], true
}

func (k kubeconfigs) holding(name string) []kubeconfig {
	return slices.DeleteFunc(slices.Clone(k.files), func(f kubeconfig) bool { return f.config.Contexts[name] == nil })
}

// find returns the only file that has the context, and the context's name.
func (k kubeconfigs) find(ref flows.ContextRef) (kubeconfig, string, error) {
	name := ref.Name
	var preferred string
	if name == "" {
		current, ok := k.current()
		if !ok {
			return kubeconfig{}, "", k.missing(ref)
		}
		name, preferred = current.config.CurrentContext, current.path
	}
	files := k.holding(name)
	if i := slices.IndexFunc(files, func(f kubeconfig) bool { return f.path == preferred }); i >= 0 {
		return files[i], name, nil
	}
	if len(files) == 0 {
		return kubeconfig{}, "", k.missing(flows.ContextRef{File: ref.File, Name: name})
	}
	for _, other := range files[1:] {
		if !k.same(files[0], other, name) {
			e := &ContextError{Ref: flows.ContextRef{Name: name}}
			for _, f := range files {
				e.Candidates = append(e.Candidates, k.describe(f, name))
			}
			return kubeconfig{}, "", e
		}
	}
	return files[0], name, nil
}

// missing returns the error about a context that was not found. If a file can't be read, its error is better,
// because the context may be in this file.
func (k kubeconfigs) missing(ref flows.ContextRef) error {
	if len(k.problems) > 0 {
		return k.problems[0]
	}
	if len(k.files) == 0 && len(k.absent) > 0 {
		return k.absent[0]
	}
	e := &ContextError{Ref: ref, Looked: k.looked}
	for _, f := range k.files {
		e.Known = append(e.Known, contextNames(f.config)...)
	}
	slices.Sort(e.Known)
	e.Known = slices.Compact(e.Known)
	return e
}

// same reports whether a context has the same cluster and user in two files.
func (k kubeconfigs) same(a, b kubeconfig, name string) bool {
	plain := func(f kubeconfig) (cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo, ok bool) {
		part, err := k.part(f, name, Choice{})
		if err != nil {
			return cluster, user, false
		}
		cluster, user = *part.Clusters[part.Contexts[name].Cluster], *part.AuthInfos[part.Contexts[name].AuthInfo]
		cluster.LocationOfOrigin, user.LocationOfOrigin = "", ""
		cluster.Extensions, user.Extensions = nil, nil // data of other programs, such as minikube's time of the last change
		return cluster, user, true
	}
	clusterA, userA, okA := plain(a)
	clusterB, userB, okB := plain(b)
	return okA && okB && reflect.DeepEqual(clusterA, clusterB) && reflect.DeepEqual(userA, userB)
}

// part returns a configuration with only this context. If the file lacks its cluster or its user, they come
// from another file, which kubectl also allows.
func (k kubeconfigs) part(f kubeconfig, name string, o Choice) (*clientcmdapi.Config, error) {
	context := f.config.Contexts[name].DeepCopy()
	context.Cluster, context.AuthInfo = cmp.Or(o.Cluster, context.Cluster), cmp.Or(o.User, context.AuthInfo)
	part := clientcmdapi.NewConfig()
	part.CurrentContext = name
	part.Contexts[name] = context
	for _, from := range append([]kubeconfig{f}, k.files...) {
		if c := from.config.Clusters[context.Cluster]; c != nil && part.Clusters[context.Cluster] == nil {
			part.Clusters[context.Cluster] = c
		}
		if u := from.config.AuthInfos[context.AuthInfo]; u != nil && part.AuthInfos[context.AuthInfo] == nil {
			part.AuthInfos[context.AuthInfo] = u
		}
	}
	if part.Clusters[context.Cluster] == nil {
		return nil, &Error{File: f.path, Cause: fmt.Errorf("context %q names cluster %q, which is not there", name, context.Cluster)}
	}
	if part.AuthInfos[context.AuthInfo] == nil {
		if context.AuthInfo != "" {
			return nil, &Error{File: f.path, Cause: fmt.Errorf("context %q names user %q, which is not there", name, context.AuthInfo)}
		}
		part.AuthInfos[""] = clientcmdapi.NewAuthInfo() // anonymous
	}
	return part, nil
}

// Choice is a user's choice of a context.
type Choice struct {
	Context flows.ContextRef
	Files   []string // files that may contain the context, if Context names no file; nil for kubectl's own
	command.Instead
}

// Load finds the chosen context, and returns the configuration for its API server.
func Load(o Choice) (*rest.Config, Context, error) {
	files := o.Files
	if o.Context.File != "" {
		files = []string{o.Context.File}
	}
	k := loadKubeconfigs(files)
	f, name, err := k.find(o.Context)
	if err != nil {
		return nil, Context{}, err
	}
	if all := loadKubeconfigs(o.Files); slices.Contains(all.looked, f.path) {
		for _, other := range all.files { // it may have the context's cluster or user
			if other.path != f.path {
				k.files = append(k.files, other)
			}
		}
	}
	found := k.describe(f, name)
	part, err := k.part(f, name, o)
	if err != nil {
		return nil, found, err
	}
	var user clientcmd.ConfigAccess // the file into which an auth-provider writes renewed tokens
	if origin := part.AuthInfos[part.Contexts[name].AuthInfo].LocationOfOrigin; origin != "" {
		user = &clientcmd.ClientConfigLoadingRules{ExplicitPath: origin}
	}
	if (o.AsUID != "" || len(o.AsGroups) > 0) && o.As == "" && part.AuthInfos[part.Contexts[name].AuthInfo].Impersonate == "" {
		return nil, found, &Error{File: f.path, Cause: fmt.Errorf("context %q: %w", name, noUserError{})}
	}
	overrides := &clientcmd.ConfigOverrides{
		AuthInfo: clientcmdapi.AuthInfo{Impersonate: o.As, ImpersonateUID: o.AsUID, ImpersonateGroups: o.AsGroups},
		Timeout:  o.RequestTimeout,
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*part, name, overrides, user).ClientConfig()
	if err != nil {
		return nil, found, &Error{File: f.path, Cause: fmt.Errorf("context %q: %w", name, err)}
	}
	return config, found, nil
}
