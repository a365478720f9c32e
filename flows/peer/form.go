package peer

import (
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/setting"
)

// connectOnly is the value of the form's first option: no lending.
const connectOnly = "connect"

// Form returns the settings that ask whether to connect the two clusters only, or to lend resources as
// well, and how much. a and b are the clusters' names. The result is nil if neither cluster can use the
// other one.
func Form(f flows.Facts, a, b string) []flows.ConnectionSetting {
	options := []setting.Option{{Value: connectOnly, Word: "connect pods only"}}
	if canUse(f.Sides[flows.A], f.Sides[flows.B]) {
		options = append(options, setting.Option{Value: "Local", Word: a + " also runs pods on " + b})
	}
	if canUse(f.Sides[flows.B], f.Sides[flows.A]) {
		options = append(options, setting.Option{Value: "Remote", Word: b + " also runs pods on " + a})
	}
	if len(options) == 1 {
		return nil
	}
	form := []flows.ConnectionSetting{{
		Name: "lend", Label: "Purpose", Kind: setting.Choice,
		Options: options,
		Explain: "Connected pods reach each other. A cluster can also run pods on the other one: it gets a virtual node, and pods that are scheduled there run on the other cluster. For that, it gets access to the other one's API server, in namespaces of its own.",
		Store: setting.Store[flows.Params]{
			Write: func(p flows.Params) string {
				if of(p) == nil {
					return connectOnly
				}
				return consumerSetting().Write(*of(p))
			},
			Read: func(p *flows.Params, text string) {
				if text == connectOnly {
					p.Lending = nil
					return
				}
				change(p, func(own *Params) { consumerSetting().Read(own, text) })
			},
		},
	}}
	labels := map[string]string{"cpu": "CPUs", "memory": "Memory", "pods": "Pods"}
	for _, s := range Settings() {
		label := labels[s.Name]
		if label == "" {
			continue
		}
		form = append(form, flows.ConnectionSetting{
			Name: s.Name, Label: label, Kind: setting.Text, Valid: s.Valid, Empty: "as the provider decides", Peering: true,
			Explain: "How much pods on the virtual node may request in all. The other cluster grants what is asked for, or says why not, and refuses pods beyond it.",
			Store: setting.Store[flows.Params]{
				Write: func(p flows.Params) string {
					if of(p) == nil {
						return ""
					}
					return s.Write(*of(p))
				},
				Read: func(p *flows.Params, text string) {
					if of(*p) != nil {
						change(p, func(own *Params) { s.Read(own, text) })
					}
				},
			},
		})
	}
	return form
}

// canUse reports whether the consumer can use resources of the provider, given the programs that run
// now.
func canUse(consumer, provider flows.ClusterFacts) bool {
	return consumer.Can().Consume && provider.Can().Provide && accepts(provider, consumer)
}

func consumerSetting() Setting { return Settings()[0] }

// of returns the parameters of the lending in p; nil if p wants only a connection.
func of(p flows.Params) *Params {
	own, _ := p.Lending.(*Params)
	return own
}

// change edits a copy of the parameters of lending, because several drafts share a pointer to them.
func change(p *flows.Params, edit func(*Params)) {
	var own Params
	if was := of(*p); was != nil {
		own = *was
		own.Other = slices.Clone(own.Other)
	}
	edit(&own)
	p.Lending = &own
}
