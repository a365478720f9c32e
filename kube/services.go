package kube

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Services reads the objects of one Service by name, or of all of them if name is zero. If a kind may not be
// read, this is no error, and its list has the reason. Nothing is watched, because few commands need these
// objects.
func (c *Cluster) Services(ctx context.Context, name types.NamespacedName) (f services.Found, err error) {
	in := client.InNamespace(name.Namespace) // "" means all namespaces
	merged := client.MatchingLabels{discoveryv1.LabelManagedBy: wire.ManagedBy}
	copies := client.MatchingLabels{discoveryv1.LabelManagedBy: wire.ManagedBy}
	if name.Name != "" {
		merged[mcsv1beta1.LabelServiceName] = name.Name
		copies[wire.LabelServiceNamespace], copies[wire.LabelServiceName] = name.Namespace, name.Name
	}
	slices := &discoveryv1.EndpointSliceList{}
	for _, read := range []func() error{
		func() error {
			return readList(c, &f.Exports, "serviceexports", func() error {
				return eachPage(ctx, c.client, &mcsv1beta1.ServiceExportList{}, func(l *mcsv1beta1.ServiceExportList) { addAll(&f, name, l.Items) }, in)
			})
		},
		func() error {
			return readList(c, &f.Imports, "serviceimports", func() error {
				return eachPage(ctx, c.client, &mcsv1beta1.ServiceImportList{}, func(l *mcsv1beta1.ServiceImportList) { addAll(&f, name, l.Items) }, in)
			})
		},
		func() error {
			return readList(c, &f.Slices, "endpointslices", func() error {
				return eachPage(ctx, c.client, slices, func(l *discoveryv1.EndpointSliceList) { addAll(&f, name, l.Items) }, in, merged, client.HasLabels{mcsv1beta1.LabelSourceCluster})
			})
		},
		func() error {
			return readList(c, &f.Copies, "endpointslices", func() error {
				return eachPage(ctx, c.client, slices, func(l *discoveryv1.EndpointSliceList) { addAll(&f, name, l.Items) }, copies, client.HasLabels{wire.LabelServiceName})
			})
		},
		func() error {
			if name.Name == "" {
				return nil
			}
			return readList(c, &f.Services, "services", func() error {
				for _, n := range []string{name.Name, services.DerivedName(name)} {
					var s corev1.Service
					if err := c.client.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: n}, &s); err == nil {
						f.Services.Items = append(f.Services.Items, s)
					} else if !apierrors.IsNotFound(err) {
						return err
					}
				}
				return nil
			})
		},
	} {
		if err := read(); err != nil {
			return f, err
		}
	}
	return f, nil
}

// offers reads the Services of all namespaces.
func (c *Cluster) offers(ctx context.Context) (all []corev1.Service, err error) {
	err = eachPage(ctx, c.client, &corev1.ServiceList{}, func(l *corev1.ServiceList) { all = append(all, l.Items...) })
	switch {
	case err == nil:
		return all, nil
	case apierrors.IsForbidden(err):
		return nil, errors.New("this user may not list Services of all namespaces")
	}
	return nil, fmt.Errorf("list services: %w", c.problem("list services", err))
}

// readList calls read, and notes its result in l. It returns an error only if the cluster can't be used.
func readList[T any](c *Cluster, l *services.List[T], resource string, read func() error) error {
	switch err := read(); {
	case err == nil:
		l.Read = true
	case apierrors.IsNotFound(err):
		l.Undefined, l.Unread = true, "the API server does not serve "+resource
	case apierrors.IsForbidden(err):
		l.Unread = "this user may not read " + resource
	default:
		return fmt.Errorf("list %s: %w", resource, c.problem("list "+resource, err))
	}
	return nil
}

// addAll adds objects to the lists to which they belong.
func addAll[T any, P interface {
	*T
	metav1.Object
}](f *services.Found, name types.NamespacedName, all []T) {
	for i := range all {
		f.Add(name, P(&all[i]))
	}
}
