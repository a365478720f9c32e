package report

import (
	"cmp"
	"io"
	"strings"
	"sync"
	"unicode"
)

// Printable protects the terminal from texts of others: objects, events, logs and peers' files
// may contain escape sequences, or characters that change the direction of text.
type Printable struct{ io.Writer }

// Write writes the text without control characters.
func (p Printable) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, strings.Map(visible, string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// visible returns r, or a substitute if r is invisible.
func visible(r rune) rune {
	if r == '\n' || r == '\t' || r == unicode.ReplacementChar || unicode.IsGraphic(r) {
		return r
	}
	return unicode.ReplacementChar
}

// Kept is an output that keeps its first error, because most functions that write results
// return no error.
type Kept struct {
	io.Writer
	mu  sync.Mutex
	err error
}

// Write implements [io.Writer].
func (k *Kept) Write(text []byte) (int, error) {
	n, err := k.Writer.Write(text)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = cmp.Or(k.err, err)
	return n, err
}

// Err returns the first error.
func (k *Kept) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// TerminalOf returns the terminal without these wrappers, for a program that draws on it.
func TerminalOf(w io.Writer) io.Writer {
	if p, ok := w.(Printable); ok {
		w = p.Writer
	}
	if k, ok := w.(*Kept); ok {
		w = k.Writer
	}
	return w
}

// ASCIIOnly reports whether the terminal may be unable to show other characters. The locale
// decides this, as in other programs. On the Linux console it is true, because console fonts
// have few characters.
func ASCIIOnly(env func(string) string, os string) bool {
	if os == "windows" {
		return false // it has no locale in the environment
	}
	if env("TERM") == "linux" {
		return true
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(env(name)); locale != "" {
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return true
}
