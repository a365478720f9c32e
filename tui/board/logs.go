package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

const (
	// logLines is how far back the log of a gateway is read.
	logLines = 200
	// LogInterval is how often, while it is looked at.
	LogInterval = 3 * time.Second
	// logTimeout bounds one reading.
	logTimeout = 10 * time.Second
)

// logsMsg is the log of both gateways of a peering, as far as they can be read.
type logsMsg struct {
	id    pairID
	texts [2]string
	errs  [2]error
}

// readLogs is a command; after waits first, unless it is 0.
func (s Screen) readLogs(e session.Env, after time.Duration) tea.Cmd {
	p := s.Subject()
	if p == nil {
		return nil
	}
	var clusters [2]engine.Cluster
	var pods [2]*flows.PodFacts
	for i, end := range p.ends {
		if end.Chosen {
			clusters[i] = e.Fleet.Member(s.Board.speaker(end.ID)).Cluster
			pods[i] = s.objectsOf(e, p, flows.Side(i)).Pod
		}
	}
	ctx, msg := e.Ctx, logsMsg{id: p.ID}
	return func() tea.Msg {
		if after > 0 && !sleep.For(ctx, after) {
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, logTimeout)
		defer cancel()
		done := make(chan struct{})
		for i := range clusters {
			go func() {
				defer func() { done <- struct{}{} }()
				if pods[i] != nil {
					msg.texts[i], msg.errs[i] = logOf(bounded, clusters[i], *pods[i])
				}
			}()
		}
		<-done
		<-done
		return msg
	}
}

// Why a log can't be read that nobody has refused.
var (
	errNotOpen = errors.New("the cluster has not been reached yet")
	errNoLogs  = errors.New("the logs of this cluster are not available here")
)

func logOf(ctx context.Context, c engine.Cluster, pod flows.PodFacts) (string, error) {
	if c == nil {
		return "", errNotOpen
	}
	logger, ok := c.(engine.Logger)
	if !ok {
		return "", errNoLogs
	}
	return logger.Logs(ctx, pod, logLines)
}

// updateLogs shows logs, and reads them again as long as they are looked at.
func (s Screen) updateLogs(e session.Env, msg logsMsg) (Screen, tea.Cmd) {
	p := s.Subject()
	if !s.Detail || s.page != pageLogs || p == nil || p.ID != msg.id {
		return s, nil
	}
	if s.paused.IsZero() || s.logs.id != p.ID {
		s.logs = msg
	}
	return s.renewPage(e), s.readLogs(e, LogInterval)
}

// logText is what both gateways have written, by time, below whose logs these are.
func (s Screen) logText(e session.Env, p *peering) []string {
	t, msg := e.Theme, s.logs
	type entry struct {
		at    time.Time
		lines []string
	}
	var heads []string
	var all []entry
	for _, side := range []flows.Side{flows.A, flows.B} {
		peer := s.objectsOf(e, p, side)
		head := t.Title.Render(t.Side(side, string(p.ends[side].ID), 0))
		switch {
		case peer == nil:
			heads = append(heads, head+"  "+s.Board.absence())
			continue
		case peer.Pod == nil:
			heads = append(heads, head+"  has no gateway's pod")
			continue
		}
		heads = append(heads, head+"  pod "+t.Plain(peer.Pod.Name))
		switch {
		case msg.errs[side] != nil:
			heads = append(heads, t.Wrap("can't be read: "+msg.errs[side].Error(), e.Width, 0)...)
		case msg.texts[side] == "":
			heads = append(heads, "has written nothing")
		}
		var at time.Time
		for line := range strings.Lines(msg.texts[side]) {
			text, when, timed := logLine(strings.TrimRight(line, "\n"))
			if timed {
				at = when // a line without a time belongs to the one before
			}
			lines := t.Wrap(text, e.Width-2, 2)
			for i := range lines {
				lines[i] = t.Sides[side].Render(side.String()) + " " + lines[i]
			}
			all = append(all, entry{at, lines})
		}
	}
	slices.SortStableFunc(all, func(x, y entry) int { return x.at.Compare(y.at) })
	lines := append(heads, "")
	for _, entry := range all {
		lines = append(lines, entry.lines...)
	}
	return lines
}

// logLine is a line as a person reads it: of one that is JSON, as our gateways
// write, the time, the level and the message, and then whatever else it says. Any
// other stays as it is. ok is false for a line without a time.
func logLine(line string) (text string, at time.Time, ok bool) {
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		return line, at, false
	}
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(fields["time"]))
	message, ok := fields["msg"].(string)
	if err != nil || !ok {
		return line, at, err == nil
	}
	words := []string{at.Format(time.TimeOnly), fmt.Sprint(fields["level"]), message}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "time" && name != "level" && name != "msg" {
			words = append(words, fmt.Sprintf("%s=%v", name, fields[name]))
		}
	}
	return strings.Join(words, " "), at, true
}
