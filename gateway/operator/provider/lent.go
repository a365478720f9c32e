package provider

import (
	"context"
	"fmt"

	"github.com/liqo-tui/liqo-tui/render/peering"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lent remembers the grants of all slices. The cache may not have the last answer yet, and a list of all
// slices of a thousand consumers is 4 MB. So lent reads the list once while this replica leads, and notes
// each later answer. Only one worker uses it.
type lent struct {
	client client.Client
	reader client.Reader                   // not cached
	last   map[client.ObjectKey]lastAnswer // nil: not read yet, or outdated
}

type lastAnswer struct {
	uid     types.UID
	granted corev1.ResourceList
}

// say notes the grants of a slice that was just read from or written to the API server.
func (l *lent) say(s *authv1beta1.ResourceSlice) {
	if l.last != nil {
		l.last[client.ObjectKeyFromObject(s)] = lastAnswer{s.UID, s.Status.Resources.DeepCopy()}
	}
}

// failed drops all notes if the API server may have stored an answer although the write failed.
func (l *lent) failed(why error) {
	if !apierrors.IsConflict(why) && !apierrors.IsNotFound(why) {
		l.last = nil
	}
}

// others returns the slices of all consumers except s, with their present grants.
func (l *lent) others(ctx context.Context, s *authv1beta1.ResourceSlice) (out []authv1beta1.ResourceSlice, err error) {
	if l.last == nil {
		var all authv1beta1.ResourceSliceList
		if err := l.reader.List(ctx, &all); err != nil {
			return nil, fmt.Errorf("list ResourceSlices: %w", err)
		}
		l.last = map[client.ObjectKey]lastAnswer{}
		for i := range all.Items {
			l.say(&all.Items[i])
		}
	}
	l.say(s)
	var all authv1beta1.ResourceSliceList
	if err := l.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	unseen := make(map[client.ObjectKey]bool, len(l.last)) // noted, and not the same in the cache
	for key := range l.last {
		unseen[key] = true
	}
	count := func(o *authv1beta1.ResourceSlice) {
		if peering.FromConsumer(o) && (o.Namespace != s.Namespace || o.Name != s.Name) {
			out = append(out, *o)
		}
	}
	for i := range all.Items {
		o := &all.Items[i] // a copy; its pointers lead to the cache's objects
		key := client.ObjectKeyFromObject(o)
		if last, answered := l.last[key]; answered {
			if last.uid != o.UID {
				continue // the answer was for an older or newer slice of the same name
			}
			o.Status.Resources = last.granted
		}
		delete(unseen, key)
		count(o)
	}
	delete(unseen, client.ObjectKeyFromObject(s))
	for key := range unseen { // not in the cache yet, or deleted
		o := &authv1beta1.ResourceSlice{}
		switch err := l.reader.Get(ctx, key, o); {
		case apierrors.IsNotFound(err):
			delete(l.last, key)
		case err != nil:
			return nil, fmt.Errorf("read ResourceSlice %s: %w", key, err)
		default:
			l.say(o)
			count(o)
		}
	}
	return out, nil
}
