package tui

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// FuzzUpdate presses any keys at any sizes while clusters misbehave. Whatever
// happens: no panic, every screen fits, nothing is written before a yes to a
// question that could be seen, and ctrl+c ends the program.
func FuzzUpdate(f *testing.F) {
	f.Add([]byte("\x00"))
	f.Add([]byte("ay\xf4\xf4\xf4?jkq"))
	f.Add([]byte("ay\xf1\x03c\xf4\x03k"))
	f.Add([]byte("\xe0\x01ay\xf4\xe1?\x1b\xe2stsc\r\x1bay\xf4\xf4pr"))
	f.Add([]byte("\xd1ay\xf4\xd2\xf4\xd3r\xf4\xd0\xf4p\x1b"))
	f.Add([]byte("\xc0\r\x02\r\r\r\r\x02\r\xff\xffXa\x02\r\xff"))
	f.Add([]byte("\xc0/ro\r\r:q\x1ba~\xc3\r\x1b\r\x02\re\x1bf\r\x02\x02\xc3\x02\r"))
	f.Add([]byte("\xc1\xf4m\xcb\xcb\x1b\xcax\xc7\xc8\xc9\r\xc5\xcf"))
	f.Add([]byte("\xc1\xf4\rdyl\x1bEx\r\x02\r\xff\x1b"))
	f.Fuzz(playScript)
}

// TestRandomScripts plays what a fuzzer would, without its instrumented build.
// Most scripts begin by applying, or few would come that far.
func TestRandomScripts(t *testing.T) {
	const likely = "m\xc8\xc9\xca\x03\r\x1b\t\x01\x02\x04ayncrkpqstexXvwfi/:?jG\xc3"
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		script := []byte{}
		switch seed % 5 {
		case 1, 2:
			script = append(script, "ay"...)
		case 3:
			script = append(script, "\xc0\r\x02\r\r\r\r"...) // through the wizard to its plan
		case 4:
			script = append(script, 0xc1) // on the dashboard
		}
		for range 60 {
			b := byte(r.UintN(256))
			if r.UintN(2) == 0 {
				b = likely[r.IntN(len(likely))]
			}
			if (b == 'q' || b == 3) && r.UintN(4) > 0 {
				continue // or few would last
			}
			script = append(script, b)
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { playScript(t, script) })
	}
}

func playScript(t *testing.T, script []byte) {
	t.Chdir(t.TempDir()) // a key saves the screen
	const longest = 300  // keeps one case below some 100 ms
	script = script[:min(len(script), longest)]
	start := func(*flowtest.Pair, *world) session.Options {
		return session.Options{Timeout: time.Minute, A: refOf("kind-rome"), B: refOf("kind-milan")}
	}
	if len(script) > 0 && script[0] >= 0xc0 && script[0] <= 0xc2 {
		// Nothing is chosen, or the pair is connected and the dashboard shows it,
		// or there is nothing installed on one side.
		how := script[0]
		start = func(p *flowtest.Pair, _ *world) session.Options {
			switch how {
			case 0xc1:
				connectedPair(t)(p)
				return session.Options{Timeout: time.Minute, Start: session.StartDashboard}
			case 0xc2:
				p.B.Bare()
			}
			return session.Options{Timeout: time.Minute}
		}
	}
	t.Chdir(t.TempDir()) // s saves the screen
	inWorld(t, start, playing(script))
}

// playing plays a script to its end, or to the program's.
func playing(script []byte) func(*testing.T, *driver) {
	return func(t *testing.T, d *driver) {
		z := fuzzer{d: d}
		for _, b := range script {
			z.play(t, b)
			if d.quit {
				return
			}
		}
		z.interrupt(t)
	}
}

type fuzzer struct {
	d       *driver
	allowed bool // a question was answered with yes
}

func (z *fuzzer) play(t *testing.T, b byte) {
	sizes := [...][2]int{{80, 24}, {120, 40}, {40, 12}, {39, 11}, {60, 20}, {0, 0}, {1, 1}, {300, 90}}
	switch {
	case b >= 0xf0:
		z.d.wait(time.Duration(b-0xf0) * 500 * time.Millisecond)
	case b >= 0xe0:
		size := sizes[int(b)%len(sizes)]
		z.d.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
	case b >= 0xd0:
		z.misbehave(int(b - 0xd0))
	case b == 0xc3:
		z.d.send(tea.PasteMsg{Content: strings.Repeat("65535 \x1b[2J y\n", 50)})
	case b == 0xc4:
		z.d.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	case b >= 0xc5 && b <= 0xcf:
		z.d.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: int(b-0xc5) * 9, Y: int(b - 0xc5)})
	default:
		z.press(fuzzKey(b))
	}
	if z.d.model.width > 0 && !z.d.quit {
		z.d.screen()
	}
	if log := z.d.pair.Log(); len(log) > 0 && !z.allowed {
		t.Fatalf("got writes %v without a yes", log)
	}
}

func fuzzKey(b byte) tea.KeyPressMsg {
	switch b {
	case 3:
		return press("ctrl+c")
	case '\r':
		return press("enter")
	case 0x1b:
		return press("esc")
	case '\t':
		return press("tab")
	case 1:
		return press("up")
	case 2:
		return press("down")
	case 4:
		return press("pgdown")
	}
	return press(string(rune(b)))
}

func (z *fuzzer) press(key tea.KeyPressMsg) {
	before := ansi.Strip(z.d.model.View().Content)
	asked := strings.Contains(before, "Apply these changes?")
	if asked && (key.String() == "y" || key.String() == "enter" && strings.Contains(before, "┃ Yes")) {
		z.allowed = true
	}
	z.d.send(key)
}

func (z *fuzzer) misbehave(how int) {
	for i, c := range []*flowtest.Cluster{z.d.pair.A, z.d.pair.B} {
		c.Behave(func(b *flowtest.Behaviour) {
			*b = flowtest.Behaviour{}
			switch how {
			case 1 + i:
				b.Unreachable = []flowtest.Window{{From: 1}}
			case 3 + i:
				b.Silent = true
			case 5 + i:
				b.NoReports, b.WrongKey = true, true
			case 7 + i:
				b.PodWaiting = "\x1b[31mImagePullBackOff\n" + strings.Repeat("registry ", 40)
			}
		})
	}
}

// interrupt checks that one ctrl+c ends a program that applies nothing, within
// two messages, and that two end any.
func (z *fuzzer) interrupt(t *testing.T) {
	z.d.drain() // what the clusters have to say does not count
	idle := !z.d.model.wizard.Busy()
	before := z.d.got
	z.d.send(press("ctrl+c"))
	if idle && (!z.d.quit || z.d.got-before > 2) {
		t.Fatalf("after ctrl+c: quit %v after %d messages, want at most 2:\n%s", z.d.quit, z.d.got-before, z.d.model.View().Content)
	}
	if !z.d.quit {
		z.d.send(press("ctrl+c"))
	}
	if !z.d.quit {
		t.Fatalf("still there after the second ctrl+c:\n%s", z.d.model.View().Content)
	}
}
