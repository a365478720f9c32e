package credentials

import (
	"encoding/json"
	"errors"
	"net/http"

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // registers auth-provider oidc
	"k8s.io/client-go/rest"
)

// successors are the plug-ins that replace the removed auth-providers, each with the command that writes the
// plug-in into the kubeconfig.
var successors = map[string]string{
	"gcp":   "use the plug-in gke-gcloud-auth-plugin; to write it into the kubeconfig, run: gcloud container clusters get-credentials NAME",
	"azure": "use the plug-in kubelogin; to write it into the kubeconfig, run: kubelogin convert-kubeconfig",
}

// useProvider makes config use the credentials of the auth-provider that it names. Auth-providers are older
// than plug-ins.
func useProvider(config *rest.Config) error {
	source := "auth-provider " + config.AuthProvider.Name
	if successor, ok := successors[config.AuthProvider.Name]; ok {
		return &PluginError{Source: source, Word: "login unknown", Reason: "kubectl and client-go have removed it", hint: successor}
	}
	// client-go keeps one provider for each combination of address, issuer and client ID. Two users of one
	// cluster would get the same provider, and a user would get the old one after a new login. So the key
	// here contains the whole configuration.
	key, err := json.Marshal([]any{config.Host, config.AuthProvider.Config})
	if err != nil {
		return err
	}
	provider, err := rest.GetAuthProvider(string(key), config.AuthProvider, config.AuthConfigPersister)
	if err != nil {
		return &PluginError{Source: source, Word: "login unknown", Reason: err.Error(), hint: "correct the user's auth-provider in the kubeconfig"}
	}
	config.AuthProvider, config.AuthConfigPersister = nil, nil
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return providerTransport{source: source, next: provider.WrapTransport(marking{base})}
	})
	return nil
}

// providerTransport distinguishes two kinds of errors: the auth-provider got no token, so no request was sent;
// or a request was sent, and failed.
type providerTransport struct {
	source string
	next   http.RoundTripper
}

func (t providerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if sent, ok := errors.AsType[sentError](err); ok {
		return nil, sent.error
	}
	if err != nil {
		return nil, &PluginError{Source: t.source, Word: "login failed", Reason: err.Error(), hint: "log in again with the program that wrote the kubeconfig's user"}
	}
	return response, nil
}

// marking marks errors of requests that were sent.
type marking struct{ next http.RoundTripper }

type sentError struct{ error }

func (m marking) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(request)
	if err != nil {
		return nil, sentError{err}
	}
	return response, nil
}
