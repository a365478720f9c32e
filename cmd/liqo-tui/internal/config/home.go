package config

import (
	"os"
	"path/filepath"
	"strings"
)

// ExpandHome replaces ~ in a path that comes from no shell.
func ExpandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}
