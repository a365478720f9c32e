package peering_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Liqo's controllers check the subject and the key, and that the same key gives the same bytes. For a key
// with random signatures, another request is equally good.
func TestRequests(t *testing.T) {
	edwards := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	rivest, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	nonce := []byte("bm9uY2U=")
	sum := sha256.Sum256(nonce)
	for name, key := range map[string]crypto.Signer{"Ed25519": edwards, "RSA": rivest, "ECDSA": curve} {
		t.Run(name, func(t *testing.T) {
			der, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
			r, err := peering.NewRequest(private, "rome", rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			again, err := peering.NewRequest(private, "rome", rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if same := bytes.Equal(r.CSR, again.CSR); same != (name != "ECDSA") {
				t.Errorf("the same bytes: got %v", same)
			}
			block, rest := pem.Decode(r.CSR)
			csr, err := x509.ParseCertificateRequest(block.Bytes)
			if err != nil || len(rest) > 0 || csr.CheckSignature() != nil {
				t.Fatalf("the request can't be read: %v", err)
			}
			if s := csr.Subject; s.CommonName != "rome" || len(s.Organization) != 1 || s.Organization[0] != "liqo.io" || len(csr.DNSNames)+len(csr.IPAddresses) > 0 {
				t.Errorf("the subject is %v", s)
			}
			if !r.Fits(again.CSR, "rome") || r.Fits(again.CSR, "milan") || !r.Has(again.CSR) || r.Fits([]byte("x"), "rome") {
				t.Error("requests of the same key are not told from others")
			}
			options, message := crypto.SignerOpts(crypto.SHA256), sum[:]
			if name == "Ed25519" {
				options, message = crypto.Hash(0), nonce
			}
			signature, err := key.Sign(rand.Reader, message, options)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Signed(nonce, signature) || r.Signed([]byte("other"), signature) || r.Signed(nil, signature) {
				t.Error("signatures are not told from others")
			}
			if bytes.Contains(append(r.CSR, r.PublicKey...), []byte("PRIVATE")) {
				t.Error("the request has the private key")
			}
		})
	}
	if _, err := peering.NewRequest([]byte("x"), "rome", rand.Reader); err == nil {
		t.Error("no error of a key that is none")
	}
}

// A provider chooses the text that a consumer signs. If it were not only a nonce, the consumer could sign a
// request for another certificate, or the start of a connection.
func TestNothingButNoncesIsSigned(t *testing.T) {
	private, _, err := peering.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := peering.NewRequest(private, "rome", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(request.CSR)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	nonce, err := peering.NewNonce(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := peering.Sign(private, nonce, rand.Reader)
	if done, herr := peering.HasSigned(private, nonce, signature); err != nil || herr != nil || !done || !request.Signed(nonce, signature) {
		t.Errorf("a nonce: %v, %v, signed %v", err, herr, done)
	}
	handshake := append(bytes.Repeat([]byte{' '}, 64), "TLS 1.3, client CertificateVerify\x00"...)
	for name, text := range map[string][]byte{
		"a request for a certificate": csr.RawTBSCertificateRequest, "a connection": append(handshake, make([]byte, 32)...),
		"nothing": nil, "a short one": nonce[:40], "a long one": append(bytes.Clone(nonce), nonce...), "with an end": append(bytes.Clone(nonce), '\n'),
		"with a line inside": slices.Concat(nonce[:44], []byte("\n"), nonce[44:]), "raw bytes": bytes.Repeat([]byte{7}, 64),
	} {
		if _, err := peering.Sign(private, text, rand.Reader); err == nil {
			t.Errorf("%s was signed", name)
		}
	}
}

func TestACertificateIsRenewedInItsLastThird(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if got, want := peering.RenewAt(from, from.Add(peering.CertificateLife)), from.AddDate(0, 0, 20); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
