package ping

import (
	"math"
	"testing"
	"time"
)

func at(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(math.Round(seconds*1000)) * time.Millisecond)
}

func TestTrackerFollowsThePeer(t *testing.T) {
	tr := NewTracker(Timing{})
	expect := func(now float64, want Value) {
		t.Helper()
		if got := tr.Status(at(now)).Value; got != want {
			t.Errorf("at %v s: got %s, want %s", now, got, want)
		}
	}
	expect(0, Connecting)
	tr.Sent(at(0))
	tr.Sent(at(30))
	expect(60, Connecting) // never an Error before the first answer
	if got, want := tr.Interval(), 200*time.Millisecond; got != want {
		t.Errorf("interval before the first answer: got %v, want %v", got, want)
	}
	if !tr.Received(at(30.05), at(30)) {
		t.Fatal("answer not recognized")
	}
	expect(30.05, Connected)
	if got, want := tr.Interval(), 200*time.Millisecond; got != want {
		t.Errorf("interval before a latency is measured: got %v, want %v", got, want)
	}
	tr.Sent(at(30.1))
	tr.Received(at(30.15), at(30.1))
	if got, want := tr.Interval(), 2*time.Second; got != want {
		t.Errorf("interval after it: got %v, want %v", got, want)
	}
	expect(38.15, Connected)
	expect(38.16, Error)
	tr.Sent(at(50))
	tr.Received(at(50.02), at(50))
	expect(50.03, Connected)
}

func TestTrackerIgnoresAnswersThatItDidNotAskFor(t *testing.T) {
	tr := NewTracker(Timing{})
	tr.Sent(at(1))
	if tr.Received(at(2), at(1.5)) {
		t.Error("forged answer accepted")
	}
	if !tr.Received(at(2), at(1)) || tr.Received(at(2.1), at(1)) {
		t.Error("want the first answer accepted and its repetition ignored")
	}
	for i := range 100 {
		tr.Sent(at(10 + float64(i)))
	}
	if tr.Received(at(111), at(10)) {
		t.Error("answer to a ping outside the window accepted")
	}
}

func TestLatencyIsThatOfTheNewestPing(t *testing.T) {
	tr := answered()
	tr.Sent(at(0))
	tr.Sent(at(2))
	tr.Received(at(2.030), at(2))
	tr.Received(at(2.031), at(0)) // overtaken
	if got, want := tr.Status(at(3)).Latency, 30*time.Millisecond; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// answered returns a tracker whose first ping was answered just before 0.
func answered() *Tracker {
	tr := NewTracker(Timing{})
	tr.Sent(at(-2))
	tr.Received(at(-1), at(-2))
	return tr
}

func TestPingsThatWaitedForTheHandshakeGiveNoLatency(t *testing.T) {
	tr := NewTracker(Timing{})
	tr.Sent(at(0))
	tr.Sent(at(0.2))
	tr.Received(at(1.2), at(0))
	tr.Received(at(1.2), at(0.2))
	if got := tr.Status(at(1.3)); got.Value != Connected || got.Latency != 0 {
		t.Errorf("got %+v, want Connected without a latency", got)
	}
}

func TestOneInterruptionIsToldFromPingsLostHereAndThere(t *testing.T) {
	for answers, want := range map[string]float64{
		"yyyyyy": 0, "yyyny": 4, "yynnnyyy": 5, "yyynnn": 0, "ynyyny": 0, "ynnyn": 0, "ynyyyy": 2,
	} {
		tr := NewTracker(Timing{})
		for i, answer := range answers {
			sent := at(2 * float64(i))
			if tr.Sent(sent); answer == 'y' {
				tr.Received(sent.Add(time.Millisecond), sent)
			}
		}
		var since time.Time
		if want > 0 {
			since = at(2 * want)
		}
		if got := tr.Status(at(2 * float64(len(answers)+1))).AnsweredSince; !got.Equal(since) {
			t.Errorf("%s: got %s, want %s", answers, got, since)
		}
	}
}

func TestLossCountsFromTheFirstAnswerAndLeavesOutPingsOnTheWay(t *testing.T) {
	tr := NewTracker(Timing{Window: 10})
	for i := range 5 {
		tr.Sent(at(float64(i) / 5))
	}
	tr.Sent(at(1))
	tr.Received(at(1.01), at(1))
	for i := range 4 {
		now := 3 + 2*float64(i)
		tr.Sent(at(now))
		if i%2 == 0 {
			tr.Received(at(now+0.01), at(now))
		}
	}
	// 1, 3 and 7 are answered, 5 is lost, and 9 is on its way.
	if got, want := tr.Status(at(9.5)).Loss, 0.25; got != want {
		t.Errorf("loss with a ping on its way: got %v, want %v", got, want)
	}
	if got, want := tr.Status(at(11)).Loss, 0.4; got != want {
		t.Errorf("loss when it is overdue: got %v, want %v", got, want)
	}
}
