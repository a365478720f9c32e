package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// mastersGroup is a group that the API server itself binds to cluster-admin.
const mastersGroup = "system:masters"

// certificate is a certificate with its key, both also in PEM.
type certificate struct {
	cert    *x509.Certificate
	key     crypto.Signer
	certPEM []byte
	keyPEM  []byte
}

// subject is the owner of a certificate.
type subject struct {
	name  string
	group string
	ips   []netip.Addr
	dns   []string
}

// writePKI makes a new certificate authority for the cluster, and writes the files of
// its components into its PKI directory: certificates, keys and kubeconfigs. All keys
// are ECDSA, because they are made fast.
func (l Lab) writePKI(c Cluster) error {
	dir := l.pkiDir(c)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := issue(subject{name: "lab-ca-" + c.Name}, nil)
	if err != nil {
		return err
	}
	frontCA, err := issue(subject{name: "front-proxy-ca"}, nil)
	if err != nil {
		return err
	}
	serviceAccounts, err := issue(subject{name: "service-accounts"}, nil)
	if err != nil {
		return err
	}
	public, err := publicKeyPEM(serviceAccounts.key)
	if err != nil {
		return err
	}
	if err := writeFiles(dir, map[string][]byte{
		"ca.crt": ca.certPEM, "ca.key": ca.keyPEM,
		"front-proxy-ca.crt": frontCA.certPEM,
		"sa.key":             serviceAccounts.keyPEM, "sa.pub": public,
	}); err != nil {
		return err
	}
	for file, s := range certificates(c) {
		parent := ca
		if file == "front-proxy-client" {
			parent = frontCA
		}
		cert, err := issue(s, parent)
		if err != nil {
			return err
		}
		if err := writeFiles(dir, map[string][]byte{file + ".crt": cert.certPEM, file + ".key": cert.keyPEM}); err != nil {
			return err
		}
	}
	for file, s := range kubeconfigs(c) {
		cert, err := issue(s, ca)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, file+".kubeconfig")
		if err := clientcmd.WriteToFile(c.clientConfig(file, ca, cert), path); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// certificates returns the owners of certificates by file name: servers, and clients
// without a kubeconfig.
func certificates(c Cluster) map[string]subject {
	list := map[string]subject{
		"apiserver": {
			name: "kube-apiserver",
			ips:  append(byFamily(c.IPv6, netip.MustParseAddr(apiServiceIP), netip.MustParseAddr(apiServiceIP6)), append(c.addresses(c.Nodes[0]), netip.MustParseAddr("127.0.0.1"), last(c.LBs))...),
			dns: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local",
			},
		},
		"kubelet-client":     {name: "kube-apiserver-kubelet-client", group: mastersGroup},
		"front-proxy-client": {name: "front-proxy-client"},
	}
	for _, n := range c.Nodes {
		list[kubeletServer(n)] = subject{
			name: "system:node:" + n.Name, group: "system:nodes",
			ips: c.addresses(n), dns: []string{n.Name},
		}
	}
	return list
}

// last returns the address that a Service of type LoadBalancer in front of the API
// server has to request, because the certificate has no other address of a Service.
func last(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr()
	for next := a; p.Contains(next); next = next.Next() {
		a = next
	}
	return a
}

func kubeletServer(n Node) string { return "kubelet-" + n.Name + "-server" }
func kubeletClient(n Node) string { return "kubelet-" + n.Name }

// kubeconfigs returns the users that get a kubeconfig, by file name.
func kubeconfigs(c Cluster) map[string]subject {
	list := map[string]subject{
		"admin": {name: "lab-admin", group: mastersGroup},
		// --use-service-account-credentials would make the start 5 s slower. Without it,
		// most of the controllers need more rights than the user's own role has.
		"controller-manager": {name: "system:kube-controller-manager", group: mastersGroup},
		"scheduler":          {name: "system:kube-scheduler"},
		"kube-proxy":         {name: "system:kube-proxy"},
	}
	for _, n := range c.Nodes {
		list[kubeletClient(n)] = subject{name: "system:node:" + n.Name, group: "system:nodes"}
	}
	return list
}

// clientConfig gives context, cluster and user the name of the cluster, so that the
// files of all clusters of a lab can be merged.
func (c Cluster) clientConfig(user string, ca, cert *certificate) clientcmdapi.Config {
	name := c.contextName()
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.APIServer(), CertificateAuthorityData: ca.certPEM}
	config.AuthInfos[name+"-"+user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: cert.certPEM, ClientKeyData: cert.keyPEM,
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name + "-" + user}
	config.CurrentContext = name
	return *config
}

// mergeKubeconfigs writes one file with the admins of all clusters. The first cluster is
// its current context.
func (l Lab) mergeKubeconfigs() error {
	merged := clientcmdapi.NewConfig()
	for _, c := range l.Plan() {
		config, err := clientcmd.LoadFromFile(l.adminKubeconfig(c))
		if err != nil {
			return fmt.Errorf("read kubeconfig of %s: %w", c.Name, err)
		}
		maps.Copy(merged.Clusters, config.Clusters)
		maps.Copy(merged.AuthInfos, config.AuthInfos)
		maps.Copy(merged.Contexts, config.Contexts)
		if merged.CurrentContext == "" {
			merged.CurrentContext = config.CurrentContext
		}
	}
	if err := clientcmd.WriteToFile(*merged, l.kubeconfig()); err != nil {
		return fmt.Errorf("write %s: %w", l.kubeconfig(), err)
	}
	return nil
}

// issue makes a key and a certificate, signed by parent. If parent is nil, the
// certificate is signed with its own key, and can sign others.
func issue(s subject, parent *certificate) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of %s: %w", s.name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return nil, fmt.Errorf("make serial number of %s: %w", s.name, err)
	}
	template := template(s, serial, time.Now(), parent == nil)
	signer, signerCert := crypto.Signer(key), template
	if parent != nil {
		signer, signerCert = parent.key, parent.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signerCert, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s: %w", s.name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate of %s: %w", s.name, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key of %s: %w", s.name, err)
	}
	return &certificate{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func template(s subject, serial *big.Int, now time.Time, authority bool) *x509.Certificate {
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.name},
		NotBefore:    now.Add(-time.Hour), // clocks of one machine agree, but those of its virtual machines may differ
		NotAfter:     now.AddDate(1, 0, 0),
		DNSNames:     s.dns,
	}
	if s.group != "" {
		t.Subject.Organization = []string{s.group}
	}
	for _, ip := range s.ips {
		t.IPAddresses = append(t.IPAddresses, net.IP(ip.AsSlice()))
	}
	if authority {
		t.IsCA, t.BasicConstraintsValid = true, true
		t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
		return t
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return t
}

func publicKeyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
