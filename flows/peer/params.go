// Package peer plans lending: the consumer gets a virtual node with resources of the
// provider. Like package flows, it is pure.
package peer

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/setting"
)

// Params are the admin's settings for lending, without those for the connection.
type Params struct {
	// Consumer is the side that gets the virtual node.
	Consumer flows.Side
	// CPU, Memory and Pods are the requested quantities. Other lists quantities of other resources,
	// such as "nvidia.com/gpu=2". An empty value keeps the present value. If there is no present
	// value, the provider decides.
	CPU, Memory, Pods string
	Other             []string
	Class             string
	// Slice and VirtualNode say whether the plan makes a ResourceSlice and a virtual node: "true",
	// "false", or "" to keep the present value. If there is no present value, "" means true.
	Slice, VirtualNode string
	// InBand is "true" if the consumer reaches the provider's API server through the tunnel, and
	// "false" if it does not. "" keeps the present value. If there is none, the plan chooses, see
	// [pair.chooseWay].
	InBand   string
	ProxyURL string // the URL of a proxy that is used instead of the provider's own proxy
}

// Setting describes one setting of lending.
type Setting = setting.Setting[Params]

// Settings returns all settings of lending, without those of the connection.
func Settings() []Setting {
	quantity := func(name, help string, at func(*Params) *string) Setting {
		return Setting{Name: name, Help: help + " (default: unchanged, at first the provider decides)", Empty: "unchanged", Valid: validQuantity, Store: setting.TextAt(at)}
	}
	choice := func(name, help string, at func(*Params) *string) Setting {
		return Setting{Name: name, Help: help, Kind: setting.Choice, Bare: yes, Empty: "unchanged", Options: []setting.Option{{Value: yes}, {Value: no}}, Store: setting.TextAt(at)}
	}
	return []Setting{
		{
			Name: "consumer", Help: "cluster that gets the virtual node: Local or Remote. The other one is the provider", Kind: setting.Choice,
			Options: []setting.Option{{Value: "Local"}, {Value: "Remote"}},
			Store: setting.Store[Params]{
				Write: func(p Params) string { return [...]string{"Local", "Remote"}[p.Consumer] },
				Read: func(p *Params, text string) {
					p.Consumer = map[string]flows.Side{"Local": flows.A, "Remote": flows.B}[text]
				},
			},
		},
		quantity("cpu", "CPUs of the virtual node, such as 4 or 500m", func(p *Params) *string { return &p.CPU }),
		quantity("memory", "memory of the virtual node, such as 8Gi", func(p *Params) *string { return &p.Memory }),
		quantity("pods", "pods that the virtual node may run", func(p *Params) *string { return &p.Pods }),
		{
			Name: "resource", Help: "other resource of the virtual node, such as nvidia.com/gpu=2; may be repeated (default: unchanged)",
			Kind: setting.List, Empty: "unchanged", Valid: validOther, Store: setting.ListAt(func(p *Params) *[]string { return &p.Other }),
		},
		{Name: "resource-slice-class", Help: "class of the ResourceSlice (default: unchanged, at first \"default\")", Empty: "unchanged", Valid: validClass, Store: setting.TextAt(func(p *Params) *string { return &p.Class })},
		choice("create-resource-slice", "ask the provider for resources (default: true)", func(p *Params) *string { return &p.Slice }),
		choice("create-virtual-node", "make a virtual node of them (default: unchanged, at first true)", func(p *Params) *string { return &p.VirtualNode }),
		choice("in-band", "the consumer reaches the provider's API server through the tunnel (default: unchanged, at first only if its pods don't reach it otherwise)", func(p *Params) *string { return &p.InBand }),
		{Name: "proxy-url", Help: "proxy by which the consumer reaches the provider's API server (default: unchanged, with --in-band the provider's own)", Empty: "unchanged", Valid: validProxy, Store: setting.TextAt(func(p *Params) *string { return &p.ProxyURL })},
	}
}

const yes, no = "true", "false"

func validQuantity(text string) error {
	if q, err := resource.ParseQuantity(text); err != nil || q.Sign() < 0 {
		return errors.New("want a quantity, such as 4, 500m or 8Gi")
	}
	return nil
}

func validOther(text string) error {
	name, quantity, ok := strings.Cut(text, "=")
	if !ok || len(validation.IsQualifiedName(name)) > 0 || validQuantity(quantity) != nil {
		return errors.New("want NAME=QUANTITY, such as nvidia.com/gpu=2")
	}
	return nil
}

func validClass(text string) error {
	if strings.ContainsAny(text, " \t\n") {
		return errors.New("want a name")
	}
	return nil
}

func validProxy(text string) error {
	if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
		return errors.New("want a URL, such as http://10.0.0.7:8118")
	}
	return nil
}

// Validate returns all problems of p as one error; nil if there are none.
func (p Params) Validate() error {
	err := setting.Check(Settings(), p)
	if p.Slice == no && (p.CPU+p.Memory+p.Pods+p.Class != "" || len(p.Other) > 0) {
		err = errors.Join(err, errors.New("--create-resource-slice false: only a ResourceSlice can request resources; omit this flag, or the flags for resources"))
	}
	if p.InBand == no && p.ProxyURL != "" {
		err = errors.Join(err, fmt.Errorf("--proxy-url %q: omit --in-band", p.ProxyURL))
	}
	return err
}

// resources returns the resources to request: were, with the values in p.
func (p Params) resources(were corev1.ResourceList) corev1.ResourceList {
	all := were.DeepCopy()
	if all == nil {
		all = corev1.ResourceList{}
	}
	set := func(name corev1.ResourceName, text string) {
		if q, err := resource.ParseQuantity(text); err == nil { // Validate reports invalid quantities
			all[name] = q
		}
	}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: p.CPU, corev1.ResourceMemory: p.Memory, corev1.ResourcePods: p.Pods} {
		if text != "" {
			set(name, text)
		}
	}
	for _, text := range p.Other {
		name, quantity, _ := strings.Cut(text, "=")
		set(corev1.ResourceName(name), quantity)
	}
	return all
}
