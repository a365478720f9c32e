package setting

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
)

// AnyText accepts every text. It is the Valid of a Text that may be empty.
func AnyText(string) error { return nil }

// Address accepts an IP address to which others can send packets.
func Address(text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return errors.New("want an IP address, such as 192.0.2.7")
	}
	return nil
}

// hostName matches host names of RFC 1123.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// Hosts accepts the addresses that a client dials: one, or several separated by
// commas.
func Hosts(text string) error {
	for host := range strings.SplitSeq(text, ",") {
		if Address(host) != nil && !hostName.MatchString(host) {
			return errors.New("want an IP address or a DNS name, without a port")
		}
	}
	return nil
}
