package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/liqo-tui/liqo-tui/"

// Who may reach whom, through any number of imports. Direct imports are
// checked by depguard; this finds what comes in through somebody else.
func TestImportsPointOneWay(t *testing.T) {
	clients := []string{
		"k8s.io/client-go", "sigs.k8s.io/controller-runtime/pkg/client",
		"sigs.k8s.io/controller-runtime/pkg/cache", "sigs.k8s.io/controller-runtime/pkg/manager",
	}
	kernel := []string{"github.com/vishvananda/netlink", "github.com/google/nftables", "golang.zx2c4.com/wireguard/wgctrl$", "golang.zx2c4.com/wireguard/device"}
	screen := []string{"charm.land"}
	kubernetes := []string{"k8s.io", "sigs.k8s.io", "github.com/liqotech"}
	for pkg, forbidden := range map[string][]string{
		"render":         slices.Concat(clients, kernel, screen),
		"flows":          slices.Concat(clients, kernel, screen),
		"gateway":        slices.Concat(kubernetes, kernel, screen),
		"gateway/ipam":   slices.Concat(kubernetes, kernel, screen, []string{"golang.zx2c4.com"}),
		"gateway/probe":  slices.Concat(kubernetes, kernel, screen),
		"gateway/linux":  slices.Concat(kubernetes, screen),
		"gateway/tunnel": slices.Concat(kubernetes, screen),
		"tui":            slices.Concat(clients, kernel, []string{module + "kube", module + "gateway/linux", module + "gateway/agent"}),
		"kube/operator":  slices.Concat(screen, []string{module + "flows", module + "tui"}),
		"gateway/agent":  slices.Concat(screen, []string{module + "flows", module + "tui", module + "kube"}),
		"kube":           slices.Concat(screen, kernel, []string{module + "tui", module + "gateway/linux"}),
	} {
		t.Run(pkg, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+pkg).Output()
			if err != nil {
				t.Fatalf("list what %s imports: %v", pkg, err)
			}
			reached := strings.Fields(string(out))
			if len(reached) < 10 {
				t.Fatalf("got %d packages reached from %s, which can't be all", len(reached), pkg)
			}
			for _, dep := range reached {
				if slices.ContainsFunc(forbidden, func(f string) bool { return within(dep, f) }) {
					t.Errorf("%s must not reach %s", pkg, dep)
				}
			}
		})
	}
}

// within reports whether package dep is f or below it; f$ means f alone.
func within(dep, f string) bool {
	if exact, ok := strings.CutSuffix(f, "$"); ok {
		return dep == exact
	}
	return dep == f || strings.HasPrefix(dep, strings.TrimSuffix(f, "/")+"/")
}
