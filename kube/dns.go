package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/names"
)

// dns reads the objects that show which DNS the cluster has.
func (c *Cluster) dns(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, s := range names.Sources {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(s.Kind)
		err := c.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace(), Name: s.Name}, o)
		if err == nil {
			found = append(found, o)
		}
		if err := c.unlessMissing("read "+s.Kind.Kind+" "+s.Name, err); err != nil {
			return nil, err
		}
	}
	return found, nil
}
