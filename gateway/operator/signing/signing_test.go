package signing

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
)

func TestAnotherAuthorityIsNews(t *testing.T) {
	file, change := lendingtest.AuthorityFile(t)
	a := Authority{Config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file}}}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	want := reconcile.Request{NamespacedName: types.NamespacedName{Name: "rome"}}
	var told atomic.Int32
	if err := a.News(time.Millisecond, func(context.Context) []reconcile.Request {
		told.Add(1)
		return []reconcile.Request{want}
	}).Start(ctx, q); err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, q.ShutDown)
	for n, text := range []string{"second", "third"} {
		change(text)
		if got, ended := q.Get(); ended || got != want {
			t.Fatalf("after the %s: %v, %t", text, got, ended)
		}
		q.Done(want)
		if got := told.Load(); got < int32(n+1) {
			t.Errorf("told %d times", got)
		}
	}
}
