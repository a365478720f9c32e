package trial_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/render"
)

func try(kinds ...trial.Kind) trial.ImageTry {
	return trial.ImageTry{
		Image: "gateway:v1", Kinds: kinds,
		Pods:   render.PodSettings{NodeSelector: map[string]string{"pool": "edge"}},
		Agents: render.PodSettings{NodeSelector: map[string]string{"zone": "a"}},
	}
}

var (
	amd = trial.Kind{Arch: "amd64", Nodes: []string{"r1", "r2", "r3"}}
	arm = trial.Kind{Arch: "arm64", Nodes: []string{"pi"}}
)

func TestAnImageIsTriedOnEachKindOfNode(t *testing.T) {
	if all := try(amd).Each(); len(all) != 1 || all[0].NodeSelector["pool"] != "edge" {
		t.Errorf("nodes of one kind: got %+v, want the operator's pod alone", all)
	}
	mixed := try(amd, arm)
	all := mixed.Each()
	if len(all) != 3 {
		t.Fatalf("nodes of two kinds: got %+v, want one pod more for each", all)
	}
	for i, want := range []string{"", "amd64", "arm64"} {
		if got := all[i].NodeSelector[corev1.LabelArchStable]; got != want {
			t.Errorf("pod %d is for %q, want %q", i, got, want)
		}
		if agent := i > 0; agent != (all[i].NodeSelector["zone"] == "a") || agent != (len(all[i].Tolerations) == 1) {
			t.Errorf("pod %d: got %+v, want an agent's: %v", i, all[i], agent)
		}
	}
	if mixed.Agents.NodeSelector[corev1.LabelArchStable] != "" {
		t.Error("the admin's settings were changed")
	}
	mixed.Agents.NodeSelector[corev1.LabelArchStable] = "amd64"
	if all := mixed.Each(); len(all) != 2 || all[1].NodeSelector[corev1.LabelArchStable] != "amd64" {
		t.Errorf("agents are for amd64 only: got %+v", all)
	}
}

func TestWhatAllKindsOfNodesSayOfAnImage(t *testing.T) {
	on := func(node string) trial.Image { return trial.Image{Node: node, Took: 2 * time.Second} }
	foreign := trial.Image{Node: "pi", Failed: "exec format error", Took: time.Second}
	none := trial.Image{Unknown: "no node takes the pod: 4 nodes are tainted", Took: 5 * time.Second}
	for name, c := range map[string]struct {
		kinds []trial.Kind
		found []trial.Image
		want  string
	}{
		"nodes are not known":       {nil, []trial.Image{on("r1")}, "a pod of gateway:v1 started on node r1 within 2s"},
		"the only node":             {[]trial.Kind{arm}, []trial.Image{on("pi")}, "a pod of gateway:v1 started on node pi within 2s"},
		"one of three alike":        {[]trial.Kind{amd}, []trial.Image{on("r1")}, "a pod of gateway:v1 started on node r1 within 2s; not tried on 2 more nodes, such as r2"},
		"both kinds":                {[]trial.Kind{amd, arm}, []trial.Image{on("r1"), on("r2"), on("pi")}, "a pod of gateway:v1 started on node r1, r2, pi within 2s; not tried on r3"},
		"the image lacks one":       {[]trial.Kind{amd, arm}, []trial.Image{on("r1"), on("r1"), foreign}, "node pi can't run gateway:v1, the image is for another architecture: exec format error"},
		"one kind takes no pod":     {[]trial.Kind{amd, arm}, []trial.Image{on("r1"), on("r2"), none}, "a pod of gateway:v1 started on node r1, r2 within 5s; not tried on pi: " + none.Unknown},
		"no kind takes a pod":       {[]trial.Kind{amd, arm}, []trial.Image{none, none, none}, "not tried: " + none.Unknown},
		"one kind fails, one waits": {[]trial.Kind{amd, arm}, []trial.Image{none, none, foreign}, "node pi can't run gateway:v1, the image is for another architecture: exec format error"},
	} {
		if got := try(c.kinds...).Joined(c.found).Text(); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}
