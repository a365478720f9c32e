package ping

import (
	"testing"
	"time"
)

// Silence reports only bytes that were carried while the peer was silent: none from before the last answer,
// none on their way at that time, and none from long ago.
func TestSilenceTellsWhatIsCarriedInIt(t *testing.T) {
	var s Silence
	var carried Traffic
	for i := range 3 { // answers every 2 s
		carried = Traffic{carried.Sent + 296, carried.Received + 296}
		s.Note(at(float64(2*i)), at(float64(2*i)), carried)
	}
	last := 4.0
	note := func(seconds float64, sent, received uint64) {
		carried = Traffic{carried.Sent + sent, carried.Received + received}
		s.Note(at(seconds), at(last), carried)
	}
	expect := func(seconds float64, want Traffic, over time.Duration) {
		t.Helper()
		if got, took := s.Moved(at(seconds), carried); got != want || took != over {
			t.Errorf("at %v s: got %+v in %s, want %+v in %s", seconds, got, took, want, over)
		}
	}
	note(5, 148, 148) // on its way when the path was cut
	expect(5, Traffic{}, 0)
	for i := range 40 {
		note(5.1+float64(i)/10, 10, 0)
	}
	expect(9, Traffic{Sent: 100}, time.Second)
	for i := range 100 {
		note(9.1+float64(i)/10, 10, 1)
	}
	if got, over := s.Moved(at(19), carried); over < 7*time.Second || over > silenceSpan+silenceMark || got.Received == 0 || got.Sent > uint64(over/time.Second+1)*100 {
		t.Errorf("after 15 s: got %+v in %s, want the last seconds", got, over)
	}
	last = 19 // it is answered again
	note(19, 148, 148)
	expect(19, Traffic{}, 0)
}

// Before the first answer, a peer can't become silent.
func TestWhoWasNeverHeardIsNotSilent(t *testing.T) {
	var s Silence
	for i := range 20 {
		s.Note(at(float64(i)), time.Time{}, Traffic{Sent: uint64(i)})
	}
	if got, over := s.Moved(at(20), Traffic{Sent: 20}); over != 0 {
		t.Errorf("got %+v in %s, want nothing", got, over)
	}
}
