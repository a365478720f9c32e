// Package trial has the results of short-lived test pods that run before a plan changes anything.
package trial

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/render"
)

// ImageTry is an image that nodes must be able to run before an installation uses it.
type ImageTry struct {
	Image string
	// Pods has an admin's settings for the operator's pod, such as pull secrets and nodes. Agents has
	// the settings for the pods that run on every node.
	Pods, Agents render.PodSettings
	// Kinds has the nodes that will run the image, by architecture.
	Kinds []Kind
}

// Kind has the nodes of one architecture, because an image usually runs on some architectures only.
type Kind struct {
	Arch  string
	Nodes []string
}

// Each returns the settings of the pods that try the image: one pod has the operator's settings. If
// there are several kinds of nodes, there is one more pod for each kind that gets an agent.
func (t ImageTry) Each() []render.PodSettings {
	all := []render.PodSettings{t.Pods}
	if len(t.Kinds) < 2 {
		return all
	}
	for _, k := range t.Kinds {
		s := t.Agents
		if only := s.NodeSelector[corev1.LabelArchStable]; only != "" && only != k.Arch {
			continue
		}
		s.NodeSelector = maps.Clone(s.NodeSelector)
		if s.NodeSelector == nil {
			s.NodeSelector = map[string]string{}
		}
		s.NodeSelector[corev1.LabelArchStable] = k.Arch
		s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // agents tolerate every taint, too
		all = append(all, s)
	}
	return all
}

// Image is the result of an [ImageTry]: the image has started, or has failed, or the result is unknown.
type Image struct {
	Image string
	Node  string        // the node that tried, or several separated by commas; "" if none tried
	Took  time.Duration // until the pods started
	// Failed is the kubelet's message; "" if the pods started, or if this is unknown.
	Failed string
	// Unknown is the reason that the image was not tried; "" if it was tried.
	Unknown string
	// Refused is the API server's answer if the installation's namespace admits no such pod; "" if it
	// does, or if the namespace does not exist yet.
	Refused string
	// Untried names the other nodes that need the image and did not try it; "" if there are none.
	Untried string
}

// Joined joins the results of several pods. If one pod fails, its result is the result of all, because
// its node could run no part of the installation.
func (t ImageTry) Joined(all []Image) Image {
	out := Image{Image: t.Image}
	var started, unknown []string
	for _, i := range all {
		out.Took = max(out.Took, i.Took)
		switch {
		case i.Failed != "" && out.Failed == "":
			out.Node, out.Failed = i.Node, i.Failed
		case i.Failed != "":
		case i.Refused != "":
			out.Refused = i.Refused
		case i.Unknown != "":
			unknown = append(unknown, i.Unknown)
		case !slices.Contains(started, i.Node):
			started = append(started, i.Node)
		}
	}
	switch {
	case out.Failed != "":
		out.Refused = ""
	case out.Refused != "":
	case len(started) == 0 && len(unknown) > 0:
		out.Unknown = unknown[0]
	default:
		out.Node, out.Untried = strings.Join(started, ", "), t.untried(started, unknown)
	}
	return out
}

// untried names the nodes that did not try. Nodes of a kind without a successful trial come first, with
// the reason.
func (t ImageTry) untried(started, unknown []string) string {
	var other, same []string
	for _, k := range t.Kinds {
		if slices.ContainsFunc(k.Nodes, func(n string) bool { return slices.Contains(started, n) }) {
			same = append(same, k.Nodes...)
		} else {
			other = append(other, k.Nodes...)
		}
	}
	if len(other) > 0 {
		text := some(other)
		if len(unknown) > 0 {
			text += ": " + unknown[0]
		}
		return text
	}
	return some(slices.DeleteFunc(same, func(n string) bool { return slices.Contains(started, n) }))
}

func some(nodes []string) string {
	if len(nodes) > 1 {
		return fmt.Sprintf("%d more nodes, such as %s", len(nodes), nodes[0])
	}
	return strings.Join(nodes, "")
}

// NotTried is the beginning of a text that says why the result is unknown.
const NotTried = "not tried: "

// Text returns the result in one sentence.
func (t Image) Text() string {
	switch {
	case t.Unknown != "":
		return NotTried + t.Unknown
	case t.Refused != "":
		return "the API server refuses a pod like ours: " + t.Refused
	case t.Failed != "":
		what := fmt.Sprintf("node %s can't run %s", t.Node, t.Image)
		if name := causeOf(t.Failed, command.Cluster{}).name; name != "" {
			what += ", " + name
		}
		return what + ": " + t.Failed
	}
	text := fmt.Sprintf("a pod of %s started on node %s within %s", t.Image, t.Node, t.Took.Round(100*time.Millisecond))
	if t.Untried != "" {
		text += "; not tried on " + t.Untried
	}
	return text
}

// Fix returns the advice after a failed trial, the most likely first.
func (t Image) Fix(on command.Cluster) []command.Hint {
	if t.Refused != "" {
		return []command.Hint{
			command.Text("change the quota, LimitRange or policy that the message names, or ask the admin who set it"),
			command.Hintf("or give our pods what it asks for: %s", podSettings(on, "resources, a priorityClassName or labels")),
		}
	}
	return causeOf(t.Failed, on).fix
}
