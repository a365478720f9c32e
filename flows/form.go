package flows

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"

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

func anyText(string) error { return nil }

func validAddress(text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return errors.New("want an IP address, such as 192.0.2.7")
	}
	return nil
}

// hostName is what RFC 1123 calls one.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// validHosts is for what a client dials: one, or several with commas between them.
func validHosts(text string) error {
	for host := range strings.SplitSeq(text, ",") {
		if validAddress(host) != nil && !hostName.MatchString(host) {
			return errors.New("want an IP address or a DNS name, without a port")
		}
	}
	return nil
}
