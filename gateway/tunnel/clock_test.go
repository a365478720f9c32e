//go:build linux

package tunnel_test

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"hash"
	"testing"
	"time"

	"golang.org/x/crypto/blake2s"
	"golang.org/x/crypto/chacha20poly1305"
	"golang.zx2c4.com/wireguard/device"

	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

// The client's gateway moves to a machine whose clock is behind the clock of the earlier machine. The test
// makes the last packet of the earlier machine, because no machine has two clocks.
func TestClientMovesToAMachineWhoseClockIsBehind(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	p.ofClient.Kill()
	before := p.ofServer.Status().Peer.Received
	own, err := ecdh.X25519().NewPrivateKey(p.client.Key[:])
	if err != nil {
		t.Fatal(err)
	}
	peer := p.server.Key.PublicKey()
	first := initiationAt(t, own, peer[:], time.Now().Add(time.Hour))
	socket := p.client.Gateway.ListenUDP("0.0.0.0:0")
	if _, err := socket.WriteToUDPAddrPort(first, p.wanted(p.client, p.server).Inputs.Peers[0].Endpoint); err != nil {
		t.Fatal(err)
	}
	linuxtest.WaitFor(t, "the server to hear of the other clock", func() bool {
		return p.ofServer.Status().Peer.Received >= before+uint64(len(first))
	})
	started := time.Now()
	p.ofClient = p.client.Start(p.wanted(p.client, p.server))
	// The server waits 1.5 s, and it may have forgotten the packet, because it forgets every 3 s.
	linuxtest.Bound(t, "client's clock an hour behind", p.stream.Gap(started), 4*time.Second)
}

// initiationAt returns the message that begins a handshake at a time (WireGuard's paper, section 5.4.2).
func initiationAt(t *testing.T, own *ecdh.PrivateKey, peer []byte, at time.Time) []byte {
	t.Helper()
	sum := func(parts ...[]byte) []byte {
		h, _ := blake2s.New256(nil)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	mac := func(key []byte, parts ...[]byte) []byte {
		h := hmac.New(func() hash.Hash { h, _ := blake2s.New256(nil); return h }, key)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	// derive is KDF2. It returns the next chaining key, and a key.
	derive := func(chain, input []byte) (next, key []byte) {
		secret := mac(chain, input)
		next = mac(secret, []byte{1})
		return next, mac(secret, next, []byte{2})
	}
	seal := func(key, text, hashed []byte) []byte {
		aead, err := chacha20poly1305.New(key)
		if err != nil {
			t.Fatal(err)
		}
		return aead.Seal(nil, make([]byte, aead.NonceSize()), text, hashed)
	}
	other, err := ecdh.X25519().NewPublicKey(peer)
	if err != nil {
		t.Fatal(err)
	}
	shared := func(k *ecdh.PrivateKey) []byte {
		s, err := k.ECDH(other)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ephemeral, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	chain := sum([]byte("Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s"))
	hashed := sum(sum(chain, []byte("WireGuard v1 zx2c4 Jason@zx2c4.com")), peer)
	message := []byte{device.MessageInitiationType, 0, 0, 0, 1, 2, 3, 4}
	message = append(message, ephemeral.PublicKey().Bytes()...)
	hashed = sum(hashed, ephemeral.PublicKey().Bytes())
	chain, _ = derive(chain, ephemeral.PublicKey().Bytes())
	chain, key := derive(chain, shared(ephemeral))
	static := seal(key, own.PublicKey().Bytes(), hashed)
	message, hashed = append(message, static...), sum(hashed, static)
	_, key = derive(chain, shared(own))
	stamp := binary.BigEndian.AppendUint64(nil, 0x400000000000000a+uint64(at.Unix()))
	message = append(message, seal(key, binary.BigEndian.AppendUint32(stamp, 0), hashed)...)
	first, err := blake2s.New128(sum([]byte("mac1----"), peer))
	if err != nil {
		t.Fatal(err)
	}
	first.Write(message)
	return append(first.Sum(message), make([]byte, 16)...)
}
