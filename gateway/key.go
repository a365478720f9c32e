package gateway

import (
	"fmt"
	"log/slog"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

const redacted = "(private key)"

// PrivateKey is a WireGuard key that can't be printed. Formatting, logging and marshalling give a placeholder
// instead.
type PrivateKey wgtypes.Key

// IsZero reports whether no key is set.
func (k PrivateKey) IsZero() bool { return k == PrivateKey{} }

// Public returns the public half.
func (k PrivateKey) Public() wgtypes.Key { return wgtypes.Key(k).PublicKey() }

// clamped returns the key with the bits that Curve25519 prescribes (RFC 7748, section 5). It
// has the same public half. WireGuard returns this form of the key.
func (k PrivateKey) clamped() PrivateKey {
	k[0] &= 248
	k[31] = k[31]&127 | 64
	return k
}

// Format hides the key from every verb: %d or %x would otherwise print the array.
func (k PrivateKey) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

func (k PrivateKey) String() string { return redacted }

// GoString hides the key from %#v.
func (k PrivateKey) GoString() string { return redacted }

// LogValue hides the key from log/slog.
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the key from text encoders.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON hides the key from encoding/json.
func (k PrivateKey) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
