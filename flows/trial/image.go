// Package trial says what short-lived pods have tried before anything was applied.
package trial

import (
	"fmt"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/render"
)

// ImageTry is an image that a node has to have before anything is made of it.
type ImageTry struct {
	Image string
	// Pods are what an admin asks of the pods that will run it: pull secrets, nodes.
	Pods render.PodSettings
}

// Image is what became of an [ImageTry]: a pod of the image started, or what keeps it
// from starting, or why nobody knows.
type Image struct {
	Image string
	Node  string        // that tried; "" if none did
	Took  time.Duration // until the pod started
	// Failed is the kubelet's own word; "" if the pod started, or that is not known.
	Failed string
	// Unknown is why it was not tried; "" if it was.
	Unknown string
}

// Text is what was found, in one sentence.
func (t Image) Text() string {
	switch {
	case t.Unknown != "":
		return "not tried: " + t.Unknown
	case t.Failed != "":
		return fmt.Sprintf("node %s can't run %s: %s", t.Node, t.Image, t.Failed)
	}
	return fmt.Sprintf("a pod of %s started on node %s within %s", t.Image, t.Node, t.Took.Round(100*time.Millisecond))
}

// Fix is what the admin can do about a trial that has failed, the likeliest first.
func (t Image) Fix() []string {
	if strings.Contains(t.Failed, "exec format error") {
		return []string{
			"build the image for the architecture of that node, too: make images packs amd64, arm64 and arm/v7",
			"or keep our pods on other nodes: liqo-tui install --pod-settings FILE, with a nodeSelector",
		}
	}
	return []string{
		"push the image to where the nodes can pull it, and name it: --image REGISTRY/liqo-gateway:TAG",
		"if the registry asks for a password: liqo-tui install --pod-settings FILE, with imagePullSecrets",
	}
}
