//go:build soak

package main

// A build with the tag soak measures how its own memory grows.
import _ "github.com/liqo-tui/liqo-tui/internal/weight"
