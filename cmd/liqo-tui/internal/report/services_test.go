package report_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/services"
)

// What could not be read is never "none".
func TestAnUnreadClusterDoesNotHaveNoServices(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	namespace := func(string) (exists, known bool) { return true, true }
	read := services.Found{}
	read.Exports.Read, read.Imports.Read, read.Slices.Read, read.Copies.Read = true, true, true, true
	undefined := read
	undefined.Exports.Undefined = true
	for want, found := range map[string]services.Found{
		"Services by name in rome: none.\n":                                                                           read,
		"rome has no Services by name: it does not serve ServiceExport and ServiceImport.\n":                          undefined,
		"Services by name in rome: none was found, but not all was read.\nunread: rome: the endpoints are unread: no": services.Unread("no answer"),
	} {
		v := services.View{Self: "rome", Now: now, At: now, Found: found, Namespace: namespace}
		var out strings.Builder
		if err := report.WriteServices(&out, report.ClusterServicesOf(flows.ClusterFacts{ID: "rome"}, v), now); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("got %v and\n%s, want\n%s", err, out.String(), want)
		}
	}
}

// The table has what pods call, and says what an age is.
func TestTheTableOfServicesHasTheNameToCall(t *testing.T) {
	c := report.ClusterServices{ClusterID: "rome", Services: []report.NamedService{
		{Namespace: "shop", Name: "web", Type: "ClusterSetIP", Call: "web.shop.svc.clusterset.local", Endpoints: []report.ServiceEndpoints{{Cluster: "milan", Ready: 1, All: 1, At: time.Unix(100, 0)}}},
		{Namespace: "shop", Name: "db"},
	}}
	var out strings.Builder
	if err := report.WriteServices(&out, c, time.Unix(115, 0)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PODS CALL", "web.shop.svc.clusterset.local  milan 1/1 (15s ago)\n", "\nago: since the last message of that cluster's gateway.\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwithout %q", out.String(), want)
		}
	}
}

func TestTheNameToCallDependsOnTheClustersDNS(t *testing.T) {
	row := func(kind string, ips []string, names services.Names) string {
		r := services.Row{Name: types.NamespacedName{Namespace: "shop", Name: "web"}, Type: kind, IPs: ips, Names: names}
		return r.CallName()
	}
	const name = "web.shop.svc.clusterset.local"
	for want, got := range map[string]string{
		name + " served":          row("ClusterSetIP", []string{"10.97.0.1"}, services.ServedByDNS) + " served",
		name + " not known":       row("ClusterSetIP", []string{"10.97.0.1"}, services.NamesUnknown) + " not known",
		name + " headless":        row("Headless", nil, services.ServedByDNS) + " headless",
		"derived-isrlchlhrq.shop": row("ClusterSetIP", []string{"10.97.0.1"}, services.Unserved),
		" headless, unserved":     row("Headless", nil, services.Unserved) + " headless, unserved",
		" not imported":           row("", nil, services.ServedByDNS) + " not imported",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
