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
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Request is a consumer's key and its certificate signing request (CSR), as PEM. Both are public.
type Request struct {
	PublicKey []byte
	CSR       []byte
}

// Organization is the group that Liqo's controllers require in CSRs of control planes.
const Organization = "liqo.io"

// Subject is the user and the group in a certificate.
type Subject struct{ User, Group string }

// ControlPlane returns the subject of a consumer's operator for its providers.
func ControlPlane(id wire.ClusterID) Subject { return Subject{string(id), Organization} }

// SliceUser returns the subject that uses the resources of a consumer's slice.
func SliceUser(slice string, id wire.ClusterID) Subject {
	sum := sha256.Sum256([]byte(id))
	return Subject{fmt.Sprintf("%s-%x", slice, sum[:6]), string(id)}
}

// NewRequest returns the request of a cluster's control plane, see [Subject.Request].
func NewRequest(privateKey []byte, id wire.ClusterID, random io.Reader) (Request, error) {
	return ControlPlane(id).Request(privateKey, random)
}

// Request returns a request for a certificate of this subject. The private key is PKCS#8 as PEM. With Ed25519
// and RSA keys, the result is always the same. This is needed because Liqo's controllers refuse another
// request of the same consumer.
func (s Subject) Request(privateKey []byte, random io.Reader) (Request, error) {
	signer, r, err := parseKey(privateKey)
	if err != nil {
		return Request{}, err
	}
	subject, err := asn1.Marshal(pkix.Name{CommonName: s.User, Organization: []string{s.Group}}.ToRDNSequence())
	if err != nil {
		return Request{}, fmt.Errorf("encode the subject: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(random, &x509.CertificateRequest{RawSubject: subject}, signer)
	if err != nil {
		return Request{}, fmt.Errorf("sign the request: %w", err)
	}
	r.CSR = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})
	return r, nil
}

func parseKey(privateKey []byte) (crypto.Signer, Request, error) {
	block, _ := pem.Decode(privateKey)
	if block == nil {
		return nil, Request{}, errors.New("the private key is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, Request{}, fmt.Errorf("parse the private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, Request{}, fmt.Errorf("a private key of type %T signs nothing", key)
	}
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, Request{}, fmt.Errorf("encode the public key: %w", err)
	}
	return signer, Request{PublicKey: pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: public})}, nil
}

// NewKey returns a new key pair of a cluster, in the same form as Liqo's controllers: both keys as PEM.
func NewKey(random io.Reader) (private, public []byte, err error) {
	key, secret, err := ed25519.GenerateKey(random)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, err
	}
	pub, err := x509.MarshalPKIXPublicKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: pub}), err
}

const publicKeyBlock = "PUBLIC KEY"

// nonceBytes is the length of Liqo's nonces: 88 characters in base64.
const nonceBytes = 64

// NewNonce returns a text for a consumer to sign.
func NewNonce(random io.Reader) ([]byte, error) {
	raw := make([]byte, nonceBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, err
	}
	return []byte(base64.StdEncoding.EncodeToString(raw)), nil
}

// Sign signs a provider's nonce, and refuses all other texts. The same key signs certificate requests and
// opens connections. So a provider with signatures of other texts could pretend to be this cluster. Such
// texts are not base64.
func Sign(privateKey, nonce []byte, random io.Reader) ([]byte, error) {
	signer, _, err := parseKey(privateKey)
	if err != nil {
		return nil, err
	}
	if raw, err := base64.StdEncoding.Strict().DecodeString(string(nonce)); err != nil || len(raw) != nonceBytes || bytes.ContainsAny(nonce, "\r\n") {
		return nil, fmt.Errorf("the nonce is not the base64 text of %d bytes, and nothing else is signed", nonceBytes)
	}
	if _, ok := signer.(ed25519.PrivateKey); ok {
		return signer.Sign(random, nonce, crypto.Hash(0))
	}
	sum := sha256.Sum256(nonce)
	return signer.Sign(random, sum[:], crypto.SHA256)
}

// Acceptable returns nil if a provider may request a certificate for a subject with this CSR, and otherwise
// the reason that it may not. The certificate must be for this user in this group only. A third attribute of
// the subject could have a meaning for an API server, such as a UID.
func (r Request) Acceptable(s Subject) error {
	block, rest := pem.Decode(r.CSR)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("its CSR is not one request as PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("its CSR can't be read: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return fmt.Errorf("its CSR is not signed by its own key: %w", err)
	}
	switch {
	case csr.Subject.CommonName != s.User:
		return fmt.Errorf("its CSR is for user %q, not %q", csr.Subject.CommonName, s.User)
	case len(csr.Subject.Organization) != 1 || csr.Subject.Organization[0] != s.Group:
		return fmt.Errorf("its CSR is for the groups %q, not for %q alone", csr.Subject.Organization, s.Group)
	case len(csr.Subject.Names) != 2:
		return errors.New("the subject of its CSR has more than a name and a group")
	case len(csr.Extensions) > 0:
		return errors.New("its CSR asks for extensions, such as other names or usages")
	case !r.has(csr.PublicKey):
		return errors.New("its CSR is for another key than the Tenant's")
	}
	switch k := csr.PublicKey.(type) {
	case ed25519.PublicKey, *ecdsa.PublicKey:
		return nil
	case *rsa.PublicKey:
		if k.N.BitLen() >= 2048 {
			return nil
		}
	}
	return errors.New("its key is too weak: want Ed25519, ECDSA, or RSA of 2048 bits or more")
}

// Fits reports whether another CSR is for the same key and the same cluster, and so can replace this one.
func (r Request) Fits(csr []byte, id wire.ClusterID) bool {
	block, _ := pem.Decode(csr)
	if block == nil {
		return false
	}
	other, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && other.Subject.CommonName == string(id) && r.has(other.PublicKey)
}

// Has reports whether another CSR is for the same key.
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

// Certificate parses the first certificate of a PEM text.
func Certificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the certificate is no PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// Signed reports whether signature is a signature of the nonce's text with this request's key.
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

// HasSigned reports whether a signature of the nonce was made with this private key.
func HasSigned(privateKey, nonce, signature []byte) (bool, error) {
	_, r, err := parseKey(privateKey)
	return err == nil && r.Signed(nonce, signature), err
}
