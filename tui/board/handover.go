package board

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows/bundle"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// handoverMsg has the logs of both gateways, for the report that the admin gives to a colleague.
type handoverMsg logsMsg

// handOver reads the logs. After that, the report about the selected connection is written.
func (s Screen) handOver(e session.Env) tea.Cmd {
	read := s.readLogs(e, 0)
	if read == nil {
		return nil
	}
	e.Post(session.NoteMsg("Reading both gateways' logs for the report" + e.Theme.Ellipsis))
	return func() tea.Msg {
		if logs, ok := read().(logsMsg); ok {
			return handoverMsg(logs)
		}
		return nil
	}
}

// reportWidth is the width of a report's lines, reportHeight the height for its charts. Issue trackers
// show this much without scrolling.
const reportWidth, reportHeight = 100, 60

// saveReport writes all pages of a connection into one file, in Markdown, with the time of the
// observation.
func (s Screen) saveReport(e session.Env, msg handoverMsg) {
	p, ok := s.Board.Rows[msg.id]
	if !ok {
		e.Post(session.NoteMsg("The report was not written: nothing is left of the peering."))
		return
	}
	e.Width, e.Body, e.Height = reportWidth, reportHeight, 0 // without frames
	e.Keys = keys.Map{}                                      // nobody presses keys in a file
	s.logs, s.allChecks = logsMsg(msg), true
	results, _, _ := s.checked(e, p)
	v := p.together(s.Board.now)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\n%s\n\n", s.Board.names(p.ID), v.State, check.Headline(results))
	fmt.Fprintf(&b, "Written by liqo-tui at %s. Times are of that zone. Nothing here is newer, and no Secret is in it.\n", e.Now.Format(time.RFC3339))
	ofPeering := func(ev event) bool { return ev.id == p.ID }
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"Details", s.detailOf(e, p).lines(e.Width, e.Body)},
		{"Timeline", s.eventsText(e, []*peering{p}, ofPeering)},
		{"Diagnosis", s.diagnosisText(e, p)},
		{"Logs", strings.Split(bundle.Text(ansi.Strip(strings.Join(s.logText(e, p), "\n"))), "\n")},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n```\n", part.title)
		for _, line := range part.lines {
			b.WriteString(strings.TrimRight(ansi.Strip(line), " ") + "\n")
		}
		b.WriteString("```\n")
	}
	e.Post(session.SaveMsg{What: "report", Text: b.String(), Suffix: ".md"})
}
