package session

import "testing"

func TestALogLineIsForPeople(t *testing.T) {
	for _, test := range []struct{ name, line, want string }{
		{
			"ours",
			`{"time":"2026-05-04T12:20:03.7Z","level":"INFO","msg":"dials again","peer":"milan","attempt":2}`,
			"12:20:03 INFO dials again attempt=2 peer=milan",
		},
		{"text", "I0504 12:20:03 main.go:7] started", "I0504 12:20:03 main.go:7] started"},
		{"JSON of somebody else", `{"ts":1,"msg":"started"}`, `{"ts":1,"msg":"started"}`},
		{"a line that was cut", `{"time":"2026-05-04T12:2`, `{"time":"2026-05-04T12:2`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, _, _ := logLine(test.line); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
