// Package lines reads a person's answers, one line each.
package lines

import (
	"bufio"
	"context"
	"io"
)

// Reader reads lines. A read can't be stopped: if its caller has stopped waiting,
// the next call gets its line.
type Reader struct {
	in    *bufio.Reader
	lines chan line // of a read in progress; nil for none
}

type line struct {
	text string
	err  error
}

// NewReader reads from in.
func NewReader(in io.Reader) *Reader { return &Reader{in: bufio.NewReader(in)} }

// Line returns the next line with its newline. The error is the input's, or that
// of ctx if ctx ends first. Text before an error is no line.
func (r *Reader) Line(ctx context.Context) (string, error) {
	if r.lines == nil {
		lines := make(chan line, 1)
		r.lines = lines
		go func() {
			text, err := r.in.ReadString('\n')
			lines <- line{text, err}
		}()
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case l := <-r.lines:
		r.lines = nil
		return l.text, l.err
	}
}
