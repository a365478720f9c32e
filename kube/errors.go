package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liqo-tui/liqo-tui/flows"
)

// ContextError is a context that a kubeconfig does not have.
type ContextError struct {
	Ref   flows.ContextRef
	Known []string
}

func (e *ContextError) Error() string { return fmt.Sprintf("no context %s", e.Ref) }

// Hint lists the contexts that are there.
func (e *ContextError) Hint() string {
	if len(e.Known) == 0 {
		return "the kubeconfig has no contexts; check --kubeconfig and KUBECONFIG"
	}
	return "contexts there: " + strings.Join(e.Known, ", ")
}

func contextNames(raw clientcmdapi.Config) []string {
	return slices.Sorted(maps.Keys(raw.Contexts))
}

// ConflictError is a change that another program's ownership stands against.
type ConflictError struct {
	Object, Managers string
	cause            error
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("apply %s: %s also manages fields of this object", e.Object, e.Managers)
}

func (e *ConflictError) Unwrap() error { return e.cause }

// Hint says how to go on.
func (e *ConflictError) Hint() string {
	return "change it with that program, or remove the object and run the same command again"
}

// conflict names the managers that the API server's answer speaks of.
func conflict(object string, err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var managers []string
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
		}
	}
	if len(managers) == 0 {
		return nil
	}
	return &ConflictError{Object: object, Managers: strings.Join(managers, ", "), cause: err}
}

// problem says why the cluster can't be used, with what to do about it.
func (c *Cluster) problem(operation string, err error) *flows.Problem {
	p := &flows.Problem{Kind: flows.Unreachable}
	var dns *net.DNSError
	var network *url.Error
	switch {
	case apierrors.IsUnauthorized(err):
		p.Kind = flows.Unauthorized
		p.Message = fmt.Sprintf("%s does not accept the credentials of context %s", c.server, c.options.Context)
		p.Hint = "log in to the cluster again"
	case apierrors.IsForbidden(err):
		p.Kind = flows.Forbidden
		p.Message = fmt.Sprintf("%s: %v", operation, err)
		p.Hint = "ask the cluster's administrator for this right"
	case errors.As(err, &dns):
		p.Message = fmt.Sprintf("the name %s of context %s's API server can't be resolved", dns.Name, c.options.Context)
		p.Hint = "check the server in the kubeconfig, and your DNS or VPN"
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		p.Message = fmt.Sprintf("%s (context %s) does not answer", c.server, c.options.Context)
		p.Hint = "check the server in the kubeconfig, and firewall or VPN on the way"
	case errors.As(err, &network):
		p.Message = fmt.Sprintf("%s (context %s): %v", c.server, c.options.Context, network.Err)
		p.Hint = "check the server in the kubeconfig, and that the API server runs"
	default:
		p.Message = fmt.Sprintf("%s on %s (context %s): %v", operation, c.server, c.options.Context, err)
	}
	return p
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
