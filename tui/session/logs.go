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
	// logLines is how far back the log of a gateway is read.
	logLines = 200
	// LogInterval is how often, while it is looked at.
	LogInterval = 3 * time.Second
	// logTimeout bounds one reading.
	logTimeout = 10 * time.Second
)

// Gateway is one end of a connection, whose log is read.
type Gateway struct {
	ID      wire.ClusterID
	Cluster engine.Cluster  // nil while it has not been reached
	Pod     *flows.PodFacts // nil while there is none
	Absent  string          // why nothing is known of the end; "" where something is
}

// Logs are those of both gateways of a connection, as far as they can be read.
type Logs struct {
	Texts [2]string
	Errs  [2]error
}

// ReadLogs is for commands; it waits first, unless after is 0. ok is false when ctx has ended.
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

// Lines are what both gateways have written, by time, below whose logs these are.
func (l Logs) Lines(t draw.Theme, width int, gateways [2]Gateway) []string {
	type entry struct {
		at    time.Time
		lines []string
	}
	var heads []string
	var all []entry
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
				at = when // a line without a time belongs to the one before
			}
			lines := t.Wrap(text, width-2, 2)
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
