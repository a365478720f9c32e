package trial

import (
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// cause is a reason that a node can't run an image. The error texts of containerd and
// CRI-O distinguish these reasons.
type cause struct {
	words []string // a text with any of them has this cause
	name  string
	fix   []command.Hint
}

// causes returns the known causes. The commands in them are for an installation on the
// cluster.
func causes(on command.Cluster) []cause {
	return []cause{
		{
			words: []string{"exec format error", "no match for platform"}, name: "the image is for another architecture",
			fix: []command.Hint{
				command.Text("build the image for the architecture of that node, too: make images packs amd64, arm64 and arm/v7"),
				command.Hintf("or keep our pods on other nodes: %s", podSettings(on, "a nodeSelector")),
			},
		},
		{
			words: []string{"401 Unauthorized", "403 Forbidden", "no basic auth credentials", "authorization failed", "authentication required", "unauthorized:", "insufficient_scope", "access denied"},
			name:  "the registry needs a password, or refuses the given one",
			fix: []command.Hint{
				command.Hintf("name a Secret with the registry's password: %s", podSettings(on, "imagePullSecrets")),
				command.Hintf("if it names one, compare the Secret's server, user and password with the registry's: %s", command.Kubectl(on, "get", "secret", "NAME", "-o", "yaml")),
				command.Text("or push the image to a registry that asks for none: --image REGISTRY/liqo-gateway:TAG"),
			},
		},
		{
			words: []string{"x509:", "tls: ", "server gave HTTP response"}, name: "the node doesn't trust the registry's certificate",
			fix: []command.Hint{command.Text("give the node's container runtime the registry's authority, such as in /etc/containerd/certs.d/HOST/hosts.toml")},
		},
		{
			words: []string{"no such host", "connection refused", "i/o timeout", "no route to host", "network is unreachable", "TLS handshake timeout", "context deadline exceeded", "server misbehaving"},
			name:  "the node can't reach the registry",
			fix:   []command.Hint{command.Text("open the way from the nodes to the registry, or push the image to one that they reach: --image REGISTRY/liqo-gateway:TAG")},
		},
		{
			words: []string{"not found", "manifest unknown", "name unknown"}, name: "the registry has no such image or tag",
			fix: []command.Hint{command.Text("push it, or correct the name: --image REGISTRY/liqo-gateway:TAG")},
		},
	}
}

// causeOf finds the cause in a kubelet's message. The most certain cause comes first,
// because "not found" is also part of other messages.
func causeOf(words string, on command.Cluster) cause {
	all := causes(on)
	i := slices.IndexFunc(all, func(c cause) bool {
		return slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(words, w) })
	})
	if i < 0 {
		return cause{fix: []command.Hint{
			command.Text("push the image to where the nodes can pull it, and name it: --image REGISTRY/liqo-gateway:TAG"),
			command.Hintf("if the registry asks for a password: %s", podSettings(on, "imagePullSecrets")),
		}}
	}
	return all[i]
}

func podSettings(on command.Cluster, with string) command.Hint {
	return command.Hintf("%s, with %s", command.Ours("install").Flag("--pod-settings", "FILE").On(on), with)
}
