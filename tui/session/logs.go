package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

const (
	// logLines is the number of lines that are read from a gateway's log.
	logLines = 200
	// LogInterval is how often the log is read while it is shown.
	LogInterval = 3 * time.Second
	// logTimeout limits one reading.
	logTimeout = 10 * time.Second
)

// Gateway is one end of a connection whose log is read.
type Gateway struct {
	ID      wire.ClusterID
	Cluster engine.Cluster  // nil if it was never reached
	Pod     *flows.PodFacts // nil if there is none
	Absent  string          // the reason that the end is unknown; "" if it is known
}

// Logs has the logs of both gateways of a connection, if they can be read.
type Logs struct {
	Texts [2]string
	Errs  [2]error
}

// ReadLogs reads the logs, in a command. It first waits for after, unless this is 0. ok is
// false when ctx has ended.
func ReadLogs(ctx context.Context, after time.Duration, gateways [2]Gateway) (logs Logs, ok bool) {
	if after > 0 && !sleep.For(ctx, after) {
		return logs, false
	}
	bounded, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	done := make(chan struct{})
	for i, g := range gateways {
		go func() {
			defer func() { done <- struct{}{} }()
			if g.Pod != nil {
				logs.Texts[i], logs.Errs[i] = logOf(bounded, g.Cluster, *g.Pod)
			}
		}()
	}
	<-done
	<-done
	return logs, true
}

// Reasons for an unreadable log that are no refusal by the API server.
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

// Lines returns the lines of both gateways, by time, below a line that names the gateways.
func (l Logs) Lines(t draw.Theme, width int, gateways [2]Gateway) []string {
	type entry struct {
		at    time.Time
		lines []string
	}
	var heads []string
	var all []entry
	column := 0
	for _, g := range gateways {
		column = max(column, min(draw.Cells(string(g.ID)), width/6)) //nolint:mnd // the text needs the room
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		g := gateways[side]
		head := t.Title.Render(t.Side(side, string(g.ID), 0))
		switch {
		case g.Absent != "":
			heads = append(heads, head+"  "+g.Absent)
			continue
		case g.Pod == nil:
			heads = append(heads, head+"  has no gateway's pod")
			continue
		}
		heads = append(heads, head+"  pod "+t.Plain(g.Pod.Name))
		switch {
		case l.Errs[side] != nil:
			heads = append(heads, t.Wrap("can't be read: "+l.Errs[side].Error(), width, 0)...)
		case l.Texts[side] == "":
			heads = append(heads, "has written nothing")
		}
		var at time.Time
		for line := range strings.Lines(l.Texts[side]) {
			text, when, timed := logLine(strings.TrimRight(line, "\n"))
			if timed {
				at = when // a line without a time belongs to the line before it
			}
			lines := t.Wrap(text, width-column-1, 2)
			for i := range lines {
				lines[i] = t.Side(side, draw.Pad(t.Middle(string(g.ID), column), column), 0) + " " + levelled(t, text, lines[i])
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

// levelled returns a line of a text in the colour of its level.
func levelled(t draw.Theme, text, line string) string {
	switch {
	case strings.Contains(text, " ERROR "):
		return t.Marks[draw.Fail].Render(line)
	case strings.Contains(text, " WARN "):
		return t.Marks[draw.Warn].Render(line)
	}
	return line
}

// logLine returns a line in a readable form. If the line is JSON, as our gateways write it,
// this is the time, the level, the message, and then all other fields. Other lines don't
// change. ok is false for a line without a time.
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
