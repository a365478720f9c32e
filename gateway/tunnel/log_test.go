//go:build linux

package tunnel_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
)

// A device that goes down loses thousands of routes.
func TestManyRepairsAreFewLines(t *testing.T) {
	var changes []string
	for i := range 10_000 {
		changes = append(changes, fmt.Sprint("route ", i))
	}
	for damage, want := range map[bool]string{true: "level=WARN", false: "level=INFO"} {
		var log bytes.Buffer
		tunnel.LogChanges(slog.New(slog.NewTextHandler(&log, nil)), damage, changes)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if last := lines[len(lines)-1]; len(lines) > 60 || !strings.Contains(last, "9950") || !strings.Contains(last, want) {
			t.Errorf("got %d lines, the last is %q", len(lines), last)
		}
	}
}
