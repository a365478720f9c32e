package setting

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
)

// AnyText is for a Text that may be empty.
func AnyText(string) error { return nil }

// Address is for the IP address of something.
func Address(text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return errors.New("want an IP address, such as 192.0.2.7")
	}
	return nil
}

// hostName is what RFC 1123 calls one.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// Hosts is for what a client dials: one, or several with commas between them.
func Hosts(text string) error {
	for host := range strings.SplitSeq(text, ",") {
		if Address(host) != nil && !hostName.MatchString(host) {
			return errors.New("want an IP address or a DNS name, without a port")
		}
	}
	return nil
}
