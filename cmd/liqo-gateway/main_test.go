package main

import (
	"log/slog"
	"testing"
)

// Nodes and pods with addresses of both families may have IPv6 first.
func TestAddressesOfBothFamilies(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":         "192.0.2.1",
		"fd00::1,192.0.2.1": "192.0.2.1",
		"192.0.2.1,fd00::1": "192.0.2.1",
		"fd00::1":           "fd00::1", // which is refused where it is used, with the reason
	} {
		t.Setenv("TEST_IP", text)
		if got, err := addressFrom("TEST_IP"); err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "node", "fd00::1,"} {
		t.Setenv("TEST_IP", text)
		if got, err := addressFrom("TEST_IP"); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for word, want := range map[string]slog.Level{"": slog.LevelInfo, "debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError, "loud": slog.LevelInfo} {
		if got := level(word); got != want {
			t.Errorf("LOG_LEVEL=%s: got %s, want %s", word, got, want)
		}
	}
}
