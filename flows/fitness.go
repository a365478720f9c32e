package flows

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Obstacles returns the reasons against any plan for the two clusters, as failed steps. Package check
// shows the same conditions as checks that pass or fail.
func Obstacles(f Facts) []Step {
	if steps := obstacles(f); len(steps) > 0 {
		return steps
	}
	return Strangers(f)
}

// obstacles is [Obstacles] for a plan that may replace the peer.
func obstacles(f Facts) []Step {
	if steps := NoAnswer(f, A, B); len(steps) > 0 {
		return steps
	}
	if s := OneCluster(f); s != nil {
		return []Step{*s}
	}
	var steps []Step
	for _, side := range []Side{A, B} {
		if s := FirstObstacle(side, f.Sides[side]); s != nil {
			steps = append(steps, *s)
		}
	}
	if s := SameID(f); len(steps) == 0 && s != nil {
		steps = append(steps, *s)
	}
	return steps
}

// SameCluster reports whether two contexts lead to one cluster. known is false if the user may read
// neither the UID nor the ID of a cluster.
func SameCluster(a, b ClusterFacts) (same, known bool) {
	switch {
	case a.UID != "" && a.UID == b.UID:
		return true, true
	case a.Identity() != "" && b.Identity() != "", a.ID != "" && b.ID != "" && a.ID != b.ID:
		return false, true
	}
	return false, false
}

// OneCluster returns a failed step if two contexts lead to one cluster. It returns nil if the clusters
// differ, or if this is unknown.
func OneCluster(f Facts) *Step {
	if same, _ := SameCluster(f.Sides[A], f.Sides[B]); !same {
		return nil
	}
	return new(Refuse(B, CodeDifferent, "choice of clusters", FailedPreflight,
		fmt.Sprintf("%s and %s are the same cluster (kube-system has UID %s in both)", f.Sides[A].Context, f.Sides[B].Context, f.Sides[A].UID),
		command.Text("choose another context with --context or --remote-context")))
}

// SameID returns a failed step if both clusters have the same ID.
func SameID(f Facts) *Step {
	if f.Sides[A].ID != f.Sides[B].ID {
		return nil
	}
	return new(Refuse(B, CodeClusterID, "cluster IDs", FailedPreflight,
		fmt.Sprintf("both clusters call themselves %q", f.Sides[A].ID),
		command.Text("install one of them with another --cluster-id")))
}

// NoAnswer returns a failed step for each cluster that can't be used.
func NoAnswer(f Facts, sides ...Side) []Step {
	var steps []Step
	for _, side := range sides {
		if p := f.Sides[side].Problem; p != nil {
			steps = append(steps, problemStep(side, p))
		}
	}
	return steps
}

func problemStep(side Side, p *Problem) Step {
	kind := FailedUnreachable
	if p.Kind != Unreachable {
		kind = FailedAccess
	}
	return Refuse(side, CodeAnswers, "API server", kind, p.Message, p.Fix)
}

