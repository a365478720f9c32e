package flows

import (
	"slices"

	"github.com/liqo-tui/liqo-tui/flows/setting"
)

// ConnectionSetting is a setting of a connection.
type ConnectionSetting = setting.Setting[Params]

// Form returns the settings that forms ask for; nil stands for [Settings].
// Options that choose a cluster get a text with the clusters' names a and b.
func Form(settings []ConnectionSetting, a, b string) []ConnectionSetting {
	if settings == nil {
		settings = Settings()
	}
	return slices.DeleteFunc(worded(settings, a, b), func(s ConnectionSetting) bool { return s.Label == "" })
}

// worded returns the settings with the options' texts for forms.
func worded(settings []ConnectionSetting, a, b string) []ConnectionSetting {
	settings = slices.Clone(settings)
	for i, s := range settings {
		if s.Words == nil {
			continue
		}
		settings[i].Options = slices.Clone(s.Options)
		for j, word := range s.Words(a, b) {
			settings[i].Options[j].Word = word
		}
	}
	return settings
}
