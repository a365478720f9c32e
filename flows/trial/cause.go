package trial

import (
	"slices"
	"strings"
)

// cause is why a node can't run an image, of those that are told apart by the words of
// containerd and CRI-O.
type cause struct {
	words []string // any of them
	name  string
	fix   []string
}

var causes = []cause{
	{
		words: []string{"exec format error", "no match for platform"}, name: "the image is for another architecture",
		fix: []string{
			"build the image for the architecture of that node, too: make images packs amd64, arm64 and arm/v7",
			"or keep our pods on other nodes: liqo-tui install --pod-settings FILE, with a nodeSelector",
		},
	},
	{
		words: []string{"401 Unauthorized", "403 Forbidden", "no basic auth credentials", "authorization failed", "authentication required", "unauthorized:", "insufficient_scope", "access denied"},
		name:  "the registry asks for a password, or refuses the one that it got",
		fix: []string{
			"name a Secret with the registry's password: liqo-tui install --pod-settings FILE, with imagePullSecrets",
			"if it names one, compare the Secret's server, user and password with the registry's: kubectl get secret NAME -o yaml",
			"or push the image to a registry that asks for none: --image REGISTRY/liqo-gateway:TAG",
		},
	},
	{
		words: []string{"x509:", "tls: ", "server gave HTTP response"}, name: "the node doesn't trust the registry's certificate",
		fix: []string{"give the node's container runtime the registry's authority, such as in /etc/containerd/certs.d/HOST/hosts.toml"},
	},
	{
		words: []string{"no such host", "connection refused", "i/o timeout", "no route to host", "network is unreachable", "TLS handshake timeout", "context deadline exceeded", "server misbehaving"},
		name:  "the node can't reach the registry",
		fix:   []string{"open the way from the nodes to the registry, or push the image to one that they reach: --image REGISTRY/liqo-gateway:TAG"},
	},
	{
		words: []string{"not found", "manifest unknown", "name unknown"}, name: "the registry has no such image or tag",
		fix: []string{"push it, or correct the name: --image REGISTRY/liqo-gateway:TAG"},
	},
}

// causeOf finds the cause in a kubelet's words, from the most certain to the least: "not
// found" is part of other messages, too.
func causeOf(words string) cause {
	i := slices.IndexFunc(causes, func(c cause) bool {
		return slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(words, w) })
	})
	if i < 0 {
		return cause{fix: []string{
			"push the image to where the nodes can pull it, and name it: --image REGISTRY/liqo-gateway:TAG",
			"if the registry asks for a password: liqo-tui install --pod-settings FILE, with imagePullSecrets",
		}}
	}
	return causes[i]
}
