package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestAServiceIsNamedAsPodsCallIt(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	for _, c := range []struct{ arg, namespace string }{{"shop/web", ""}, {"web", "shop"}, {"shop/web", "shop"}, {"web.shop.svc.clusterset.local", ""}, {"web.shop.svc.clusterset.local.", "shop"}} {
		if got, err := serviceName([]string{c.arg}, c.namespace); err != nil || got != web {
			t.Errorf("%+v: got %s, %v", c, got, err)
		}
	}
	for arg, why := range map[string]string{
		"web.shop":                        "their search domains end with cluster.local. Give shop/web or web.shop.svc.clusterset.local",
		"web.shop.svc.cluster.local":      "want NAMESPACE/NAME",
		"a.web.shop.svc.clusterset.local": "want NAMESPACE/NAME",
		"shop/":                           "want NAMESPACE/NAME",
	} {
		if _, err := serviceName([]string{arg}, ""); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %q", arg, err, why)
		}
	}
	if _, err := serviceName([]string{"web.shop.svc.clusterset.local"}, "other"); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Errorf("got %v", err)
	}
}

// Advice of export is used for unexport by changing one word.
func TestCommandsOfServicesTakeTheSameClusters(t *testing.T) {
	for _, cmd := range serviceCommand(streams{}).Commands() {
		for _, name := range []string{"context", "kubeconfig", "remote-context", "remote-kubeconfig"} {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("service %s has no --%s", cmd.Name(), name)
			}
		}
	}
}
