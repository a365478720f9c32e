package engine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/trial"
)

// ImageTrier is a cluster that can have one of its nodes pull an image. It is an
// optional ability of a [Cluster].
type ImageTrier interface {
	// TryImage runs a pod of the image until it has started, or can't, or ctx ends, and
	// removes it. That nobody knows is a result, too.
	TryImage(ctx context.Context, try trial.ImageTry) trial.Image
}

// imageTimeout is longer than a node takes to pull some ten MB from a registry that is
// far away. A pull that takes longer holds nothing up: the installation waits for it, too.
const imageTimeout = time.Minute

// TryImages has the clusters pull the images that p wants to be tried, and adds to
// the facts what became of it. It reports whether there were any. It takes a minute at
// most, and no longer than timeout, if that is not 0.
func TryImages(ctx context.Context, p flows.Plan, f *flows.Facts, a, b Cluster, timeout time.Duration) (tried bool, err error) {
	limited, cancel := context.WithTimeout(ctx, min(imageTimeout, cmp.Or(timeout, imageTimeout)))
	defer cancel()
	var trying sync.WaitGroup
	for _, s := range p.Steps {
		if s.Try == nil {
			continue
		}
		tried = true
		facts := &f.Sides[s.Side]
		trier, ok := [2]Cluster{a, b}[s.Side].(ImageTrier)
		if !ok {
			facts.ImageTrial = &trial.Image{Image: s.Try.Image, Unknown: "this program can't run pods there"}
			continue
		}
		trying.Go(func() { facts.ImageTrial = new(trier.TryImage(limited, *s.Try)) })
	}
	trying.Wait()
	return tried, ctx.Err()
}

// APIAsker is a cluster of which a pod can ask another cluster's API server. It is an
// optional ability of a [Cluster].
type APIAsker interface {
	// AskAPI runs a pod that asks until there is an answer, or ctx ends, and removes it.
	// That nobody knows is a result, too.
	AskAPI(ctx context.Context, url string) trial.API
}

// apiTimeout is longer than a pod takes whose image is there, and three attempts of TCP
// to open a connection.
const apiTimeout = 15 * time.Second

// askAPIs has pods ask the API servers that p wants to be asked, and adds to the facts
// what became of it. It reports whether there were any.
func askAPIs(ctx context.Context, p flows.Plan, f *flows.Facts, clusters [2]Cluster) (asked bool, err error) {
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	for _, s := range p.Steps {
		if s.Asks == "" {
			continue
		}
		asked = true
		facts := &f.Sides[s.Side]
		if asker, ok := clusters[s.Side].(APIAsker); ok {
			facts.APITrial = new(asker.AskAPI(limited, s.Asks))
		} else {
			facts.APITrial = &trial.API{URL: s.Asks, Unknown: "this program can't run pods there"}
		}
	}
	return asked, ctx.Err()
}
