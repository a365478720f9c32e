package ping

import (
	"strings"
	"testing"
	"time"
)

// watch simulates a tunnel that sends or hears every 100 ms, as the letters say (s, h, b for both, . for
// neither; o for a packet that was sent with the former keys). It returns the advice after each letter, also
// as letters.
func watch(letters string, latency time.Duration) string {
	var w Watchdog
	var t Traffic
	var handshake time.Time
	now, advice := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), ""
	for _, l := range letters {
		if l == 's' || l == 'b' {
			t.Sent += 100
		}
		if l == 'h' || l == 'b' || l == 'o' {
			t.Received += 100
		}
		if l == 'h' || l == 'b' {
			handshake = now
		}
		a := w.Advise(now, t, Status{Latency: latency}, handshake)
		if a == Redial {
			handshake = time.Time{}
		}
		advice += string("-?.R"[a])
		now = now.Add(100 * time.Millisecond)
	}
	return advice
}

func TestWatchdog(t *testing.T) {
	const near = time.Millisecond
	for _, c := range []struct {
		name, traffic string
		latency       time.Duration
		want          string
	}{
		{"idle", "..........", near, "----------"},
		{"both directions", "bbbbbsbsbsbb", near, "------------"},
		{"only receives", "hhhhhhhhhhhh", near, "------------"},
		{"sends, and is answered late", "s..h......s..h", near, "--?---------?-"},
		{"the peer is gone while traffic flows", "bbbssssssssssssssss", near, "-----???R?R?R?R?R?R"},
		{"the peer is gone after one packet", "s..............", near, "--???R?R?R?R?R?"},
		{"far away: waits for the answer", "s.............", 300 * time.Millisecond, "------??????R?"},
		{
			"never heard: dials often, then less", "s" + strings.Repeat(".", 61), 0,
			"--R?R?R?R?R?R?R?R?R?R?????????.R....R...................R....R",
		},
		{"it is back", "sssssssbsbsb", near, "--???R?-----"},
		{"it was busy: its answer to the redial is missing", "bssssssobsb", near, "---???R?---"},
		{"it was busy: it answers no redial, and its packets come", "bssssssooooo", near, "---???R?R?R?"},
		{"it is there for the first time", "sssssssbsbsb", 0, "--R?R?R-----"},
	} {
		if got := watch(c.traffic, c.latency); got != c.want {
			t.Errorf("%s:\n  %s\ngot\n  %s\nwant\n  %s", c.name, c.traffic, got, c.want)
		}
	}
}

// A handshake over a satellite takes 700 ms, and each redial forgets the handshake before. The latency of the
// path may be unknown or outdated.
func TestWatchdogLeavesTimeForAnAnswerFromFarAway(t *testing.T) {
	for latency, within := range map[time.Duration]int{0: 10_000, 20 * time.Millisecond: 15_000} {
		var w Watchdog
		var last time.Time
		start, longest := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), time.Duration(0)
		for ms := range within {
			now := start.Add(time.Duration(ms) * time.Millisecond)
			if w.Advise(now, Traffic{Sent: 148}, Status{Latency: latency}, time.Time{}) == Redial {
				if !last.IsZero() {
					longest = max(longest, now.Sub(last))
				}
				last = now
			}
		}
		if longest < time.Second {
			t.Errorf("latency %s: longest wait for an answer: got %s, want at least 1s", latency, longest)
		}
	}
}

