package install_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/render"
)

// A new value of a list replaces the old one.
func TestListsOfAnInstallation(t *testing.T) {
	var p render.InstallParams
	for _, s := range install.Settings() {
		if s.Kind != setting.List {
			continue
		}
		good, bad, want := "10.1.0.0/16,10.2.0.0/16", "10.1.0.0/16,10.2.0.1/16", "did you mean 10.2.0.0/16?"
		if s.Name == "lend" {
			good, bad, want = "cpu=8,memory=32Gi", "cpu=8,memory=-1Gi", `"memory=-1Gi" is not like cpu=4 or memory=8Gi`
		}
		if err := s.Set(&p, good); err != nil || s.Write(p) != good {
			t.Errorf("%s: got %q, %v", s.Name, s.Write(p), err)
		}
		if err := s.Set(&p, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v for %s", s.Name, err, bad)
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
		{"another part", func(p *render.InstallParams) { p.Peering = "guest" }, `--peering "guest": want none, consumer, provider or both`},
		{"no URL", func(p *render.InstallParams) { p.APIServer = "203.0.113.7:6443" }, `--api-server "203.0.113.7:6443": want a URL like https://203.0.113.7:6443`},
		{"two words", func(p *render.InstallParams) { p.Image = "example.org/gateway:v1 v2" }, `--image "example.org/gateway:v1 v2": an image's name has no spaces`},
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

// Flags and values of the chart set the same settings.
func TestValuesAreSettings(t *testing.T) {
	const text = `
image: registry.example/liqo-gateway:v1
clusterID: rome
podCIDR: [10.244.0.0/16, 10.245.0.0/16]
serviceCIDR: ""
gatewayReplicas: 2
nodeSelector: {pool: edge}
gateway:
  tolerations: [{key: dedicated, operator: Exists}]
`
	p := render.InstallParams{ExternalCIDR: "10.71.0.0/16", ServiceCIDR: "10.96.0.0/12"}
	if err := install.ReadValues([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range install.Settings() {
		got = append(got, s.Key()+"="+s.Write(p))
	}
	want := "image=registry.example/liqo-gateway:v1 clusterID=rome podCIDR=10.244.0.0/16,10.245.0.0/16 serviceCIDR=10.96.0.0/12 externalCIDR=10.71.0.0/16 reserve= pools= gatewayReplicas=2 operatorReplicas= peering= apiServer= lend= services= announce="
	if got := strings.Join(got, " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if p.Pods.NodeSelector["pool"] != "edge" || p.Pods.ForGateway().Tolerations[0].Key != "dedicated" {
		t.Errorf("got %+v for pods", p.Pods)
	}
	for text, want := range map[string]string{
		"clusterId: rome":            `unknown field "clusterId"`,
		"podCIDR: 10.244.0.1/16":     `podCIDR "10.244.0.1/16": host bits are set, did you mean 10.244.0.0/16?`,
		"gatewayReplicas: 9":         `gatewayReplicas "9": want a number of pods, 1 to 5`,
		"operator: {nodeSelctor: a}": `unknown field "nodeSelctor"`,
		"operatorReplicas: 9":        `operatorReplicas "9": want a number of pods, 1 to 5`,
		"logLevel: loud":             `logLevel "loud": want debug, info, warn or error`,
		"gateway: {logLevel: loud}":  `logLevel "loud": want debug, info, warn or error`,
		"image: [a":                  "did not find expected",
	} {
		if err := install.ReadValues([]byte(text), &p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// A schema contains the pattern of a setting. The pattern allows each text that Valid accepts.
func TestPatternsAllowWhatIsValid(t *testing.T) {
	for _, s := range install.Settings() {
		for _, text := range []string{"rome", "a", "rome-2", "10.244.0.0/16", "0.0.0.0/0", "Rome", "-rome", "10.244.0.0", "fd00::/8", "x/8"} {
			if s.Pattern != "" && s.Valid(text) == nil && !regexp.MustCompile(s.Pattern).MatchString(text) {
				t.Errorf("%s: %q is valid, and pattern %s refuses it", s.Name, text, s.Pattern)
			}
		}
		if s.Pattern != "" && regexp.MustCompile(s.Pattern).MatchString("no range, no name") {
			t.Errorf("%s: pattern %s refuses nothing", s.Name, s.Pattern)
		}
	}
}
