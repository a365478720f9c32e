package config

import (
	"os"
	"path/filepath"
	"strings"
)

// ExpandHome is for paths that no shell has seen.
func ExpandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}
