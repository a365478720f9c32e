package report

import (
	"bytes"
	"errors"
	"testing"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

func TestValuesByPath(t *testing.T) {
	type object = map[string]any
	value := object{
		"local":   object{"clusterID": "rome"},
		"network": object{"podCIDRs": []string{"10.0.0.0/16", "10.1.0.0/16"}},
		"peers":   object{"a.b": object{"receivedBytes": 12345678901234567}, "a": object{"b": "short"}},
	}
	for path, want := range map[string]string{
		"clusterid":                 "rome\n",
		"LOCAL.clusterID":           "rome\n",
		"network.podcidr":           "10.0.0.0/16\n10.1.0.0/16\n",
		"peers.a.b.receivedBytes":   "12345678901234567\n",
		"local":                     "clusterID: rome\n",
		".network.podCIDRs":         "10.0.0.0/16\n10.1.0.0/16\n",
		"network.podCIDRs.0":        "",
		"nothing":                   "",
		"local.clusterID.and.above": "",
		"loc":                       "",
	} {
		var out bytes.Buffer
		err := WritePath(&out, value, path)
		_, refused := errors.AsType[exit.UsageError](err)
		if got := out.String(); got != want || refused != (want == "") {
			t.Errorf("%s: got %q (error %v), want %q", path, got, err, want)
		}
	}
}
