package tui

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// still shows one view until it has been drawn.
type still struct{ view tea.View }

func (still) Init() tea.Cmd                         { return tea.Quit }
func (s still) Update(tea.Msg) (tea.Model, tea.Cmd) { return s, nil }
func (s still) View() tea.View                      { return s.view }

// emulate has Bubble Tea draw a view on an emulated terminal, as it is before
// the program ends.
func emulate(t testing.TB, view tea.View, width, height int, profile colorprofile.Profile) *vt.Emulator {
	t.Helper()
	var out bytes.Buffer
	program := tea.NewProgram(
		still{view}, tea.WithInput(nil), tea.WithOutput(&out), tea.WithWindowSize(width, height), tea.WithColorProfile(profile),
		tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithoutSignalHandler(), tea.WithContext(t.Context()),
	)
	if _, err := program.Run(); err != nil {
		t.Fatal(err)
	}
	drawn, _, ok := bytes.Cut(out.Bytes(), []byte(ansi.ResetModeAltScreenSaveCursor))
	if !ok {
		t.Fatalf("the program does not leave the alternate screen: %q", out.String())
	}
	e := vt.NewEmulator(width, height)
	answers := make(chan struct{})
	go func() { // a terminal answers questions; nobody listens here
		defer close(answers)
		_, _ = io.Copy(io.Discard, e)
	}()
	defer func() { _ = e.Close(); <-answers }()
	// Without input Bubble Tea leaves the terminal as it is, and that makes a
	// carriage return of each newline, too.
	if _, err := e.Write(bytes.ReplaceAll(drawn, []byte("\n"), []byte("\r\n"))); err != nil {
		t.Fatal(err)
	}
	return e
}

// lines are the text of an emulated screen, without spaces at the ends.
func lines(e *vt.Emulator) []string {
	all := make([]string, e.Height())
	for y := range all {
		var b strings.Builder
		for x := 0; x < e.Width(); {
			cell := e.CellAt(x, y)
			if cell == nil || cell.Width == 0 {
				b.WriteByte(' ')
				x++
				continue
			}
			b.WriteString(cell.Content)
			x += cell.Width
		}
		all[y] = strings.TrimRight(b.String(), " ")
	}
	return all
}

// styled is an emulated screen as text with escape sequences: cat shows it.
func styled(e *vt.Emulator) string {
	var b strings.Builder
	for line := range strings.SplitSeq(e.Render(), "\n") {
		b.WriteString(strings.TrimRight(line, " \r") + "\n")
	}
	return b.String()
}

// screens draws a model at every size: as text, and in colour. What it checks of
// each is that nothing is wider than the terminal and nothing is missing, that
// without colours the same is said with the same emphasis, and that in ASCII
// there is nothing else.
func screens(t testing.TB, at func(width, height int) Model, ascii bool) (plain, coloured string) {
	t.Helper()
	var text, colours strings.Builder
	for _, size := range everySize {
		width, height := size[0], size[1]
		view := at(width, height).View()
		checkFits(t, view.Content, width, height)
		colour := emulate(t, view, width, height, colorprofile.TrueColor)
		grey := emulate(t, view, width, height, colorprofile.ASCII) // what NO_COLOR leaves
		got, want := lines(colour), textOf(view.Content, height)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%v: the terminal shows\n%s\nwant\n%s", size, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if width >= minWidth && strings.Count(view.Content, "\n")+1 != height {
			t.Errorf("%v: got %d lines, want all", size, strings.Count(view.Content, "\n")+1)
		}
		checkGrey(t, colour, grey)
		shown := strings.Join(got, "\n")
		if ascii && strings.ContainsFunc(shown, func(r rune) bool { return r >= 0x80 }) {
			t.Errorf("%v: more than ASCII:\n%s", size, shown)
		}
		fmt.Fprintf(&text, "%dx%d\n%s\n\n", width, height, shown)
		fmt.Fprintf(&colours, "%dx%d\n%s\n", width, height, styled(colour))
	}
	return text.String(), colours.String()
}

// textOf is a view as lines of a screen.
func textOf(content string, height int) []string {
	all := strings.Split(ansi.Strip(content), "\n")
	for len(all) < height {
		all = append(all, "")
	}
	for i := range all {
		all[i] = strings.TrimRight(all[i], " ")
	}
	return all
}

// checkGrey compares a screen without colours with the one that has them.
func checkGrey(t testing.TB, colour, grey *vt.Emulator) {
	t.Helper()
	for y := range colour.Height() {
		for x := range colour.Width() {
			c, g := colour.CellAt(x, y), grey.CellAt(x, y)
			if c == nil || g == nil {
				continue
			}
			plain := c.Style
			plain.Fg, plain.Bg, plain.UnderlineColor = nil, nil, nil
			if want := (uv.Cell{Content: c.Content, Width: c.Width, Style: plain}); !g.Equal(&want) {
				t.Fatalf("at %d,%d: without colours it is %+v, want %+v", x, y, *g, want)
			}
		}
	}
}
