package install

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// ImageStep returns the ID of the step that waits until a node has pulled the image.
func ImageStep(side flows.Side) flows.StepID { return flows.IDOf(side, "image") }

// kinds returns the nodes that can run our programs, by architecture.
func kinds(c flows.ClusterFacts) (all []trial.Kind) {
	for _, n := range c.Nodes {
		if n.Arch == "" || n.Unable() != "" {
			continue
		}
		i := slices.IndexFunc(all, func(k trial.Kind) bool { return k.Arch == n.Arch })
		if i < 0 {
			i, all = len(all), append(all, trial.Kind{Arch: n.Arch})
		}
		all[i].Nodes = append(all[i].Nodes, n.Name)
	}
	return all
}

// tryImage returns a step in which one node of each architecture pulls the image, before other steps
// change anything. It returns no step if the operator already runs with that image.
func (i *Installation) tryImage(side flows.Side, c flows.ClusterFacts, steps []flows.Step) []flows.Step {
	changes := slices.ContainsFunc(steps, func(s flows.Step) bool {
		return (s.Status == flows.Ready || s.Status == flows.Blocked) && (s.ID == flows.IDOf(side, stepOperator) || s.ID == flows.IDOf(side, stepFabric))
	})
	runs := false
	if d := installed[appsv1.Deployment](c, wire.OperatorName); d != nil {
		runs = c.Operator.Problem == "" && render.OperatorParams(d).Image == i.params.Image
	}
	if !c.ImageTrial.Asked() && (!changes || runs) {
		return nil
	}
	s := flows.Step{
		ID: ImageStep(side), Side: side, Action: flows.Wait, Title: "image", Status: flows.Waiting, Code: flows.CodeImage,
		Reason: "a node pulls " + i.params.Image + " first",
	}
	switch t, unknown := c.ImageTrial.Value(), c.ImageTrial.Unknown(); {
	case c.TriedImage() != i.params.Image:
		s.Asks = flows.AskImage{Side: side, Try: &trial.ImageTry{
			Image: i.params.Image, Pods: i.params.Pods.ForOperator(), Agents: i.params.Pods.ForFabric(), Kinds: kinds(c),
		}}
	case unknown != "":
		s.Status, s.Reason, s.Code = flows.Done, trial.NotTried+unknown, ""
	case t.Refused != "" && object(c, "Deployment", wire.OperatorName) != nil && strings.Contains(t.Refused, "exceeded quota"):
		s.Status, s.Reason, s.Code = flows.Done, trial.NotTried+t.Refused, "" // an upgrade has enough quota, because Kubernetes ends the running pods first
	case t.Failed != "" || t.Refused != "":
		s.Fail(flows.FailedPreflight, flows.CodeImage, t.Text(), t.Fix(c.Flags())...)
	default:
		s.Status, s.Reason, s.Code = flows.Done, t.Text(), ""
	}
	return []flows.Step{s}
}
