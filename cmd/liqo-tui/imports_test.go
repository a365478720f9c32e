package main

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/liqo-tui/liqo-tui/"

// Names for packages that a rule forbids together.
var (
	clients       = bans{{"k8s.io/client-go", nil}, {"sigs.k8s.io/controller-runtime", []string{"sigs.k8s.io/controller-runtime/pkg/scheme"}}}
	kubeLibraries = bans{{"k8s.io", nil}, {"sigs.k8s.io", nil}, {"github.com/liqotech", nil}}
	kernel        = bans{
		{"github.com/vishvananda/netlink", nil},
		{"github.com/google/nftables", nil},
		{"golang.zx2c4.com/wireguard/wgctrl", []string{"golang.zx2c4.com/wireguard/wgctrl/wgtypes"}},
		{"golang.zx2c4.com/wireguard/device", nil},
	}
	screen  = bans{{"charm.land", nil}}
	effects = bans{{"os", nil}, {"log", nil}, {"sync", nil}, {"golang.org/x/sync", nil}}
)

// importRules says which packages a folder may not import: itself, or through other
// packages. A subfolder without a row follows the row of the nearest folder above it.
// Packages of the standard library count only where they are imported directly. Tests may
// import anything.
var importRules = []struct {
	folders string
	not     bans
}{
	// The program of an admin knows neither the programs in the clusters nor the kernel.
	{"cmd/liqo-tui", and(kernel, but("gateway", "gateway/ping"))},
	{"cmd/liqo-tui/e2e", allBut()},
	{"cmd/liqo-tui/internal", and(kernel, screen, own("tui", "gateway"))},
	{"cmd/liqo-tui/internal/config cmd/liqo-tui/internal/files", and(kernel, own("gateway"))},
	{"cmd/liqo-tui/internal/demo", and(clients, kernel, own("kube"), but("gateway", "gateway/ping"))},
	{"kube", and(kernel, screen, own("tui", "gateway"))},
	{"kube/kubeconfig", and(kernel, screen, own("tui", "gateway", "flows/engine"))},
	{"kube/credentials", and(kernel, screen, own("flows", "tui", "gateway"), bans{{"sigs.k8s.io/controller-runtime", nil}})},
	{"tui", and(clients, kernel, own("kube", "gateway"))},
	{"tui/draw", and(clients, kernel, own("kube", "gateway", "flows/engine"), but("tui", "tui/draw"), bans{{"os", nil}})},
	{"tui/wizard", and(clients, kernel, own("kube", "gateway", "tui/board", "tui/accessible"))},
	{"tui/board", and(clients, kernel, own("kube", "gateway", "tui/wizard", "tui/accessible"))},
	{"tui/session", and(clients, kernel, own("kube", "gateway", "tui/board", "tui/accessible"))},

	// Decisions are values: no client, screen, file, log or goroutine.
	{"flows", and(clients, kernel, screen, effects, own("kube", "tui", "gateway", "flows/engine"))},
	{"flows/engine", and(clients, kernel, screen, own("kube", "tui", "gateway"), bans{{"os", nil}, {"log", nil}})},
	{"flows/simulated flows/flowtest", and(clients, kernel, screen, own("kube", "tui"), but("gateway", "gateway/ping"), bans{{"os", nil}, {"log", nil}})},
	{"render", and(clients, kernel, screen, own("flows", "kube", "tui", "gateway"))},
	{"render/apply", and(clients, kernel, screen, own("flows", "kube", "tui", "gateway"), but("render", "render/apply"))},
	{"internal", allBut(standard)},
	{"internal/wire", and(clients, kernel, screen, effects, own("flows", "kube", "tui", "gateway", "render"))},
	{"internal/offload internal/discovery internal/services", and(clients, kernel, screen, effects, own("flows", "kube", "tui", "gateway"))},
	{"internal/discovery/mdns", and(clients, kernel, screen, own("flows", "kube", "tui", "gateway"))},

	// The programs in the clusters know neither the program of an admin nor its screens.
	{"cmd/liqo-gateway", and(screen, own("flows", "tui", "kube"))},
	{"gateway/operator", and(kernel, screen, own("flows", "tui", "kube"))},
	{"gateway/virtualnode", and(kernel, screen, own("flows", "tui", "kube"), but("gateway", "gateway/virtualnode", "gateway/remote"))},
	{"gateway/virtualnode/decide", and(clients, kernel, screen, effects, own("flows", "kube", "tui"), but("gateway", "gateway/virtualnode/decide"))},
	{"gateway/remote", and(kernel, screen, own("flows", "tui", "kube", "render", "internal/wire"), but("gateway", "gateway/remote"))},
	{"gateway/exports", and(kernel, screen, own("flows", "tui", "kube", "render"), but("gateway", "gateway/exports"))},
	{"gateway", allBut(standard, "internal/ipam", "golang.zx2c4.com/wireguard/wgctrl/wgtypes")},
	{"gateway/ping", allBut(standard, "internal/history")},
	{"gateway/pathmtu", allBut(standard, "golang.org/x/sys/unix")},
	{"gateway/relay", allBut(standard, "golang.org/x/sync/errgroup", "golang.org/x/sys/unix", "golang.zx2c4.com/wireguard/replay")},
	{"gateway/measure", and(kubeLibraries, kernel, screen)},
	{"gateway/linux gateway/tunnel", and(kubeLibraries, screen)},
	{"gateway/agent", and(screen, own("flows", "tui", "kube"))},

	{"build", and(clients, kernel, screen, own("kube", "tui"))},
	{"docs", allBut(standard)},
	{"examples", and(clients, kernel, screen, own("flows", "kube", "tui", "gateway", "render"))},
	{"internal/golden", allBut(standard, "github.com/google/go-cmp")},
	{"internal/apitest", and(kernel, screen, own("flows", "kube", "tui", "gateway"))},
	{"internal/frozen", and(clients, kernel, screen, own("flows", "kube", "tui", "gateway"))},
}

