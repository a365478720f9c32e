package wizard

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Messages about the address at which pods of A reach something on B.
type (
	askAddress  struct{}       // asks the admin for the target
	findAddress address.Target // looks the target up on the clusters
	addressMsg  struct {
		answer address.Answer
		err    error
	}
)

const addressTimeout = 10 * time.Second

func (c scene) askAddress() {
	c.Post(session.PromptMsg{
		Title:   "Which pod or Service of " + string(c.id(flows.B)) + "?",
		Explain: "Type pod/NAME, service/NAME or an IP address, and -n NAMESPACE if it is not default. You see the address at which pods of " + string(c.id(flows.A)) + " call it. Nothing is sent to it.",
		Submit: func(text string) (_ tea.Msg, problem string) {
			words, namespace := strings.Fields(text), "default"
			if len(words) == 3 && words[1] == "-n" {
				words, namespace = words[:1], words[2]
			}
			t, err := address.Parse(strings.Join(words, " "), namespace)
			if err != nil {
				return nil, err.Error()
			}
			return findAddress(t), ""
		},
	})
}

func (c scene) findAddress(t address.Target) tea.Cmd {
	a, b := c.on(flows.A).Cluster, c.on(flows.B).Cluster
	if a == nil || b == nil {
		c.Post(session.NoteMsg("A cluster does not answer, so no address is known."))
		return nil
	}
	parent, now := c.Ctx, c.Clock
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(parent, addressTimeout)
		defer cancel()
		answer, _, err := engine.AddressOf(ctx, a, b, t, now)
		return addressMsg{answer, err}
	}
}

// showAddress shows the result as a note.
func (c scene) showAddress(msg addressMsg) {
	if msg.err != nil {
		c.Post(session.NoteMsg(msg.err.Error()))
		return
	}
	var lines []string
	for _, line := range msg.answer.Lines() {
		lines = append(lines, strings.TrimSuffix(strings.Join(strings.Fields(line), " "), "."))
	}
	c.Post(session.NoteMsg(lines[0] + " " + strings.Join(lines[1:], ". ") + "."))
}
