// Command registry is a real image registry for nodes of the lab: CNCF's distribution,
// with a password, and with TLS by its own certificate authority.
//
//	registry -listen ADDRESS:PORT -hosts DIR -user NAME -password WORD [-load IMAGE.tar=NAME:TAG]...
//
// It keeps images in memory until it ends. DIR is the folder in which containerd reads
// which registries it trusts, see config_path in testdata/lab/components.go: this
// program writes DIR/ADDRESS:PORT. It prints "ready" when it serves the images of the
// -load flags.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

type options struct {
	listen, hosts, user, password string
	images                        []string // FILE=NAME:TAG
}

func run(args []string) error {
	logrus.SetLevel(logrus.FatalLevel) // of the libraries, which report an image that is not loaded yet as an error
	var o options
	flags := flag.NewFlagSet("registry", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", "", "address and port")
	flags.StringVar(&o.hosts, "hosts", "", "folder of containerd's hosts.toml files")
	flags.StringVar(&o.user, "user", "", "whom it serves")
	flags.StringVar(&o.password, "password", "", "of that user")
	flags.Func("load", "image to begin with, as FILE.tar=NAME:TAG; may be repeated", func(text string) error {
		o.images = append(o.images, text)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.listen == "" || o.hosts == "" || o.user == "" || o.password == "" || flags.NArg() > 0 {
		return errors.New("want -listen ADDRESS:PORT -hosts DIR -user NAME -password WORD [-load IMAGE.tar=NAME:TAG]")
	}
	ended, trust, err := o.serve(context.Background())
	if err != nil {
		return err
	}
	for _, image := range o.images {
		if err := o.load(image, trust); err != nil {
			return fmt.Errorf("load %s: %w", image, err)
		}
	}
	fmt.Println("ready")
	return <-ended
}

// serve starts the registry, and makes the readers of o.hosts trust it.
func (o options) serve(ctx context.Context) (ended <-chan error, trust *x509.CertPool, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return nil, nil, err
	}
	certificate, authority, err := certificates(listener.Addr().(*net.TCPAddr).IP)
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(o.hosts, o.listen)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(o.password), bcrypt.MinCost)
	if err != nil {
		return nil, nil, err
	}
	ca, users := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "users")
	for file, text := range map[string]string{
		ca:                               string(authority),
		users:                            o.user + ":" + string(hash) + "\n",
		filepath.Join(dir, "hosts.toml"): fmt.Sprintf("server = \"https://%s\"\nca = %q\n", o.listen, ca),
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, nil, err
		}
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": configuration.Parameters{}},
		Auth:    configuration.Auth{"htpasswd": configuration.Parameters{"realm": "the lab's images", "path": users}},
		Catalog: configuration.Catalog{MaxEntries: 100}, // the registry does not start without it
	}
	config.HTTP.Secret = o.password // of uploads; without it, the registry warns
	server := &http.Server{
		Handler:           handlers.NewApp(ctx, config),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(authority)
	return done, trust, nil
}

// load pushes an archive as a usual client would.
func (o options) load(image string, trust *x509.CertPool) error {
	file, tag, ok := strings.Cut(image, "=")
	if !ok {
		return errors.New("want FILE.tar=NAME:TAG")
	}
	ref, err := name.NewTag(o.listen + "/" + tag)
	if err != nil {
		return err
	}
	content, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		return err
	}
	return remote.Write(ref, content,
		remote.WithAuth(&authn.Basic{Username: o.user, Password: o.password}),
		remote.WithTransport(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}}))
}

// certificates returns the certificate of a server at an address, and of the authority
// that signed it.
func certificates(address net.IP) (server tls.Certificate, authority []byte, err error) {
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registry-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), // no lab exists longer
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return server, nil, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return server, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return server, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "registry"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{address},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return server, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), nil
}
