package config

import (
	"os"
	"path/filepath"
	"strings"
)

// ExpandHome expands ~ in paths that no shell has expanded.
func ExpandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}
