package flows

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// ExplainWaits adds the cluster's warnings to each step that waits, and advice for a wait
// that does not end.
func (c Connection) ExplainWaits(steps []Step) []Step {
	for i := range steps {
		switch s := &steps[i]; s.Status {
		case Waiting:
			c.blame(steps, s)
			if s.Status == Waiting {
				kinds, fix := c.aboutWait(*s)
				s.Events, s.Fix = c.EventsAbout(s.Side, kinds), fix
			}
		case Done, Blocked:
			s.Code = ""
		case Ready, Failed:
		}
	}
	return steps
}

// refusalGrace is the time that an operator needs to notice a change of a refused gateway.
const refusalGrace = 5 * time.Second

// If the operator does not make a gateway, blame writes the operator's reason into the step that
// waits for the gateway. The step fails if another attempt would not help.
func (c Connection) blame(steps []Step, s *Step) {
	side := s.Side
	switch s.Code {
	case CodeEndpoint, CodePod, CodeTunnel:
	case CodeKey:
		side = s.keyMaker()
	default:
		return
	}
	gateway := c.AnyGateway(side)
	if gateway == nil {
		return
	}
	problem := gateway.GetAnnotations()[wire.AnnotationProblem]
	if problem == "" {
		return
	}
	s.Reason = problem
	applied := slices.ContainsFunc(steps, func(g Step) bool {
		return (g.ID == IDOf(side, stepServer) || g.ID == IDOf(side, stepClient)) && g.Status == Done
	})
	if !strings.HasPrefix(problem, wire.ProblemRefused) || !applied || c.Facts.At.Sub(c.Ends[side].specChanged(gateway)) < refusalGrace {
		return
	}
	s.Fail(FailedApply, CodeRefused, problem, command.Text("change the setting that the message names, then run the command again"))
	if aboutNodePort(problem) {
		s.Code, s.Fix = CodeNodePort, []command.Hint{otherNodePort()}
	}
}

// keyMaker returns the side whose operator makes the key for which the step waits.
func (s *Step) keyMaker() Side {
	if s.ID == IDOf(s.Side, stepOwnKey) {
		return s.Side
	}
	return s.Side.Other()
}

// aboutWait returns the kinds of the objects whose events explain a wait, and the advice.
func (c Connection) aboutWait(s Step) (kinds []string, fix []command.Hint) {
	gateway := wire.GatewayObjectName(c.gatewayName(s.Side))
	switch s.Code {
	case CodeEndpoint:
		if c.Params.ServiceType != corev1.ServiceTypeLoadBalancer {
			return []string{"Service"}, []command.Hint{command.Hintf("check the operator: %s", c.Facts.Sides[s.Side].SeeOperator("pods,events"))}
		}
		return []string{"Service"}, []command.Hint{
			command.Hintf("see what the provider says: %s", c.Kubectl(s.Side, "describe", "service", gateway)),
			command.Text("or choose --server-service-type NodePort, or give the address: --client-address"),
		}
	case CodePod:
		return []string{"Pod", "ReplicaSet", "Deployment"}, []command.Hint{command.Hintf("see: %s", c.Kubectl(s.Side, "describe", "pods"))}
	case CodeTunnel:
		return []string{"Pod", "Deployment"}, c.tunnelFix(s.Side)
	case CodeRemapping:
		hint := command.Hintf("check the operator: %s", c.Facts.Sides[s.Side].SeeOperator("pods,events"))
		if conf := c.Ends[s.Side].Configuration; conf != nil && NoFreeRange(conf) {
			hint = c.Facts.Sides[s.Side].MoreRoom()
		}
		return []string{"Configuration", "Network"}, []command.Hint{hint}
	case CodeKey:
		return []string{kindServer, kindClient, "Secret"}, []command.Hint{command.Hintf("check the operator: %s", c.Facts.Sides[s.keyMaker()].SeeOperator("pods,events"))}
	case CodeDeletion:
		return []string{s.Object.Kind}, []command.Hint{command.Hintf("see what holds it: %s", c.Facts.Sides[s.Side].See(s.Object))}
	default:
		return []string{s.Object.Kind}, nil
	}
}

