package frozen

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Clusters with another release, scripts, and programs of others rely on these names.
func TestNamesAndDocumentsStay(t *testing.T) {
	s, err := Load("../..", "github.com/liqo-tui/liqo-tui", "./cmd/liqo-tui", "./cmd/liqo-gateway")
	if err != nil {
		t.Fatal(err)
	}
	re, every := regexp.MustCompile, regexp.MustCompile(``)
	key, number, word := re(`^[-a-z0-9.]+/[-A-Za-z0-9._]+$`), re(`^[0-9]+$`), re(`[A-Za-z]`)
	Compare(t, "names.txt",
		Section{"Names with a domain: labels, annotations, finalizers, taints, groups", s.Constants(re(`^([a-z0-9][-a-z0-9]*\.)+(dev|io|sh|com|org)(/[-A-Za-z0-9._]*)?$`))},
		Section{"Labels that are written or read", only(key, s.Keys(re(`^ObjectMeta$`), re(`^Labels$`)))},
		Section{"Labels that are selected by", only(key, s.Keys(every, re(`^(MatchLabels|NodeSelector|Selector)$`)))},
		Section{"Annotations that are written or read", only(key, s.Keys(re(`^ObjectMeta$`), re(`^Annotations$`)))},
		Section{"Keys of Secrets and ConfigMaps", s.Keys(every, re(`^(Data|StringData|BinaryData)$`))},
		Section{"Types of conditions", s.Fields(re(`Condition$`), re(`^Type$`))},
		Section{"Reasons of conditions, pods and containers", s.Fields(every, re(`^Reason$`))},
		Section{"Reasons of events", s.Arguments(re(`\.Eventf$`), 3)},
		Section{"Actions of events", s.Arguments(re(`\.Eventf$`), 4)},
		Section{"Reporters of events", slices.Concat(s.Arguments(re(`\.GetEventRecorder`), 0), s.Fields(every, re(`^Component$`)))},
		Section{"Field managers", s.Conversions("FieldOwner")},
		Section{"Leases by which programs lead", s.Arguments(re(`resourcelock\.New`), 2)},
		Section{"Objects that are made, by kind and name", s.Objects()},
		Section{"Ports that are written into objects", only(number, s.Fields(every, re(`(^Port|ContainerPort|HostPort|TargetPort)$`)))},
		Section{"Environment variables that are read or set", s.Arguments(re(`^os\.(Getenv|LookupEnv|Setenv)$`), 0)},
		Section{"Files", only(word, s.Arguments(re(`^os\.(Create|CreateTemp|Open|OpenFile|ReadFile|WriteFile|Mkdir|MkdirAll|MkdirTemp|Remove|RemoveAll|Rename|Stat|ReadDir)$`), 0))},
		Section{"Entries of the bundle", only(word, slices.Concat(s.Fields(re(`^Header$`), re(`^Name$`)), s.Arguments(re(`/support\.Files\)\.Add$`), 0)))},
		Section{"Codes of checks and errors", s.Constants(re(`^LT-[A-Z][0-9]+$`))},
		Section{"Documents in JSON and YAML, of which each line is a path", s.Documents()},
	)
}

func only(pattern *regexp.Regexp, all []string) []string {
	return slices.DeleteFunc(all, func(v string) bool { return !pattern.MatchString(v) })
}

// Other releases find, replace and remove the objects of this release by these names.
func TestInstalledObjectsStay(t *testing.T) {
	objects, err := render.Install(render.InstallParams{
		ClusterID: "rome", Image: "registry.example/gateway:1", Peering: render.PeeringBoth, GatewayReplicas: 2,
		PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDR: "10.96.0.0/12", Reserve: []string{"10.9.0.0/16"}, Pools: []string{"10.8.0.0/16"},
		APIServer: "https://192.0.2.1:6443", Lend: []string{"cpu=8"}, Announce: "https://192.0.2.1:6443", Names: render.On,
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, o := range objects {
		lines = append(lines, apply.Name(o))
		content, err := apply.Wanted(o)
		if err != nil {
			t.Fatal(err)
		}
		if content.GetKind() != "CustomResourceDefinition" && !strings.HasPrefix(content.GetKind(), "ValidatingAdmissionPolicy") {
			lines = append(lines, namesIn("", content.Object)...)
		}
	}
	Compare(t, "installed.txt", Section{"What install makes, for a cluster that takes part in whole peerings on both sides", lines})
}

var (
	inWhole = regexp.MustCompile(`\.(labels|annotations|matchLabels|selector|args|command)(\[\])?$|\.(labels|annotations|matchLabels|selector)\.[^ ]+$`)
	byName  = regexp.MustCompile(`(^|[.\]])(name|namespace|port|containerPort|targetPort|mountPath|path|fieldPath|serviceAccountName|priorityClassName|secretName|key|value)$`)
)

// namesIn returns one line for each name in a value.
func namesIn(path string, v any) (lines []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sorted(v) {
			lines = append(lines, namesIn(path+"."+key, v[key])...)
		}
	case []any:
		for _, item := range v {
			lines = append(lines, namesIn(path+"[]", item)...)
		}
	default:
		if (inWhole.MatchString(path) || byName.MatchString(path)) && path != ".metadata.name" && path != ".metadata.namespace" {
			lines = append(lines, fmt.Sprintf("  %s: %v", strings.TrimPrefix(path, "."), v))
		}
	}
	return lines
}
