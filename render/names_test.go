package render_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

func TestTheDNSServerIsInstalledForNames(t *testing.T) {
	p := installParams()
	p.Pods = &render.ProgramSettings{
		PodSettings: render.PodSettings{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}},
		Operator:    render.PodSettings{PriorityClassName: "of-the-operator-alone"},
	}
	without, err := render.Install(p)
	if err != nil {
		t.Fatal(err)
	}
	p.Names = render.On
	with, err := render.Install(p)
	if err != nil {
		t.Fatal(err)
	}
	var added []wire.Object
	for _, o := range with {
		if !slices.ContainsFunc(without, func(w wire.Object) bool { return apply.Name(w) == apply.Name(o) }) {
			added = append(added, o)
		}
	}
	if len(with) != len(without)+len(added) {
		t.Errorf("%d objects, of which %d are new: %d were there before", len(with), len(added), len(without))
	}
	text, err := apply.YAML(added...)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "names.txt", string(text))
}
