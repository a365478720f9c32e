package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/contents"
	"github.com/liqo-tui/liqo-tui/render"
)

const (
	// inspectAtOnce is the largest number of requests at the same time, because a cluster serves a hundred
	// kinds and more.
	inspectAtOnce = 32
	inspectPage   = 500
)

// followers are kinds whose objects Kubernetes makes for other objects, or that only describe other objects.
var followers = []string{"Event", "Endpoints", "EndpointSlice"}

// Inspect lists the metadata of all objects in a namespace. If a kind can't be listed, the result is
// Unknown, and there is no error.
func (c *Cluster) Inspect(ctx context.Context, tenant render.Tenant) (flows.Contents, error) {
	kinds, missing, err := c.namespacedKinds(ctx)
	if err != nil {
		return flows.Contents{}, err
	}
	var mu sync.Mutex
	var all []contents.Object
	var g errgroup.Group
	g.SetLimit(inspectAtOnce)
	for _, kind := range kinds {
		g.Go(func() error {
			found, err := c.listMetadata(ctx, kind, tenant.Namespace)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
			switch {
			case err == nil || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
			case apierrors.IsForbidden(err):
				missing = append(missing, "you may not list "+kind.resource.GroupResource().String())
			default:
				missing = append(missing, err.Error())
			}
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
	if ctx.Err() != nil {
		return flows.Contents{}, ctx.Err()
	}
	slices.Sort(missing)
	contents := flows.Contents{Others: contents.Foreign(tenant, all)}
	if len(missing) > 0 {
		contents.Unknown = missing[0]
	}
	return contents, nil
}

type namespacedKind struct {
	resource schema.GroupVersionResource
	kind     string
}

// namespacedKinds returns the kinds that can be listed in a namespace, and a sentence for each API
// group whose kinds the API server can't list.
func (c *Cluster) namespacedKinds(ctx context.Context) (kinds []namespacedKind, missing []string, err error) {
	lists, err := c.discovery.ServerPreferredNamespacedResourcesWithContext(ctx)
	if len(lists) == 0 && err != nil {
		return nil, nil, fmt.Errorf("ask for the kinds that are served: %w", err)
	}
	if err != nil {
		missing = append(missing, err.Error())
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || strings.Contains(r.Name, "/") || slices.Contains(followers, r.Kind) || gv.Group == "metrics.k8s.io" {
				continue
			}
			kinds = append(kinds, namespacedKind{gv.WithResource(r.Name), r.Kind})
		}
	}
	return kinds, missing, nil
}

func (c *Cluster) listMetadata(ctx context.Context, of namespacedKind, namespace string) ([]contents.Object, error) {
	var out []contents.Object
	options := metav1.ListOptions{Limit: inspectPage}
	for {
		list, err := c.metadata.Resource(of.resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return out, err
		}
		for i := range list.Items {
			out = append(out, contents.Object{Group: of.resource.Group, Kind: of.kind, Object: &list.Items[i]})
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}
