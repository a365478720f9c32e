package accessible

import (
	"context"
	"errors"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/service"
)

// none is the answer that chooses no Service.
const none = "none"

// reach is the last question: it exports a Service that the admin chooses, and calls it from the other cluster.
// The end of the input is an answer here, because the clusters are connected.
func (w *wizard) reach(ctx context.Context) error {
	if err := w.lookAgain(ctx); err != nil {
		return err
	}
	f, clusters := w.facts(), [2]engine.Cluster{w.sides[flows.A].open, w.sides[flows.B].open}
	if both, why, fix := service.Exchange(f); !both {
		if why != "" {
			w.say("%s", why)
		}
		for _, hint := range fix {
			w.say("To do: %s", hint)
		}
		return nil
	}
	answers := engine.Answers{Now: w.options.Now}
	if err := answers.Ask(ctx, &f, clusters, service.AskOffers()...); err != nil {
		return err
	}
	for _, text := range service.Unlisted(f) {
		w.say("Not known: %s.", strings.TrimSuffix(text.String(), "."))
	}
	offers, left := service.Offers(f)
	if len(offers) == 0 {
		w.say("No Service can be exported.")
	} else {
		w.say("Reach something? These Services can be exported, so that pods of the other cluster can call them:")
	}
	for i, o := range offers {
		text := ""
		if o.Exported {
			text += ", exported already"
		}
		if o.Missing != "" {
			text += ", " + o.Missing
		}
		w.say("%d: %s of %s%s.", i+1, o.Name, w.id(o.Side), text)
	}
	for _, text := range left {
		w.say("%s", text)
	}
	if len(offers) == 0 {
		return nil
	}
	number, _, err := w.choose(ctx, "Service", len(offers), none)
	switch {
	case errors.Is(err, ErrLeft), errors.Is(err, ErrNoAnswer), err == nil && number == 0:
		return nil
	case err != nil:
		return err
	}
	return w.export(ctx, offers[number-1])
}

// export exports the Service, and says what the first request to it has shown.
func (w *wizard) export(ctx context.Context, o service.Offer) error {
	x := &wizard{prompter: w.prompter, options: w.options, sides: w.sides, exports: &service.ExportParams{Name: o.Name}}
	if o.Side == flows.B { // cluster A of such a plan is the one that exports
		x.sides[flows.A], x.sides[flows.B] = w.sides[flows.B], w.sides[flows.A]
	}
	from, to := x.sides[flows.A], x.sides[flows.B]
	back := from.facts.Ours("service", "unexport", o.Name.String())
	switch err := x.runOnce(ctx); {
	case errors.Is(err, engine.ErrDeclined), errors.Is(err, ErrNoAnswer):
		w.say("Nothing is exported.")
		return nil
	case err != nil:
		if x.sayCause(err); x.changed {
			w.say("What was applied stays. To take it back: %s", back)
		} else {
			w.say("Nothing was changed.")
		}
		return err
	}
	w.say("Calling it from a pod of %s, for %d seconds at most.", x.id(flows.B), int(engine.CallTimeout.Seconds()))
	answer, err := engine.CallService(ctx, o.Name, from.open, to.open, w.options.Now, func(string) {})
	if err != nil {
		return err
	}
	text, next := service.Exported(*x.exports, answer.Facts)
	for line := range strings.Lines(text) {
		w.say("%s", strings.TrimSpace(line))
	}
	for _, line := range answer.Lines() {
		w.say("%s", line)
	}
	for _, fix := range next {
		w.say("To do: %s", fix)
	}
	w.say("To take the export back: %s", back)
	return nil
}