// A program that did not run has not read the answers of that time, so it does not dial at once. If it always
// runs late, it dials.
func TestWatchdogLeavesTimeForAnswersThatWereNotRead(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	pings := Status{LastReply: start, Latency: time.Millisecond}
	for _, c := range []struct {
		name  string
		looks []int // in milliseconds, while packets are sent
		heard bool
		want  string
	}{
		{"pings, it runs", []int{1900, 2000, 2100, 2200, 2300, 2400, 2500}, true, "---???R"},
		{"pings, it did not run once", []int{1900, 2000, 2900, 3000, 3100, 3200, 3300, 3400}, true, "----???R"},
		{"traffic, it runs", []int{0, 100, 200, 300, 400, 500}, false, "--???R"},
		{"traffic, it did not run once", []int{0, 100, 1000, 1100, 1200, 1300, 1400, 1500}, false, "----???R"},
		{"traffic, it never runs in time", []int{0, 1000, 2000}, false, "--R"},
	} {
		var w Watchdog
		var got string
		for i, ms := range c.looks {
			carried := Traffic{Sent: uint64(i + 1)}
			if c.heard {
				carried.Received = carried.Sent
			}
			got += string("-?.R"[w.Advise(at(ms), carried, pings, time.Time{})])
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// A busy peer answers a ping late. Its answer comes while the handshake of a redial is still missing.
func TestALateAnswerDelaysNoRedial(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	var w Watchdog
	var redials []time.Duration
	for i := range 15 {
		latency := time.Millisecond
		if len(redials) > 1 {
			latency = 434 * time.Millisecond
		}
		after := time.Duration(i) * 100 * time.Millisecond
		if w.Advise(start.Add(after), Traffic{Sent: uint64(i + 1)}, Status{Latency: latency}, time.Time{}) == Redial {
			redials = append(redials, after)
		}
	}
	if n := len(redials); n < 4 || redials[3]-redials[0] > time.Second {
		t.Errorf("got redials after %v, want one every 200ms", redials)
	}
}

// The pings before the handshake of a redial were lost in the outage, and the next one is still on its way.
func TestAHandshakeLeavesTimeForThePingAfterIt(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	pings := Status{LastReply: start, Latency: time.Millisecond}
	var w Watchdog
	var carried Traffic
	var handshake time.Time
	redials, after := 0, 0
	for now := start.Add(DefaultInterval); after < 4; now = now.Add(100 * time.Millisecond) {
		carried.Sent++
		if redials == 4 {
			after++
			carried.Received++
			if handshake.IsZero() {
				handshake = now
			}
		}
		if w.Advise(now, carried, pings, handshake) != Redial {
			continue
		}
		if redials++; redials > 4 {
			t.Fatalf("got a redial %s after the handshake, want none", now.Sub(handshake))
		}
	}
}

// A handshake takes a second if CPU is scarce, also to a near peer. A handshake from before the last redial
// does not count. The peer is found within 3 s after the first redial.
func TestWatchdogHearsAnAnswerThatTakesASecond(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		var w Watchdog
		var first, last time.Time
		start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
		for now := start; ; now = now.Add(100 * time.Millisecond) {
			carried, handshake := Traffic{Sent: 148}, time.Time{}
			if !last.IsZero() && now.Sub(last) >= time.Second {
				carried.Received, handshake = 92, now
			}
			advice := w.Advise(now, carried, Status{Latency: latency}, handshake)
			if advice == Redial {
				last = now
				if first.IsZero() {
					first = now
				}
			}
			if carried.Received > 0 || now.Sub(start) > time.Minute {
				if after := now.Sub(first); advice != Fine || after > 3*time.Second {
					t.Errorf("latency %s: heard %s after the first redial", latency, after)
				}
				break
			}
		}
	}
}

// A new device starts its counters again. This is no sign of life, but later packets are.
func TestWatchdogSurvivesNewCounters(t *testing.T) {
	var w Watchdog
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	w.Advise(at(0), Traffic{Sent: 1000, Received: 1000}, Status{}, time.Time{})
	w.Advise(at(100), Traffic{Sent: 1100, Received: 1000}, Status{}, time.Time{})
	if got := w.Advise(at(600), Traffic{Sent: 1200, Received: 1000}, Status{}, time.Time{}); got != Redial {
		t.Fatalf("silence: got %v, want Redial", got)
	}
	if got := w.Advise(at(700), Traffic{Sent: 148}, Status{}, time.Time{}); got == Fine {
		t.Error("a handshake that nobody answered counts as life")
	}
	if got := w.Advise(at(800), Traffic{Sent: 148, Received: 92}, Status{}, at(800)); got != Fine {
		t.Errorf("an answer: got %v, want Fine", got)
	}
}

// Packets of the peer arrive here, and our packets do not arrive there.
func TestWatchdogNoticesAPathInOneDirection(t *testing.T) {
	var w Watchdog
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	pings := Status{LastReply: start, Latency: time.Millisecond}
	var redials []time.Duration
	for i := range uint64(120) {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		if w.Advise(now, Traffic{Sent: i, Received: i}, pings, time.Time{}) == Redial {
			redials = append(redials, now.Sub(start))
		}
	}
	if n := len(redials); n < 3 || n > 25 || redials[0] != 2500*time.Millisecond || redials[2] > 4*time.Second {
		t.Errorf("got redials after %v, want 3 to 25, the first after 2.5s: no handshake follows", redials)
	}
}

// In TestNobodyIsRedialledUnasked, an idle tunnel loses one ping. The watchdog is called as seldom as it
// allows.
func TestNobodyIsRedialledUnasked(t *testing.T) {
	for _, heard := range []bool{false, true} { // the peer's own pings still come
		for phase := time.Duration(0); phase < DefaultInterval; phase += 10 * time.Millisecond {
			var dog Watchdog
			reply := time.Unix(1000, 0)
			pings := Status{Value: Connected, LastReply: reply, Latency: time.Millisecond}
			asked := false
			for now := reply.Add(phase); now.Before(reply.Add(2 * DefaultInterval)); {
				carried := Traffic{Sent: 1000, Received: 1000}
				if now.After(reply.Add(DefaultInterval)) {
					carried.Sent += 150
				}
				if heard {
					carried.Received += uint64(now.Sub(reply)/DefaultInterval) * 150
				}
				advice := dog.Advise(now, carried, pings, time.Time{})
				asked = asked || advice == Doubt
				if advice == Redial {
					if !asked {
						t.Fatalf("redialled %s after the last answer without a question (peer heard: %t, first look after %s)", now.Sub(reply), heard, phase)
					}
					break
				}
				next := 100 * time.Millisecond
				if dog.Calm(now, pings) {
					next = CalmInterval
				}
				now = now.Add(next + time.Millisecond) // timers are late
			}
			if !asked {
				t.Fatalf("never asked (peer heard: %t, first look after %s)", heard, phase)
			}
		}
	}
}

// The peer's gateway has stopped answering pings, and its WireGuard works. The handshake of a redial proves
// this, and then the session stays.
func TestPeerThatOnlyStopsAnsweringPingsIsLeftAlone(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	pings := Status{LastReply: start, Latency: time.Millisecond}
	for name, carries := range map[string]func(i uint64) Traffic{
		"traffic both ways": func(i uint64) Traffic { return Traffic{Sent: 1000 * i, Received: 1000 * i} },
		// After 10 s without its own data, WireGuard answers received packets with an empty packet.
		"traffic to the peer only": func(i uint64) Traffic { return Traffic{Sent: 1000 * i, Received: 32 * (i / 100)} },
	} {
		var dog Watchdog
		var handshake time.Time
		var redials []time.Duration
		for i := range uint64(1200) {
			now, carried := start.Add(time.Duration(i)*100*time.Millisecond), carries(i)
			carried.Received += 92 * uint64(len(redials)) // answers to handshakes
			if dog.Advise(now, carried, pings, handshake) == Redial {
				redials, handshake = append(redials, now.Sub(start)), now.Add(time.Millisecond)
			}
		}
		if n := len(redials); n == 0 || n > 5 || redials[n-1] > 4*time.Second {
			t.Errorf("%s: got redials after %v, want some in the first seconds", name, redials)
		}
		if now := start.Add(2 * time.Minute); !pings.Mute(now, handshake) || pings.Mute(now, start) || pings.Mute(now, now.Add(-time.Hour)) {
			t.Errorf("%s: a handshake of two minutes ago proves that packets pass, and no older one", name)
		}
	}
}

// If pings are never answered, WireGuard's own answers show that the peer lives.
func TestPeerThatAnswersNoPingsAndIsGoneIsDialled(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	pings, handshake := Status{LastReply: start, Latency: time.Millisecond}, start.Add(4*time.Second)
	var dog Watchdog
	for i := range uint64(400) {
		now := start.Add(5*time.Second + time.Duration(i)*100*time.Millisecond)
		if dog.Advise(now, Traffic{Sent: 1000 * i, Received: 1000}, pings, handshake) == Redial {
			if silent := time.Duration(i) * 100 * time.Millisecond; silent < 15*time.Second || silent > 16*time.Second {
				t.Errorf("got a redial after %s of silence, want 15s", silent)
			}
			return
		}
	}
	t.Error("never dialled again")
}

// After an outage, no ping was answered yet. The peer may be silent again, or answer no pings any more.
func TestAHandshakeThatEndsAnOutageIsNoProofAtOnce(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	pings := Status{LastReply: start, Latency: time.Millisecond}
	for name, test := range map[string]struct {
		answers uint64 // the number of redials that the peer answers, after the first four
		most    int    // redials in the next 10 s
	}{
		"silent again":       {1, 100},
		"answers no pings":   {100, 2},
		"silent later again": {2, 100},
	} {
		var dog Watchdog
		var handshake time.Time
		var answered uint64
		var redials []time.Duration
		for i := range uint64(130) {
			now := start.Add(3*time.Second + time.Duration(i)*100*time.Millisecond)
			if dog.Advise(now, Traffic{Sent: 148 * (i + 1), Received: 92 * answered}, pings, handshake) != Redial {
				continue
			}
			redials, handshake = append(redials, now.Sub(start)), time.Time{}
			if len(redials) > 4 && answered < test.answers {
				answered, handshake = answered+1, now.Add(time.Millisecond)
			}
		}
		if n := len(redials) - 5; n < 1 || n > test.most {
			t.Errorf("%s: got redials after %v, want 1 to %d after the first five", name, redials, test.most)
		} else if again := redials[5] - redials[4]; again > time.Second {
			t.Errorf("%s: got a redial %s after the end of the outage, want one within 1s", name, again)
		}
	}
}

// dialledInVain returns the times at which a silent peer is dialled. The tunnel calls the watchdog ten times
// a second.
func dialledInVain(w *Watchdog, start time.Time, latency, during time.Duration) (redials []time.Time) {
	for now := start; now.Before(start.Add(during)); now = now.Add(100 * time.Millisecond) {
		if w.Advise(now, Traffic{Sent: 148}, Status{Latency: latency}, time.Time{}) == Redial {
			redials = append(redials, now)
		}
	}
	return redials
}

// A gateway whose peer is away for long loads the routers on the path little, and still finds the peer within
// a limit.
func TestWhoIsAwayForLongIsDialledSeldom(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
		var w Watchdog
		var longest, last time.Duration
		redials := dialledInVain(&w, start, latency, time.Hour)
		for i := range redials[1:] {
			wait := redials[i+1].Sub(redials[i])
			longest = max(longest, wait)
			if at := redials[i].Sub(start); at < eagerFor && wait > slowRedial {
				t.Errorf("latency %s: after %s of silence there is no redial for %s", latency, at, wait)
			} else if at > eagerFor && wait < last {
				t.Errorf("latency %s: after %s of silence the wait gets shorter: %s after %s", latency, at, wait, last)
			}
			last = wait
		}
		if len(redials) > 400 || longest > maxRedial+100*time.Millisecond {
			t.Errorf("latency %s: got %d redials in an hour, and one after %s", latency, len(redials), longest)
		}
	}
}

func TestNewsOfASilentPeerHasItDialledAtOnce(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, news := range map[string]func(*Watchdog, time.Time){
		"told": func(w *Watchdog, now time.Time) { w.Hurry(now) },
		"heard": func(w *Watchdog, now time.Time) {
			w.Advise(now, Traffic{Sent: 148, Received: 92}, Status{}, now)
			w.Advise(now, Traffic{Sent: 296, Received: 92}, Status{}, time.Time{})
			w.last = Traffic{Sent: 148}
		},
	} {
		var w Watchdog
		dialledInVain(&w, start, 0, time.Hour)
		later := start.Add(time.Hour)
		news(&w, later)
		n, atFirst := len(dialledInVain(&w, later, 0, 2*time.Second)), len(dialledInVain(&Watchdog{}, start, 0, 2*time.Second))
		if n < atFirst {
			t.Errorf("%s: got %d redials in 2 s, want %d as at first", name, n, atFirst)
		}
	}
}

// The last redial went to the former address.
func TestAnUnansweredRedialIsRepeatedAtOnceAfterNews(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, answered := range map[string]bool{"not answered": false, "answered": true} {
		var w Watchdog
		now, handshake, pings := start, start.Add(-time.Minute), Status{Latency: time.Millisecond, LastReply: start}
		w.Advise(now, Traffic{Sent: 100, Received: 100}, pings, handshake)
		for advice := Fine; advice != Redial; {
			now = now.Add(100 * time.Millisecond)
			advice = w.Advise(now, Traffic{Sent: 200, Received: 100}, pings, handshake)
		}
		if handshake = (time.Time{}); answered {
			handshake = now
		}
		now = now.Add(10 * time.Millisecond)
		w.Advise(now, Traffic{Sent: 148}, pings, handshake)
		w.Hurry(now)
		if got := w.Advise(now, Traffic{Sent: 148}, pings, handshake) == Redial; got == answered {
			t.Errorf("%s: got a redial at once: %t", name, got)
		}
	}
}

func TestAHandshakeOfBeforeTheClockWasSetBackProvesNothing(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	pings := Status{Value: Connected, Latency: time.Millisecond, LastReply: now.Add(-time.Minute)}
	if pings.Mute(now, now.Add(time.Hour)) {
		t.Error("a handshake in the future: got a peer that works and answers no pings")
	}
	if !pings.Mute(now, now.Add(-time.Second)) {
		t.Error("a handshake after the last ping: got no proof that the peer works")
	}
}
