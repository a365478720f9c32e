package tui

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// Facts have rows. A line of a panel that goes on in the next one moves the facts below it.
func TestNoLineOfAPanelWraps(t *testing.T) {
	look := func(d *driver, page string) {
		for _, size := range everySize[:3] {
			d.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			lines := strings.Split(ansi.Strip(d.model.View().Content), "\n")
			for i, line := range lines {
				if got := draw.Cells(line); got > size[0] {
					t.Errorf("%s, %v: got %d cells: %q", page, size, got, line)
				}
				if i > 0 {
					if words := wrapped(lines[i-1], line); words != "" {
						t.Errorf("%s, %v: a line wraps before %q:\n%s\n%s", page, size, words, lines[i-1], line)
					}
				}
			}
		}
	}
	onServices(t, shared(t), func(_ *testing.T, d *driver) {
		look(d, "Services")
		d.keys("enter")
		d.wait(time.Second)
		look(d, "Service")
		d.keys("esc", "esc", "esc")
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true })
		d.wait(2 * time.Minute)
		look(d, "list")
		for _, page := range []string{"enter", "D", "e", "E", "t", "i", "l"} {
			d.keys(page)
			d.wait(time.Second)
			look(d, page)
			d.keys("esc", "esc")
		}
	})
	inChoice(t, func(p *flowtest.Pair, _ *world) { p.B.Bare() }, func(_ *testing.T, d *driver) {
		for _, page := range []string{"clusters", "the other cluster", "preflight", "settings", "plan"} {
			look(d, page)
			if page == "clusters" {
				d.keys("enter", "down")
				continue
			}
			d.keys("enter")
		}
	})
}

// joints are words with which a line may begin, because a clause that is longer than a line is broken between its phrases.
var joints = strings.Fields("and or but that which because by for from in into on through to with")

// wrapped returns the first word of a panel's text that continues the line above it; "" if there is none. Sentences
// and clauses end with a sign.
func wrapped(above, line string) string {
	upper, lower := []rune(above), []rune(line)
	begin := -1
	for x := 0; x < min(len(upper), len(lower)); x++ {
		if upper[x] != '│' || lower[x] != '│' {
			continue
		}
		if begin >= 0 && x-begin > 2*draw.FrameCells {
			before, text := strings.TrimSpace(string(upper[begin+1:x])), strings.TrimSpace(string(lower[begin+1:x]))
			words := strings.Fields(text)
			room := x - begin - 4 - len([]rune(strings.TrimRight(string(upper[begin+2:x-1]), " ")))
			prose := len(strings.Fields(before)) > 4 && !strings.Contains(before, "  ")
			if prose && len(words) > 0 && !slices.Contains(joints, words[0]) && unicode.IsLower([]rune(words[0])[0]) && len([]rune(words[0])) > room && !strings.ContainsAny(before[len(before)-1:], ".,:;\\") && !strings.HasSuffix(before, "…") {
				return words[0]
			}
		}
		begin = x
	}
	return ""
}
