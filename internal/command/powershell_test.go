package command

import (
	"strings"
	"testing"
	"unicode"
)

// PowerShell gives tests of other packages access to powerShell.
func PowerShell(word string) string { return powerShell(word) }

// ReadPowerShell reads one word as PowerShell's documentation says (about_Quoting_Rules, about_Parsing). In
// single quotes, which have typographic variants, all characters stand for themselves, and two quotes for
// one. Without quotes, it reads only characters without a meaning: no variable, operator, blank, wildcard or
// comma, and no "." or ":" in a word that begins with a dash.
func ReadPowerShell(text string) (word string, ok bool) {
	isQuote := func(r rune) bool { return strings.ContainsRune("'\u2018\u2019\u201a\u201b", r) }
	runes := []rune(text)
	if len(runes) == 0 {
		return "", false
	}
	if !isQuote(runes[0]) {
		special := " \t\r\n$`\"'(){};,|&<>@#~*?[]%!^"
		if strings.HasPrefix(text, "-") {
			special += ".:"
		}
		foreign := func(r rune) bool { return r > unicode.MaxASCII || r < ' ' || strings.ContainsRune(special, r) }
		return text, !strings.ContainsFunc(text, foreign)
	}
	var b strings.Builder
	for i := 1; i < len(runes); i++ {
		if !isQuote(runes[i]) {
			b.WriteRune(runes[i])
			continue
		}
		if i == len(runes)-1 {
			return b.String(), true
		}
		if !isQuote(runes[i+1]) {
			return "", false // the string ends before the text does
		}
		b.WriteRune(runes[i])
		i++
	}
	return "", false
}

func TestPowerShellReadsTheSameWords(t *testing.T) {
	for word, want := range map[string]string{
		"rome": "rome", "--remote-context": "--remote-context", `C:\Users\ada\kc`: `C:\Users\ada\kc`, "1340": "1340", "10.0.0.0/16": "10.0.0.0/16",
		"rome (prod)": "'rome (prod)'", "it's": "'it''s'", "it’s": "'it’’s'", "$HOME": "'$HOME'", "a,b": "'a,b'", "": "''", "--%": "'--%'",
		"-a.b": "'-a.b'", "--url=https://a.b": "'--url=https://a.b'", "@a": "'@a'", "–x": "'–x'", "a;b": "'a;b'", "a`b": "'a`b'", "é": "'é'",
	} {
		if got := powerShell(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
		if got, ok := ReadPowerShell(want); !ok || got != word {
			t.Errorf("%s is read as %q, not %q", want, got, word)
		}
	}
	if got := Ours("network", "connect").Flag("--context", "rome (prod)").join(powerShell); got != "liqo-tui network connect --context 'rome (prod)'" {
		t.Errorf("got %s", got)
	}
}
