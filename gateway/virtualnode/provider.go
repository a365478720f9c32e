package virtualnode

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/gateway/remote"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// access is the part of a kubeconfig that the operator writes. Everything else in a kubeconfig is ignored,
// such as programs to run or files to read.
type access struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"`
			Proxy  string `json:"proxy-url"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Certificate []byte `json:"client-certificate-data"`
			Key         []byte `json:"client-key-data"`
		} `json:"user"`
	} `json:"users"`
}

type provider struct {
	http    *http.Client
	streams http.RoundTripper // never HTTP/2, whose connections can't be upgraded
	config  *rest.Config
	server  string
	expires time.Time // when the certificate expires
}

func newProvider(kubeconfig []byte, wrap transport.WrapperFunc) (*provider, error) {
	var a access
	if err := yaml.Unmarshal(kubeconfig, &a); err != nil {
		return nil, fmt.Errorf("parse its kubeconfig: %w", err)
	}
	if len(a.Clusters) != 1 || len(a.Users) != 1 {
		return nil, fmt.Errorf("its kubeconfig has %d clusters and %d users, not one of each", len(a.Clusters), len(a.Users))
	}
	at, user := a.Clusters[0].Cluster, a.Users[0].User
	certificate, err := peering.Certificate(user.Certificate)
	if err != nil {
		return nil, fmt.Errorf("parse its kubeconfig: %w", err)
	}
	cluster, err := remote.New(remote.Access{Server: at.Server, Proxy: at.Proxy, CA: at.CA, Certificate: user.Certificate, Key: user.Key}, wrap)
	if err != nil {
		return nil, fmt.Errorf("use its kubeconfig: %w", err)
	}
	upgradable := rest.CopyConfig(cluster.Config)
	upgradable.NextProtos = []string{"http/1.1"}
	streams, err := rest.TransportFor(upgradable)
	if err != nil {
		return nil, fmt.Errorf("use its kubeconfig: %w", err)
	}
	return &provider{http: cluster.HTTP, streams: streams, config: cluster.Config, server: at.Server, expires: certificate.NotAfter}, nil
}

func (p *provider) close() {
	p.http.CloseIdleConnections()
	utilnet.CloseIdleConnectionsFor(p.streams)
}

// ask returns nil if the API server answers and accepts the certificate.
func (p *provider) ask(ctx context.Context, now time.Time) error {
	if now.After(p.expires) {
		return fmt.Errorf("the certificate for it has expired on %s", p.expires.UTC().Format(time.DateOnly))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server+"/livez", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := p.http.Do(request)
	if err != nil {
		return peering.NoAnswer(p.server, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can be reused
	_ = answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusForbidden: // a 403 proves that the certificate was accepted
		return nil
	case http.StatusUnauthorized:
		return fmt.Errorf("its API server %s does not know this cluster's certificate", p.server)
	}
	return fmt.Errorf("its API server %s says %s", p.server, answer.Status)
}
