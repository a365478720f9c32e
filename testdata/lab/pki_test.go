package main

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func readCertificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestServersAreTrustedUnderAllTheirNames(t *testing.T) {
	l := testLab(func(l *Lab) { l.Dir, l.Nodes = t.TempDir(), 2 })
	c := l.Plan()[0]
	if err := l.writePKI(c); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(readCertificate(t, filepath.Join(l.pkiDir(c), "ca.crt")))
	for file, names := range map[string][]string{
		"apiserver":               {"172.30.0.11", "172.30.0.127", "10.96.0.1", "127.0.0.1", "localhost", "kubernetes.default.svc"},
		kubeletServer(c.Nodes[1]): {"172.30.0.21", "rome-2"},
	} {
		cert := readCertificate(t, filepath.Join(l.pkiDir(c), file+".crt"))
		for _, name := range names {
			if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
				t.Errorf("%s as %s: %v", file, name, err)
			}
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "172.30.0.12"}); err == nil {
			t.Errorf("%s as the other cluster's address: trusted", file)
		}
	}
	front := readCertificate(t, filepath.Join(l.pkiDir(c), "front-proxy-client.crt"))
	if _, err := front.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("the front proxy's certificate is trusted as a client of the API server")
	}
}

func TestOneKubeconfigHasAllClustersUnderDistinctNames(t *testing.T) {
	l := testLab(func(l *Lab) { l.Dir = t.TempDir() })
	for _, c := range l.Plan() {
		if err := l.writePKI(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.mergeKubeconfigs(); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(l.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.Validate(*config); err != nil {
		t.Error(err)
	}
	if len(config.Clusters) != 2 || len(config.AuthInfos) != 2 || len(config.Contexts) != 2 {
		t.Errorf("got %d clusters, %d users, %d contexts, want 2 of each",
			len(config.Clusters), len(config.AuthInfos), len(config.Contexts))
	}
	if config.CurrentContext != "lab-rome" {
		t.Errorf("current context: got %s, want lab-rome", config.CurrentContext)
	}
	milan := config.Contexts["lab-milan"]
	if milan == nil || config.Clusters[milan.Cluster].Server != "https://172.30.0.12:6443" {
		t.Errorf("context lab-milan: got %+v, want one of https://172.30.0.12:6443", milan)
	}
}
