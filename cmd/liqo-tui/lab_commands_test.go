package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestLabCommands goes through the commands of the manual in the lab, with
// packets.
func TestLabCommands(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	defer func() { l.reset().want(t, exitOK) }()

	l.tui(append(l.pair("network", "init"), "--yes", "--timeout", "60s")...).want(t, exitOK)
	if got := l.seenAs(t); got == "" {
		t.Error("after init, rome does not know how it will see milan's pods")
	}
	l.connect("--server-service-type", "NodePort", "--yes", "--wait=verified").want(t, exitOK)
	before := l.seenAs(t)

	t.Run("verify measures between pods", func(t *testing.T) {
		out := l.tui(append(l.pair("network", "verify"), "-o", "json")...).want(t, exitOK).out
		var v verification
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatal(err)
		}
		if !v.Verified || v.Between != "pods" || v.AToB.Received == 0 || v.BToA.Received == 0 || v.AToB.AvgMicros == 0 {
			t.Errorf("got %+v, want packets of pods both ways", v)
		}
	})
	t.Run("info peer says what the gateways report", func(t *testing.T) {
		for _, cluster := range l.clusters {
			other := l.clusters[0]
			if other == cluster {
				other = l.clusters[1]
			}
			got := strings.TrimSpace(l.tui("info", "peer", other, "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--get", "state").want(t, exitOK).out)
			if got != "connected" {
				t.Errorf("%s says of %s: %q, want connected", cluster, other, got)
			}
		}
	})
	t.Run("check finds nothing wrong", func(t *testing.T) {
		l.tui(l.pair("check")...).want(t, exitOK)
	})
	t.Run("disconnect keeps the addresses", func(t *testing.T) {
		l.tui(append(l.pair("network", "disconnect"), "--yes", "--timeout", "60s")...).want(t, exitOK)
		l.connect("--server-service-type", "NodePort", "--yes").want(t, exitOK)
		if got := l.seenAs(t); got != before {
			t.Errorf("rome sees milan's pods as %s, want %s as before", got, before)
		}
	})
}

// seenAs is how rome sees milan's pods.
func (l lab) seenAs(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(l.tui("info", "peer", "milan", "--kubeconfig", l.kubeconfig, "--context", "lab-rome",
		"--get", "network.cidr.remapped.pod").want(t, exitOK).out)
}
