package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// RootCA returns the certificates by which pods of a namespace verify the API server; nil if there are none.
// The certificates in the kubeconfig may be those of a proxy instead.
func (c *Cluster) RootCA(ctx context.Context, namespace string) ([]byte, error) {
	var m corev1.ConfigMap
	err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-root-ca.crt"}, &m)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, c.refused("read", &m, err)
	}
	return []byte(m.Data["ca.crt"]), nil
}

// TryToken tests whether the API server at a URL accepts a token that another person will use there. The
// error is a [flows.Problem]. Its kind is [flows.Unreachable] if the URL does not answer here.
func TryToken(ctx context.Context, server string, ca []byte, token string) error {
	c, err := ForConfig(&rest.Config{Host: server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.client.Create(ctx, &authenticationv1.SelfSubjectReview{})
	var answer apierrors.APIStatus
	var certificate *tls.CertificateVerificationError
	proxy := command.Text("if it is a proxy with logins or certificates of its own, give the URL of the API server itself: --api-server")
	switch {
	case apierrors.IsUnauthorized(err):
		return &flows.Problem{Kind: flows.Unauthorized, Message: server + " does not accept the cluster's own tokens", Fix: proxy}
	case errors.As(err, &certificate):
		return &flows.Problem{Kind: flows.Unauthorized, Message: fmt.Sprintf("%s has a certificate that is not trusted: %v", server, certificate.Err), Fix: proxy}
	case err == nil, errors.As(err, &answer):
		return nil // the rights of the account are another question
	}
	if network, ok := errors.AsType[*url.Error](err); ok {
		err = network.Err
	}
	return &flows.Problem{Kind: flows.Unreachable, Message: fmt.Sprintf("%s does not answer here: %v", server, err)}
}
