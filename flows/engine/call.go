package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/render"

	"k8s.io/apimachinery/pkg/types"
)

// CallTimeout is enough for the start of a pod and all its attempts.
const CallTimeout = 45 * time.Second

// CallService calls a Service that cluster A exports from a test pod of cluster B. It reads the way
// of the name, too. A Service that does not answer is a result; the error is that of ctx.
func CallService(ctx context.Context, name types.NamespacedName, a, b Cluster, now func() time.Time, progress func(string)) (service.Answer, error) {
	out := service.Answer{Name: name}
	look := func() (err error) {
		if out.Facts, err = Observe(ctx, a, b, now); err != nil {
			return err
		}
		answers, clusters := Answers{Now: now}, [2]Cluster{a, b}
		if err = answers.Ask(ctx, &out.Facts, clusters, service.Asks(name, flows.A, flows.B)...); err != nil {
			return err
		}
		return answers.AskAll(ctx, &out.Facts, clusters, func(f flows.Facts) []flows.Question { return service.AsksNames(f, flows.B) })
	}
	if err := look(); err != nil {
		return out, err
	}
	if out.Call, out.Not = service.Call(name, out.Facts); out.Not != "" {
		return out, nil
	}
	limited, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	r, err := call(limited, out.Facts, b, out.Call, progress)
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil:
		out.Not = err.Error()
		return out, nil
	case r.Problem == "":
		out.Result = r
		return out, nil
	}
	out.Result = r
	return out, look() // the reason may have come while the pod was trying
}

// call makes the request in a pod of cluster B.
func call(ctx context.Context, f flows.Facts, b Cluster, c render.ProbeCall, progress func(string)) (r render.ProbeCallResult, err error) {
	if flows.Verifiable(f) != nil {
		return r, errors.New("the clusters are not connected")
	}
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return r, err
	}
	p, err := startProbe(ctx, f, flows.B, b, ProbeRequest{Token: hex.EncodeToString(token[:])}, func(_ flows.Side, text string) { progress(text) })
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, removeProbes(ctx, [2]Probe{p})) }()
	progress("pod " + p.Pod().Name + " calls " + c.URL())
	result, err := p.Measure(ctx, render.ProbeTarget{Call: &c})
	if err == nil && result.Call == nil {
		err = errors.New("the image is of an older release, which can't call a Service")
	}
	if err != nil {
		return r, err
	}
	return *result.Call, nil
}
