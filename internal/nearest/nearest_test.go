package nearest

import "testing"

func TestWhatWasMeantIsFound(t *testing.T) {
	commands := []string{"connect", "disconnect", "reset", "verify", "info"}
	for text, want := range map[string]string{
		"conect": "connect", "connetc": "connect", "CONNECT": "connect", "disconect": "disconnect", "veri": "verify",
		"resett": "reset", "inof": "info", "wizard": "", "x": "", "": "",
	} {
		if got := To(text, commands); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := Question("rome-agai", "", []string{"milan", "rome-again"}); got != "; did you mean rome-again?" {
		t.Errorf("got %q", got)
	}
}
