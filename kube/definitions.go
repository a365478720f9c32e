package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// definitionsAgain is how long an observation uses the definitions that it has read. They are not
// watched: a watch would bring all definitions of the cluster, which are megabytes.
const definitionsAgain = 5 * time.Second

// definitions has other programs' definitions, and the time at which they were read.
type definitions struct {
	mu   sync.Mutex
	at   time.Time
	last []flows.DefinitionFacts
}

// addDefinitions finds the definitions that an installation would find on the cluster.
func (c *Cluster) addDefinitions(ctx context.Context, f *flows.ClusterFacts) {
	if f.Problem != nil || f.Can().Connect {
		return
	}
	c.definitions.mu.Lock()
	defer c.definitions.mu.Unlock()
	if time.Since(c.definitions.at) >= definitionsAgain {
		found, err := c.othersDefinitions(ctx)
		if err != nil && !apierrors.IsForbidden(err) {
			return // the installation reads them again, and reports the error
		}
		c.definitions.last, c.definitions.at = found, time.Now()
		if err != nil {
			c.definitions.at = c.definitions.at.Add(askAgain - definitionsAgain)
		}
		if install.UnusableDefinition(flows.A, *f, found) != nil {
			// The admin may repair the definition, and waits to see the effect.
			time.AfterFunc(definitionsAgain, c.notify)
		}
	}
	f.Definitions = c.definitions.last
}

// othersDefinitions returns the definitions of Liqo's kinds that belong to another program.
func (c *Cluster) othersDefinitions(ctx context.Context) ([]flows.DefinitionFacts, error) {
	wanted, err := render.CRDs()
	if err != nil {
		return nil, err
	}
	found := make([]flows.DefinitionFacts, len(wanted))
	g, ctx := errgroup.WithContext(ctx)
	for i, w := range wanted {
		g.Go(func() error {
			d, err := c.othersDefinition(ctx, w.(*apiextensionsv1.CustomResourceDefinition))
			if d != nil {
				found[i] = *d
			}
			return err
		})
	}
	err = g.Wait()
	return slices.DeleteFunc(found, func(d flows.DefinitionFacts) bool { return d.Name == "" }), err
}

// othersDefinition returns another program's definition in place of the wanted one; nil if there
// is none, or if it is ours.
func (c *Cluster) othersDefinition(ctx context.Context, wanted *apiextensionsv1.CustomResourceDefinition) (*flows.DefinitionFacts, error) {
	var live apiextensionsv1.CustomResourceDefinition
	err := c.client.Get(ctx, client.ObjectKeyFromObject(wanted), &live)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none: that is the answer
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", apply.Name(wanted), err)
	}
	return install.OthersDefinition(&live, wanted), nil
}