// tunnelFix returns the advice for gateways that don't reach each other although all objects
// are applied.
func (c Connection) tunnelFix(side Side) []command.Hint {
	fix := []command.Hint{command.Hintf("see what is broken: %s", c.Facts.Ours("check"))}
	if other := c.Facts.Sides[B]; other.Described {
		fix = []command.Hint{command.Hintf("ask the admin of %s to check their side with: %s", other.ID, command.Ours("info", "peer", string(c.Facts.Sides[A].ID)).For(string(other.ID)))}
	}
	if pod := c.Ends[side].Pod; pod != nil && pod.Waiting != "" && pod.Restarts > 1 { // the pod fails again and again
		return []command.Hint{command.Hintf("see why: %s", c.Kubectl(side, "logs", "--previous", "--all-containers", pod.Name))}
	}
	cause := c.Ends[side].Reading().Cause(c.Facts.At)
	if cause != wire.ReasonNoHandshake && cause != wire.ReasonPeerSilent && cause != "" { // all other causes have their own explanation
		return fix
	}
	if addresses, port, reason := c.Dial(c.Params.Server); reason == "" {
		fix = append(fix, command.Hintf("or open the way, which most often a firewall blocks: allow UDP from the nodes of %s to %s port %d, and replies",
			c.Facts.Sides[c.Params.Server.Other()].ID, strings.Join(addresses, ", "), port))
	}
	other := c.Params.Server.Other()
	switch {
	case cause == wire.ReasonPeerSilent, c.Facts.Sides[B].Described: // the other direction is no advice here, because the present direction may have worked
	case c.Ends[c.Params.Server].OtherWayFailed():
		fix = append(fix, command.Hintf("or run a relay that both clusters reach, since they did not reach each other with the server on %s either: %s",
			c.Facts.Sides[other].ID, c.Facts.Ours("network", "connect").Flag("--relay", "HOST:PORT")))
	default:
		fix = append(fix, command.Hintf("or let %s host the server, which needs the same the other way round: %s",
			c.Facts.Sides[other].ID, c.Facts.Ours("network", "connect").Flag("--server-location", [...]string{"Local", "Remote"}[other])))
	}
	return fix
}

// EventsAbout returns the side's warnings about objects of the connection.
func (c Connection) EventsAbout(side Side, kinds []string) []EventFacts {
	var out []EventFacts
	for _, e := range c.Facts.Sides[side].Events {
		kind, name, _ := strings.Cut(e.Object, " ")
		if slices.Contains(kinds, kind) && (name == c.Ends[side].Tenant.Namespace || strings.HasPrefix(name, c.Ends[side].Tenant.Namespace+"/")) {
			out = append(out, e)
		}
	}
	return out
}

// gatewayName returns the present or future name of the side's gateway.
func (c Connection) gatewayName(side Side) string {
	return cmp.Or(c.Ends[side].GatewayName(), c.Ends[side].Tenant.ObjectName())
}

// Kubectl returns a kubectl command in the side's tenant namespace.
func (c Connection) Kubectl(side Side, words ...string) command.Command {
	return c.Facts.Sides[side].KubectlIn(c.Ends[side].Tenant.Namespace, words...)
}

// OwnKey waits for the key that the other cluster's admin needs.
func (c Connection) OwnKey(side Side) Step {
	s := Step{ID: IDOf(side, stepOwnKey), Side: side, Action: Wait, Title: "public key of the gateway", Status: Waiting, Code: CodeKey}
	switch end := c.Ends[side]; {
	case !Live(c.AnyGateway(side)):
		s.Status, s.Reason = Blocked, "needs the gateway"
	case end.Key == nil:
		s.Reason = "waiting for the gateway's key"
	default:
		s.Status, s.Reason = Done, end.Key.String()
	}
	return s
}
