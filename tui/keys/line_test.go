package keys

import (
	"strings"
	"testing"
)

func TestAPasteIsBounded(t *testing.T) {
	novel := strings.Repeat("It was a dark and stormy night; \x1b[2J\x00", 10000)
	if got := len(Line{}.Insert(novel).String()); got > maxLine*4 {
		t.Errorf("got %d bytes kept", got)
	}
}
