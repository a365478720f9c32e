package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/credentials"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// conflict makes an error with the names of the conflicting managers from the API server's answer; nil if the
// answer is no conflict.
func conflict(object string, err error) error {
	if own, ok := errors.AsType[*flows.ConflictError](err); ok {
		return own
	}
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var managers, fields []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		// The message is: conflict with "MANAGER" using VERSION
		if _, rest, ok := strings.Cut(cause.Message, `"`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			if !slices.Contains(managers, name) {
				managers = append(managers, name)
			}
			fields = append(fields, cause.Field)
		}
	}
	if len(managers) == 0 {
		return nil
	}
	return &flows.ConflictError{Object: object, Managers: managers, Fields: fields, Cause: err}
}

// refused returns the error of an operation on an object: a conflict with its managers, a
// [flows.Problem] if the API server can't be used, otherwise the API server's answer.
func (c *Cluster) refused(operation string, o wire.Object, err error) error {
	name := apply.Name(o)
	if e := conflict(name, err); e != nil {
		return e
	}
	if e, ok := errors.AsType[*flows.ForeignError](err); ok {
		return e
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && !apierrors.IsUnauthorized(err) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w", operation, name, err)
	}
	var network *url.Error
	if apierrors.IsUnauthorized(err) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s %s: %w", operation, name, c.problem(operation, err))
	}
	return fmt.Errorf("%s %s: %w", operation, name, err)
}

// problem returns the reason that the cluster can't be used, with advice.
func (c *Cluster) problem(operation string, err error) *flows.Problem {
	p := &flows.Problem{Kind: flows.Unreachable}
	var dns *net.DNSError
	var network *url.Error
	var plugin *credentials.PluginError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &plugin):
		p.Kind, p.Word = flows.Unauthorized, plugin.Word
		p.Message = fmt.Sprintf("context %s: %v", c.options.Context, plugin)
		p.Fix = plugin.Hint()
	case apierrors.IsUnauthorized(err):
		p.Kind = flows.Unauthorized
		p.Message = fmt.Sprintf("%s does not accept the credentials of context %s", c.server, c.options.Context)
		p.Fix = command.Text("log in to the cluster again")
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot impersonate"):
		p.Kind = flows.Forbidden
		p.Message = fmt.Sprintf("%s: %v", operation, err)
		p.Fix = command.Text("ask the cluster's administrator for the right to impersonate, or go on as yourself: without --as, and without \"as\" in the kubeconfig")
	case apierrors.IsForbidden(err):
		p.Kind = flows.Forbidden
		p.Message = fmt.Sprintf("%s: %v", operation, err)
		p.Fix = c.facts().Alone().AskForRights()
	case errors.As(err, &dns):
		p.Message = fmt.Sprintf("the name %s of context %s's API server can't be resolved", dns.Name, c.options.Context)
		p.Fix = command.Text("check the server in the kubeconfig, and your DNS or VPN")
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		p.Message = fmt.Sprintf("%s (context %s) does not answer", c.server, c.options.Context)
		p.Fix = command.Text("check the server in the kubeconfig, and firewall or VPN on the way")
	case errors.As(err, &authority):
		p.Message = fmt.Sprintf("%s (context %s) shows a certificate that the certificate authority in the kubeconfig has not signed", c.server, c.options.Context)
		p.Fix = command.Text("get the kubeconfig of that cluster again: after it was built anew, or behind a proxy, it has another certificate-authority-data")
	case errors.As(err, &host):
		p.Message = fmt.Sprintf("%s (context %s) shows a certificate for other names: %v", c.server, c.options.Context, host)
		p.Fix = command.Text("give the kubeconfig a server, or a tls-server-name, that the certificate has")
	case errors.As(err, &network):
		p.Message = fmt.Sprintf("%s (context %s): %v", c.server, c.options.Context, network.Err)
		p.Fix = command.Text("check the server in the kubeconfig, and that the API server runs")
	default:
		p.Message = fmt.Sprintf("%s on %s (context %s): %v", operation, c.server, c.options.Context, err)
	}
	return p
}

// slow returns the problem of an API server that answers, but has not sent all objects of a kind yet. The
// objects are read further in the background.
func (c *Cluster) slow(kind string) *flows.Problem {
	return &flows.Problem{
		Kind: flows.Unreachable, Word: "slow",
		Message: fmt.Sprintf("%s (context %s) answers slowly: objects of kind %s are still being read", c.server, c.options.Context, kind),
		Fix:     command.Text("wait; if it stays so, look for load on the API server, and at the way to it"),
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
