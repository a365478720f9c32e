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
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// definitionsAgain is the time for which observations use the definitions that were read. They are not
// watched, because a watch would bring all definitions of the cluster, which are megabytes.
const definitionsAgain = 5 * time.Second

// definitions holds the definitions of other programs, and the time at which they were read.
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
			// The admin may repair the definition, and wait for the effect.
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
	return c.judgeDefinitions(ctx, wanted, install.OthersDefinition)
}

// unusableDefinitions returns the definitions that our programs can't use, no matter who has made them.
func (c *Cluster) unusableDefinitions(ctx context.Context) ([]flows.DefinitionFacts, error) {
	wanted, err := render.AllCRDs()
	if err != nil {
		return nil, err
	}
	return c.judgeDefinitions(ctx, wanted, install.UnfitDefinition)
}

// judge returns the problem of a live definition that replaces the wanted one; nil if there is none.
type judge func(live, wanted *apiextensionsv1.CustomResourceDefinition) *flows.DefinitionFacts

// judgeDefinitions reads the existing definitions, several at the same time.
func (c *Cluster) judgeDefinitions(ctx context.Context, wanted []wire.Object, of judge) ([]flows.DefinitionFacts, error) {
	found := make([]flows.DefinitionFacts, len(wanted))
	g, ctx := errgroup.WithContext(ctx)
	for i, w := range wanted {
		g.Go(func() error {
			var live apiextensionsv1.CustomResourceDefinition
			err := c.client.Get(ctx, client.ObjectKeyFromObject(w), &live)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("read %s: %w", apply.Name(w), err)
			}
			if wanted, ok := w.(*apiextensionsv1.CustomResourceDefinition); ok && err == nil {
				if d := of(&live, wanted); d != nil {
					found[i] = *d
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(found, func(d flows.DefinitionFacts) bool { return d.Name == "" }), err
}