func TestImportsPointOneWay(t *testing.T) {
	graph := importGraph(t)
	rules := map[string]bans{}
	for _, r := range importRules {
		for folder := range strings.FieldsSeq(r.folders) {
			rules[folder] = r.not
		}
	}
	for pkg := range graph {
		if strings.HasPrefix(pkg, module) && folderOf(pkg, rules) == "" {
			t.Errorf("%s has no row in the table", strings.TrimPrefix(pkg, module))
		}
	}
	for folder, forbidden := range rules {
		t.Run(folder, func(t *testing.T) {
			found := false
			for pkg := range graph {
				if strings.HasPrefix(pkg, module) && folderOf(pkg, rules) == folder {
					found = true
					for _, f := range forbidden {
						f.check(t, graph, pkg)
					}
				}
			}
			if !found {
				t.Errorf("no package is in folder %s", folder)
			}
			for _, f := range forbidden {
				if f.what != everything && !slices.ContainsFunc(slices.Collect(maps.Keys(graph)), f.is) {
					t.Errorf("%s: nothing that the project imports is %s", folder, f.what)
				}
			}
		})
	}
}

const (
	everything = "everything"
	standard   = "the standard library"
)

// A ban names packages that a folder may not import.
type ban struct {
	what   string   // a package and what is below it, or everything
	except []string // packages, or the standard library
}

type bans []ban

func and(lists ...bans) bans { return slices.Concat(lists...) }

// own forbids folders of this project.
func own(folders ...string) (list bans) {
	for _, f := range folders {
		list = append(list, ban{what: module + f})
	}
	return list
}

// but forbids a folder of this project except some of its subfolders.
func but(folder string, except ...string) bans {
	b := ban{what: module + folder}
	for _, e := range except {
		b.except = append(b.except, module+e)
	}
	return bans{b}
}

// allBut forbids everything except packages, of this project or of others.
func allBut(packages ...string) bans {
	b := ban{what: everything}
	for _, p := range packages {
		if first, _, _ := strings.Cut(p, "/"); p != standard && !strings.Contains(first, ".") {
			p = module + p
		}
		b.except = append(b.except, p)
	}
	return bans{b}
}

func (b ban) is(dep string) bool {
	return (b.what == everything || within(dep, b.what)) && !slices.ContainsFunc(b.except, func(e string) bool { return within(dep, e) })
}

// check fails for what pkg imports itself, and for what comes in through others.
// Of the standard library only the former counts: the latter is all of it.
func (b ban) check(t *testing.T, graph imports, pkg string) {
	reached := map[string]bool{}
	graph.reach(reached, pkg)
	allowed := map[string]bool{}
	if b.what == everything {
		for dep := range reached {
			if slices.ContainsFunc(b.except, func(e string) bool { return within(dep, e) }) {
				graph.reach(allowed, dep) // an allowed package brings its own
			}
		}
	}
	for dep := range reached {
		isStandard := graph[dep].standard
		switch {
		case dep == pkg || !b.is(dep) || allowed[dep]:
		case isStandard && (slices.Contains(b.except, standard) || !slices.Contains(graph[pkg].imports, dep)):
		default:
			t.Errorf("%s must not import %s, directly or through others", strings.TrimPrefix(pkg, module), strings.TrimPrefix(dep, module))
		}
	}
}

// folderOf is the row that holds for a package: that of its folder, or of the
// nearest one above it.
func folderOf(pkg string, rules map[string]bans) string {
	best := ""
	for folder := range rules {
		if within(pkg, module+folder) && len(folder) > len(best) {
			best = folder
		}
	}
	return best
}

// within reports whether package dep is f or below it.
func within(dep, f string) bool { return dep == f || strings.HasPrefix(dep, f+"/") }

type listed struct {
	standard bool
	imports  []string
}

type imports map[string]listed

// importGraph is what this project's packages import, without their tests, and
// what that imports.
func importGraph(t *testing.T) imports {
	const format = `{{.ImportPath}} {{.Standard}}{{range .Imports}} {{.}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, module+"...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as the project is built
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list what the project imports: %v", err)
	}
	graph := imports{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		graph[fields[0]] = listed{fields[1] == "true", fields[2:]}
	}
	return graph
}

// reach adds pkg and all that it imports, through any number of others.
func (g imports) reach(reached map[string]bool, pkg string) {
	if reached[pkg] {
		return
	}
	reached[pkg] = true
	for _, dep := range g[pkg].imports {
		g.reach(reached, dep)
	}
}
