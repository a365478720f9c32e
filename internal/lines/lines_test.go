package lines_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/liqo-tui/liqo-tui/internal/lines"
)

func TestALineThatNobodyWaitedForIsTheNextAnswer(t *testing.T) {
	in, typing := io.Pipe()
	r := lines.NewReader(in)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if text, err := r.Line(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %q, %v; want the interruption", text, err)
	}
	go func() {
		_, _ = io.WriteString(typing, "yes\nno")
		_ = typing.Close()
	}()
	if text, err := r.Line(t.Context()); text != "yes\n" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if text, err := r.Line(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v; want no line without its end", text, err)
	}
}
