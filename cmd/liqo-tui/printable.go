package main

import (
	"io"
	"strings"
	"unicode"
)

// printable keeps what others have written from commanding the terminal: objects,
// events, logs and peers' files may hold escape sequences, or characters that turn the
// direction of text.
type printable struct{ io.Writer }

func (p printable) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, strings.Map(visible, string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// visible is r, or what stands for a character that can't be seen.
func visible(r rune) rune {
	if r == '\n' || r == '\t' || r == unicode.ReplacementChar || unicode.IsGraphic(r) {
		return r
	}
	return unicode.ReplacementChar
}

// screen is the terminal itself, for a program that draws on it.
func screen(w io.Writer) io.Writer {
	if p, ok := w.(printable); ok {
		return p.Writer
	}
	return w
}
