package peering

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

	"github.com/liqo-tui/liqo-tui/render"
)

// Request is a consumer's key and what a provider is to sign, both as PEM and both
// public.
type Request struct {
	PublicKey []byte
	CSR       []byte
}

// organization is what Liqo's controllers demand of such requests.
const organization = "liqo.io"

// NewRequest is the request of a cluster with this private key, in PKCS#8 as PEM.
// Ed25519 and RSA keys give the same bytes each time, which Liqo's controllers
// count on: they refuse another request of the same consumer.
func NewRequest(privateKey []byte, id render.ClusterID, random io.Reader) (Request, error) {
	block, _ := pem.Decode(privateKey)
	if block == nil {
		return Request{}, errors.New("the private key is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Request{}, fmt.Errorf("parse the private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return Request{}, fmt.Errorf("a private key of type %T signs nothing", key)
	}
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return Request{}, fmt.Errorf("encode the public key: %w", err)
	}
	subject, err := asn1.Marshal(pkix.Name{CommonName: string(id), Organization: []string{organization}}.ToRDNSequence())
	if err != nil {
		return Request{}, fmt.Errorf("encode the subject: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(random, &x509.CertificateRequest{RawSubject: subject}, signer)
	if err != nil {
		return Request{}, fmt.Errorf("sign the request: %w", err)
	}
	return Request{
		PublicKey: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		CSR:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}),
	}, nil
}

// Fits reports whether another request is of the same key and the same cluster, so
// that it is as good as this one.
func (r Request) Fits(csr []byte, id render.ClusterID) bool {
	block, _ := pem.Decode(csr)
	if block == nil {
		return false
	}
	other, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && other.Subject.CommonName == string(id) && r.has(other.PublicKey)
}

// Has reports whether another request is of the same key.
func (r Request) Has(csr []byte) bool {
	block, _ := pem.Decode(csr)
	if block == nil {
		return false
	}
	other, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && r.has(other.PublicKey)
}

// Certifies reports whether a certificate, as PEM, is for this request's key.
func (r Request) Certifies(certificate []byte) bool {
	c, err := Certificate(certificate)
	return err == nil && r.has(c.PublicKey)
}

func (r Request) has(key any) bool {
	block, _ := pem.Decode(r.PublicKey)
	der, err := x509.MarshalPKIXPublicKey(key)
	return err == nil && block != nil && bytes.Equal(block.Bytes, der)
}

// Certificate reads the first certificate of a PEM.
func Certificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the certificate is no PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// Signed reports whether signature is one of this request's key over the nonce's
// text.
func (r Request) Signed(nonce, signature []byte) bool {
	block, _ := pem.Decode(r.PublicKey)
	if block == nil || len(nonce) == 0 || len(signature) == 0 {
		return false
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(nonce)
	switch k := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, nonce, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum[:], signature)
	}
	return false
}