// FirstObstacle returns the first of [ObstaclesOf]; nil if there is no obstacle.
func FirstObstacle(side Side, c ClusterFacts) *Step {
	if all := ObstaclesOf(side, c); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// ObstaclesOf returns all reasons against any plan for one cluster that answers, as failed steps. The
// later reasons may follow from the first.
func ObstaclesOf(side Side, c ClusterFacts) (all []Step) {
	add := func(code Code, title, reason string, fix command.Hint) {
		all = append(all, Refuse(side, code, title, FailedPreflight, reason, fix))
	}
	switch {
	case len(c.MissingKinds) > 0 && c.Can().Connect:
		add(CodeSoftware, "Liqo's API",
			fmt.Sprintf("%s runs %s, but its API server does not serve %s", c.Context, c.Software, strings.Join(c.MissingKinds, ", ")),
			command.Hintf("these kinds came with Liqo v1.2: install or upgrade, with %s or Liqo's own installer", c.Ours("install")))
	case !c.Can().Connect && c.Elsewhere != ElsewhereFacts{}:
		all = append(all, *InstalledElsewhere(side, c))
	case (!c.HasCRDs || c.ID == "") && c.Unseen() != "":
		add(CodeSoftware, "installation", fmt.Sprintf("liqo-tui can't see whether Liqo or the liqo-tui operator is installed on %s: %s", c.Context, c.Unseen()), c.Alone().SeeManagers())
	case !c.HasCRDs || !c.Can().Connect && c.ID == "":
		add(CodeSoftware, "installation",
			fmt.Sprintf("nothing is installed on %s yet, neither Liqo nor the liqo-tui operator", c.Context),
			command.Hintf("add --install to %s, or run: %s", c.OursWith("network", "connect"), c.Ours("install").Flag("--cluster-id", "NAME")))
	}
	if err := c.ID.Validate(); err != nil {
		add(CodeClusterID, "cluster ID", err.Error(), command.Hintf("set it in ConfigMap liqo-clusterid-configmap in namespace %s", c.Namespace))
	}
	switch {
	case c.Operator.Refuses:
		add(CodeOperator, "operator", c.Operator.Problem, command.Hintf("remove one of them: %s, or Liqo's own uninstallation", c.Ours("uninstall")))
	case (len(c.Networks.Pod) == 0 || len(c.Networks.External) == 0) && c.Operator.Problem != "":
		fix := command.Hintf("see: %s", c.SeeOperator("pods,events"))
		if c.Software == Operator {
			fix = command.Hintf("if the image can't be pulled, run: %s; else %s", c.Ours("install").Flag("--image", "IMAGE"), fix)
		}
		add(CodeOperator, "operator", c.Operator.Problem, c.OperatorFix(fix))
	case len(c.Networks.Pod) == 0 || len(c.Networks.External) == 0:
		add(CodeNetworks, "address ranges",
			fmt.Sprintf("%s on %s has published no address ranges: namespace %s has no Network of type pod-cidr or external-cidr with a status", c.Software, c.Context, c.Namespace),
			command.Hintf("read its log, and see: %s", c.SeeOperator("pods,networks")))
	}
	return all
}

// InstalledElsewhere returns a failed step if the cluster has an installation in another namespace. A
// second installation would take away the rights of the first, because both have cluster-wide objects
// with the same names. Both would also work on the same nodes.
func InstalledElsewhere(side Side, c ClusterFacts) *Step {
	what := "liqo-tui"
	switch c.Elsewhere.Software {
	case NoSoftware:
		return nil
	case Liqo:
		what = Liqo.String()
	case Operator:
	}
	flag := [...]string{"--liqo-namespace", "--remote-liqo-namespace"}[side]
	return new(Refuse(side, CodeSoftware, "namespace of the installation", FailedPreflight,
		fmt.Sprintf("%s is installed in namespace %s, not in %s", what, c.Elsewhere.Namespace, c.Namespace),
		command.Hintf("use %s %s", flag, c.Elsewhere.Namespace)))
}

// Refuse returns a failed step that states why a plan does nothing.
func Refuse(side Side, code Code, title string, kind FailureKind, reason string, fix ...command.Hint) Step {
	s := Step{ID: IDOf(side, "preflight"), Side: side, Action: Wait, Title: title}
	s.Fail(kind, code, reason, fix...)
	return s
}

// RefusedNodePort returns a failed step if the server's cluster won't assign the node port; nil if no
// reason is known. The operator would refuse the port only after the GatewayServer was written, and
// later runs would keep the port.
func RefusedNodePort(p Params, f Facts) *Step {
	if p.ServiceType != corev1.ServiceTypeNodePort || p.NodePort == 0 {
		return nil
	}
	server, client := f.Sides[p.Server], f.Sides[p.Server.Other()].ID
	refuse := func(format string, args ...any) *Step {
		return new(Refuse(p.Server, CodeFreePort, "node port", FailedPreflight, fmt.Sprintf(format, args...), otherNodePort()))
	}
	if !server.NodePorts.Contains(p.NodePort) {
		return refuse("%d is outside of %s's range %d-%d", p.NodePort, server.ID, server.NodePorts.From, server.NodePorts.To)
	}
	for i := range server.Servers {
		s := &server.Servers[i]
		if n := s.Spec.Endpoint.NodePort; n != nil && *n == int32(p.NodePort) && s.Labels[wire.LabelRemoteCluster] != string(client) {
			return refuse("%d is GatewayServer %s/%s's", p.NodePort, s.Namespace, s.Name)
		}
	}
	own := server.endIn(p.Namespaces[p.Server], client).Tenant.Namespace // its gateway may have a Service that is still being deleted
	for _, u := range server.UsedPorts {
		if u.Port == p.NodePort && u.Namespace != own {
			return refuse("%d is Service %s/%s's", p.NodePort, u.Namespace, u.Name)
		}
	}
	return nil
}
