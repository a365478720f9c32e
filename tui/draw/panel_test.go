package draw

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestAPanelHasTitleFrameAndCutLines(t *testing.T) {
	p := Panel{Title: "rome", Right: "a all", Lines: []string{"short", "a line that is too long", "日本日本日本日本日本"}}
	framed := NewTheme(false, false).Framed(100, 30)
	for name, test := range map[string]struct {
		theme  Theme
		height int
		want   []string
	}{
		"as high as its text": {framed, 0, []string{
			"╭─ rome ── a all ─╮", "│ short           │", "│ a line that is… │", "│ 日本日本日本日… │", "╰─────────────────╯",
		}},
		"too low": {framed, 4, []string{
			"╭─ rome ── a all ─╮", "│ short           │", "│ a line that is… │", "╰─── 1 more line ─╯",
		}},
		"higher": {framed, 6, []string{
			"╭─ rome ── a all ─╮", "│ short           │", "│ a line that is… │", "│ 日本日本日本日… │", "│                 │", "╰─────────────────╯",
		}},
		"one line": {framed, 1, []string{"╭─ rome ── a all ─╮"}},
		"without frames": {framed.Framed(99, 60), 0, []string{
			"── rome ── a all ──", "short              ", "a line that is too…", "日本日本日本日本日…",
		}},
		"without frames, too low": {framed.Framed(120, 29), 3, []string{
			"── rome ── a all ──", "short              ", "2 more lines       ",
		}},
		"in ASCII": {NewTheme(true, false).Framed(100, 30), 4, []string{
			"+- rome -- a all -+", "| short           |", "| a line that ... |", "+--- 1 more line -+",
		}},
	} {
		got := test.theme.Panel(p, 19, test.height)
		for i := range got {
			got[i] = ansi.Strip(got[i])
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// The state of a panel is seen from far away, and without colours, too.
func TestAPanelShowsWhatIsInside(t *testing.T) {
	theme := NewTheme(false, false).Framed(100, 30)
	for mark, want := range map[Mark]struct {
		edge  Style
		title string
	}{
		Pending: {theme.Faint, "╭─ milan ─"}, Running: {theme.Faint, "╭─ milan ─"}, OK: {theme.Faint, "╭─ milan ─"}, Unknown: {theme.Faint, "╭─ milan ─"},
		Blank: {theme.Faint, "╭─ milan ─"}, Warn: {theme.edges[Warn], "╭─ ! milan ─"}, Fail: {theme.edges[Fail], "╭─ ✗ milan ─"},
	} {
		got := theme.Panel(Panel{Title: "milan", Lines: []string{"x"}, Mark: mark}, 20, 0)
		if !strings.HasPrefix(ansi.Strip(got[0]), want.title) {
			t.Errorf("mark %d: got %q, want %q", mark, ansi.Strip(got[0]), want.title)
		}
		if side := want.edge.Render("│"); !strings.HasPrefix(got[1], side) || !strings.HasSuffix(got[1], side) {
			t.Errorf("mark %d: got %q, want %q at both ends", mark, got[1], side)
		}
	}
}

// No size makes a line of another width, or a panel of another height.
func TestAPanelKeepsToItsSize(t *testing.T) {
	p := Panel{Title: "日本 a title", Right: "note", Lines: []string{"日本語の長い行", "\x1b[1mbold\x1b[m and more", ""}, Mark: Fail}
	for _, ascii := range []bool{false, true} {
		for _, frames := range []int{0, 30} {
			theme := NewTheme(ascii, false).Framed(100, frames)
			for width := range 30 {
				for height := 1; height < 9; height++ {
					lines := theme.Panel(p, width, height)
					if len(lines) != height {
						t.Errorf("%dx%d: got %d lines", width, height, len(lines))
					}
					for _, line := range lines {
						if got := Cells(line); got != width {
							t.Errorf("%dx%d, frames %d: got %d cells: %q", width, height, frames, got, ansi.Strip(line))
						}
					}
				}
			}
		}
	}
}

// A fact stays in its row, whatever is known.
func TestATableHasARowForEachFact(t *testing.T) {
	theme := NewTheme(false, false)
	facts := []Fact{{"pods", "10.244.0.0/16"}, {"handshake", ""}, {"a long label of a fact", "名前"}}
	for width, want := range map[int]string{
		40: "pods        10.244.0.0/16\nhandshake   -\na long lab… 名前",
		18: "pods     10.244.0…\nhandsha… -\na long … 名前",
		4:  "… 1…\n… -\n… …",
	} {
		lines := theme.Table(facts, width)
		for _, line := range lines {
			if Cells(line) > width {
				t.Errorf("width %d: got %q", width, line)
			}
		}
		if got := ansi.Strip(strings.Join(lines, "\n")); got != want {
			t.Errorf("width %d: got\n%s\nwant\n%s", width, got, want)
		}
	}
}

func TestBlocksStandBesideEachOther(t *testing.T) {
	got := Join([]string{"ab", "cd", "ef"}, []string{"日本"}, nil, []string{"x", "y"})
	if want := []string{"ab日本x", "cd    y", "ef     "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The one red row is red also when it is selected.
func TestTheSelectedRowKeepsItsColours(t *testing.T) {
	theme := NewTheme(false, false)
	row := theme.Marks[Fail].Render("✗ down") + "  rome"
	if got := theme.Chosen(row); !strings.Contains(got, theme.Marks[Fail].on+"✗ down") || strings.Count(got, theme.tint.on) != 3 || ansi.Strip(got) != "┃ ✗ down  rome" {
		t.Errorf("got %q", got)
	}
	for name, few := range map[string]Theme{"16 colours": theme.Reversing(), "high contrast": theme.HighContrast(false)} {
		if got, want := few.Chosen(row), few.Cursor.Render("▸ ✗ down  rome"); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Lines that somebody copies from the terminal have no frame beside them, and stand where those of other panels do.
func TestAnOpenPanelHasNoSides(t *testing.T) {
	theme := NewTheme(false, false).Framed(100, 30)
	p := Panel{Title: "Checks", Lines: []string{"liqo-tui check", "more"}, Open: true}
	for height, want := range map[int][]string{
		0: {"── Checks ──────────", "  liqo-tui check", "  more", ""},
		3: {"── Checks ──────────", "  liqo-tui check", "         1 more line"},
	} {
		got := theme.Panel(p, 20, height)
		for i := range got {
			if Cells(got[i]) != 20 {
				t.Errorf("height %d: got %d cells: %q", height, Cells(got[i]), got[i])
			}
			got[i] = strings.TrimRight(ansi.Strip(got[i]), " ")
		}
		if !slices.Equal(got, want) {
			t.Errorf("height %d: got %q, want %q", height, got, want)
		}
	}
}

// A line in a frame ends with a clause. A clause that has no room in a line ends a line with a phrase. Nothing is cut.
func TestLinesOfPanelsEndWithClauses(t *testing.T) {
	theme := NewTheme(false, false).Framed(100, 30)
	for text, want := range map[string][]string{
		"paris: the peer's gateway has stopped answering pings through the tunnel, and nothing comes back": {
			"paris: the peer's gateway has stopped", "answering pings through the tunnel,", "and nothing comes back",
		},
		"Nothing works. Fix it first.":                      {"Nothing works. Fix it first."},
		"a clause of thirty cells here, and one of 20":      {"a clause of thirty cells here,", "and one of 20"},
		"switch them on: they are off":                      {"switch them on: they are off"},
		"one without any joints at all that has wordswords": {"one without any joints at all", "that has wordswords"},
	} {
		got := theme.Clauses(text, 37)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if strings.Join(got, " ") != text {
			t.Errorf("got %q of %q", got, text)
		}
	}
}

// A command that is longer than a line can be copied with its lines, and its sentence stands above it.
func TestCommandsOfAdviceCanBeCopied(t *testing.T) {
	theme := NewTheme(false, false).Framed(100, 30)
	run := command.Ours("network", "connect", "--context", "rome", "--remote-context", "milan")
	for name, test := range map[string]struct {
		h     command.Hint
		width int
		want  []string
	}{
		"long":    {command.Hintf("or let milan dial: %s", run), 40, []string{"or let milan dial:", "liqo-tui network connect \\", "--context rome --remote-context milan"}},
		"short":   {command.Hintf("look: %s; then wait", command.Ours("check")), 40, []string{"look: liqo-tui check", "then wait"}},
		"none":    {command.Text("see why"), 40, []string{"see why"}},
		"nothing": {command.Hint{}, 40, nil},
	} {
		got := theme.Advice(test.h.String(), test.h.Commands(), test.width)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// In ASCII, an arrow has two cells.
func TestTheNamesOfADirectedCheckHaveRoom(t *testing.T) {
	all := []check.Result{{Names: [2]wire.ClusterID{"rome", "milan"}, Sides: []flows.Side{flows.B, flows.A}, Directed: true}}
	for ascii, want := range map[bool]int{false: len("milan > rome"), true: len("milan -> rome")} {
		theme := NewTheme(ascii, false)
		if got := theme.PlacesCells(all, 20); got != want {
			t.Errorf("ASCII %t: got %d cells, want %d", ascii, got, want)
		}
		if got := theme.PlacesCells(all, 8); got != 8 {
			t.Errorf("ASCII %t: got %d cells, want the limit", ascii, got)
		}
	}
}
