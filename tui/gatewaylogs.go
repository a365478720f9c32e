package tui

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
)

const (
	// logLines is how far back the log of a gateway is read.
	logLines = 200
	// logInterval is how often, while it is looked at.
	logInterval = 3 * time.Second
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
func (m Model) readLogs(after time.Duration) tea.Cmd {
	p := m.subject()
	if p == nil {
		return nil
	}
	var clusters [2]flows.Cluster
	var pods [2]*flows.PodFacts
	for i, e := range p.ends {
		if e.chosen {
			b := m.dashboard.board
			clusters[i] = m.fleet.member(b.sources[b.owner[e.id]].ref).cluster
			pods[i] = m.objectsOf(p, flows.Side(i)).Pod
		}
	}
	ctx, msg := m.ctx, logsMsg{id: p.id}
	return func() tea.Msg {
		if after > 0 && !pause(ctx, after) {
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
	errNoLogs  = errors.New("this program has no way to the logs of this cluster")
)

func logOf(ctx context.Context, c flows.Cluster, pod flows.PodFacts) (string, error) {
	if c == nil {
		return "", errNotOpen
	}
	logger, ok := c.(flows.Logger)
	if !ok {
		return "", errNoLogs
	}
	return logger.Logs(ctx, pod, logLines)
}

// updateLogs shows logs, and reads them again as long as they are looked at.
func (m Model) updateLogs(msg logsMsg) (Model, tea.Cmd) {
	p := m.subject()
	if m.screen != screenDetail || m.dashboard.page != pageLogs || p == nil || p.id != msg.id {
		return m, nil
	}
	if m.dashboard.paused.IsZero() || m.dashboard.logs.id != p.id {
		m.dashboard.logs = msg
	}
	return m.renewPage(), m.readLogs(logInterval)
}

func (m Model) logText(p *peering, msg logsMsg) []string {
	t := m.theme
	var lines []string
	for _, s := range []flows.Side{flows.A, flows.B} {
		peer := m.objectsOf(p, s)
		head := t.title.Render(t.side(s, string(p.ends[s].id), 0))
		switch {
		case peer == nil:
			lines = append(lines, head+"  not among the contexts")
		case peer.Pod == nil:
			lines = append(lines, head+"  has no gateway's pod")
		case msg.errs[s] != nil:
			lines = append(lines, head+"  pod "+t.plain(peer.Pod.Name))
			lines = append(lines, t.wrap("can't be read: "+msg.errs[s].Error(), m.width, 0)...)
		default:
			lines = append(lines, head+"  pod "+t.plain(peer.Pod.Name))
			if msg.texts[s] == "" {
				lines = append(lines, "has written nothing")
			}
			for line := range strings.Lines(msg.texts[s]) {
				lines = append(lines, t.wrap(logLine(strings.TrimRight(line, "\n")), m.width, 2)...)
			}
		}
		lines = append(lines, "")
	}
	return lines
}

// logLine is a line as a person reads it: of one that is JSON, as our gateways
// write, the time, the level and the message, and then whatever else it says. Any
// other stays as it is.
func logLine(line string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		return line
	}
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(fields["time"]))
	message, ok := fields["msg"].(string)
	if err != nil || !ok {
		return line
	}
	words := []string{at.Format(time.TimeOnly), fmt.Sprint(fields["level"]), message}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "time" && name != "level" && name != "msg" {
			words = append(words, fmt.Sprintf("%s=%v", name, fields[name]))
		}
	}
	return strings.Join(words, " ")
}
