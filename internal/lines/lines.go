// Package lines reads a person's answers, one per line.
package lines

import (
	"bufio"
	"context"
	"io"
)

// Reader reads lines. A read can't be stopped. If a caller stops waiting for a line, the next call gets this
// line.
type Reader struct {
	in    *bufio.Reader
	lines chan line // of a read in progress; nil if there is none
}

type line struct {
	text string
	err  error
}

// NewReader reads from in.
func NewReader(in io.Reader) *Reader { return &Reader{in: bufio.NewReader(in)} }

// Line returns the next line with its newline. The error is an error of the input, or ctx's error if ctx ends
// first. Text before an error is not returned.
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
