package flows

import (
	"slices"

	"github.com/liqo-tui/liqo-tui/flows/setting"
)

// ConnectionSetting is a setting of a connection.
type ConnectionSetting = setting.Setting[Params]

// Form are the settings that forms ask for, with the words that they have for
// choices about two clusters of these names; nil stands for [Settings].
func Form(settings []ConnectionSetting, a, b string) []ConnectionSetting {
	if settings == nil {
		settings = Settings()
	}
	return slices.DeleteFunc(worded(settings, a, b), func(s ConnectionSetting) bool { return s.Label == "" })
}

// worded are settings whose options have the words of forms.
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
