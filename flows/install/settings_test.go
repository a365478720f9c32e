package install_test

import (
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/render"
)

// A list that is set again is another list.
func TestListsOfAnInstallation(t *testing.T) {
	var p render.InstallParams
	for _, s := range install.Settings() {
		if s.Kind != flows.List {
			continue
		}
		if err := s.Set(&p, "10.1.0.0/16,10.2.0.0/16"); err != nil || s.Write(p) != "10.1.0.0/16,10.2.0.0/16" {
			t.Errorf("%s: got %q, %v", s.Name, s.Write(p), err)
		}
		if err := s.Set(&p, "10.1.0.0/16,10.2.0.1/16"); err == nil || !strings.Contains(err.Error(), "did you mean 10.2.0.0/16?") {
			t.Errorf("%s: got %v for a range with a host's address", s.Name, err)
		}
		if err := s.Set(&p, ""); err != nil || s.Write(p) != "" {
			t.Errorf("%s: got %q, %v, want nothing", s.Name, s.Write(p), err)
		}
	}
}

func TestWhatAnInstallationCanHave(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*render.InstallParams)
		want string // "" for none
	}{
		{"what is needed", func(*render.InstallParams) {}, ""},
		{"a host's address", func(p *render.InstallParams) { p.PodCIDRs = []string{"10.244.0.1/16"} }, `--pod-cidr "10.244.0.1/16": host bits are set, did you mean 10.244.0.0/16?`},
		{"IPv6", func(p *render.InstallParams) { p.ServiceCIDR = "fd00::/108" }, `--service-cidr "fd00::/108": only IPv4 is supported`},
		{
			"a bad pool, and reserved range", func(p *render.InstallParams) { p.Pools, p.Reserve = []string{"10.0.0.0/33"}, []string{"fd00::/8"} },
			"--reserve \"fd00::/8\": only IPv4 is supported\n--pools \"10.0.0.0/33\": want an address range like 10.244.0.0/16",
		},
		{"a bad external range", func(p *render.InstallParams) { p.ExternalCIDR = "x" }, `--external-cidr "x": want an address range like 10.244.0.0/16`},
		{"too many pods", func(p *render.InstallParams) { p.GatewayReplicas = 9 }, `--gateway-replicas "9": want a number of pods, 1 to 5`},
		{
			"nothing", func(p *render.InstallParams) { *p = render.InstallParams{} },
			`--cluster-id "": cluster ID is empty`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v1"}
			tc.edit(&p)
			got := ""
			if _, err := install.New(p); err != nil {
				got = strings.TrimPrefix(err.Error(), "install on "+string(p.ClusterID)+": ")
			}
			if got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}
