package ping

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestAnswerKeepsEveryByteButTheType(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{
			"as Liqo sends it",
			`{"clusterID":"rome","msgType":"PING","timeStamp":"2025-01-02T15:04:05.1234567+01:00"}`,
			`{"clusterID":"rome","msgType":"PONG","timeStamp":"2025-01-02T15:04:05.1234567+01:00"}`,
		},
		{"other order, spaces, unknown fields", ` { "x" : [1, {"msgType":"PING"}], "msgType" : "PING" , "y":1e9 } `, ` { "x" : [1, {"msgType":"PING"}], "msgType" : "PONG" , "y":1e9 } `},
		{"PING elsewhere", `{"clusterID":"PING","msgType":"PING"}`, `{"clusterID":"PING","msgType":"PONG"}`},
		{"escaped", `{"msgType":"\u0050ING"}`, `{"msgType":"PONG"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := answer([]byte(c.in))
			if !ok || string(got) != c.want {
				t.Errorf("got %s, %v\nwant %s", got, ok, c.want)
			}
		})
	}
}

func TestAnswerIgnoresWhatIsNotOnePing(t *testing.T) {
	for _, in := range []string{
		``, `PING`, `"PING"`, `[]`, `{}`, `null`, `{"msgType":"PONG"}`, `{"msgType":1}`, `{"msgType":["PING"]}`,
		`{"msgType":"PING"`, `{"msgType":"PING"}{"msgType":"PING"}`, `{"msgType":"PING","msgType":"PING"}`,
		`{"x":{"msgType":"PING"}}`, strings.Repeat("[", 1024), "\x00\xff",
	} {
		if got, ok := answer([]byte(in)); ok {
			t.Errorf("%s: got answer %s, want none", in, got)
		}
	}
}

func TestPingIsWhatLiqoDecodes(t *testing.T) {
	now := time.Date(2025, 1, 2, 15, 4, 5, 123456789, time.UTC)
	b, err := newPing("rome", now)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"clusterID":"rome","msgType":"PING","timeStamp":"2025-01-02T15:04:05.123456789Z"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

// FuzzDatagram tests that no datagram causes a panic. Each answer is JSON, differs only in the type, and gets
// no answer itself.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte(`{"clusterID":"rome","msgType":"PING","timeStamp":"2025-01-02T15:04:05Z"}`))
	f.Add([]byte(`{"msgType":"PONG","clusterID":"rome","timeStamp":"x"}`))
	f.Add([]byte(`{"a":{"msgType":"PING"},"msgType":"PING"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if m, err := parse(in); err == nil {
			NewTracker(Timing{}).Received(time.Unix(0, 0), m.TimeStamp)
		}
		before := bytes.Clone(in)
		out, ok := answer(in)
		if !bytes.Equal(in, before) {
			t.Fatalf("input changed to %q", in)
		}
		if !ok {
			return
		}
		if _, again := answer(out); again {
			t.Errorf("answer %q is answered", out)
		}
		var a, b map[string]json.RawMessage
		if json.Unmarshal(in, &a) != nil || json.Unmarshal(out, &b) != nil {
			t.Fatalf("%q answered with %q: not JSON", in, out)
		}
		if string(b["msgType"]) != `"PONG"` || len(a) != len(b) {
			t.Errorf("%q answered with %q", in, out)
		}
		for k, v := range a {
			if k != "msgType" && !bytes.Equal(v, b[k]) {
				t.Errorf("field %q: got %s, want %s", k, b[k], v)
			}
		}
	})
}
