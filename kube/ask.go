package kube

import (
	"context"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// Ask implements [engine.Cluster].
func (c *Cluster) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	switch q := q.(type) {
	case flows.AskInstallation:
		found, err := c.Installation(ctx)
		return flows.Read(q, found), err
	case flows.AskDNS:
		found, err := c.dns(ctx)
		return flows.Read(q, found), err
	case flows.AskContents:
		found, err := c.Inspect(ctx, q.Tenant)
		return flows.Read(q, found), err
	case flows.AskDefinitions:
		found, err := c.unusableDefinitions(ctx)
		return flows.Read(q, found), err
	case flows.AskPolicies:
		found, err := c.Policies(ctx)
		return flows.Read(q, found), err
	case flows.AskServices:
		found, err := c.Services(ctx, q.Name)
		return flows.Read(q, found), err
	case flows.AskHistory:
		found, err := c.history(ctx, q.Gateway)
		return flows.Read(q, found), err
	case flows.AskOffers:
		found, err := c.offers(ctx)
		return flows.Read(q, found), err
	case flows.AskImage:
		return q.Reply(c.TryImage(ctx, *q.Try)), nil
	case flows.AskAPI:
		return q.Reply(c.AskAPI(ctx, q.URL)), nil
	}
	return nil, engine.ErrNoWay
}
