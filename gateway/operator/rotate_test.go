package operator

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestKeysAreReplacedInTwoStepsThatAreAskedFor(t *testing.T) {
	pair := func(n byte) []byte { return bytes.Repeat([]byte{n}, keyLen) }
	text := base64.StdEncoding.EncodeToString
	one := map[string][]byte{wire.SecretPrivateKey: pair(1), wire.SecretPublicKey: pair(2)}
	two := map[string][]byte{
		wire.SecretPrivateKey: pair(1), wire.SecretPublicKey: pair(2),
		wire.SecretNextPrivate: pair(3), wire.SecretNextPublic: pair(4),
	}
	half := map[string][]byte{wire.SecretPrivateKey: pair(1), wire.SecretPublicKey: pair(2), wire.SecretNextPublic: pair(4)}
	rotate, use := wire.AnnotationRotateKey, wire.AnnotationUseKey
	for _, c := range []struct {
		name string
		asks map[string]string
		keys map[string][]byte
		want rotation
	}{
		{"nobody asks", nil, one, keepKeys},
		{"a next pair is asked for", map[string]string{rotate: text(pair(2))}, one, makeNext},
		{"it is there", map[string]string{rotate: text(pair(2))}, two, keepKeys},
		{"half of it is there", map[string]string{rotate: text(pair(2))}, half, makeNext},
		{"it is to be used", map[string]string{rotate: text(pair(2)), use: text(pair(4))}, two, useNext},
		{"another is to be used", map[string]string{rotate: text(pair(2)), use: text(pair(9))}, two, keepKeys},
		{"asked again when it is done", map[string]string{rotate: text(pair(7)), use: text(pair(2))}, one, keepKeys},
		{"used without being asked for", map[string]string{use: text(pair(4))}, two, dropNext},
		{"nobody asks any more", nil, two, dropNext},
	} {
		if got := decideRotation(c.asks, c.keys); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}
