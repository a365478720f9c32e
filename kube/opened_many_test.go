package kube_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/kube"
)

// The dashboard opens all contexts. Fleets have many contexts, and kubeconfigs of several MB.
func TestAThousandContextsAreOpened(t *testing.T) {
	const contexts, mostMB = 1000, 300
	padding := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 3000)))
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: Config\n")
	for _, section := range []struct{ title, row string }{
		{"contexts", "- {name: c%[1]d, context: {cluster: c%[1]d, user: u%[1]d}}\n"},
		{"clusters", "- {name: c%[1]d, cluster: {server: 'https://c%[1]d.example'}}\n"},
		{"users", "- {name: u%[1]d, user: {token: 't%[1]d-%[2]s'}}\n"},
	} {
		text.WriteString(section.title + ":\n")
		for i := range contexts {
			row := section.row
			if !strings.Contains(row, "%[2]s") {
				fmt.Fprintf(&text, row, i)
			} else {
				fmt.Fprintf(&text, row, i, padding)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all := make([]*kube.Cluster, contexts)
	for i := range all {
		var err error
		if all[i], err = kube.Open(kube.Options{Context: flows.ContextRef{File: path, Name: fmt.Sprintf("c%d", i)}, Lending: kube.LendingOffered}); err != nil {
			t.Fatal(err)
		}
		defer all[i].Close()
	}
	runtime.ReadMemStats(&after)
	// Freed memory also counts, because contexts are opened at the same time.
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > mostMB {
		t.Errorf("they took %d MB, want %d at most", used, mostMB)
	}
	runtime.KeepAlive(all)
}
