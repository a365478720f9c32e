package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// bounded ends a request if its answer, or the next part of the answer, does not come within a time. So an
// operation with many requests needs no time limit of its own: an API server that takes 2 s for each answer
// is slow, but works. The time does not include logins. Watches have no limit, because they are silent as
// long as nothing changes.
type bounded struct {
	next   http.RoundTripper
	within time.Duration // 0: no bound
}

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	if b.within == 0 || request.URL.Query().Has("watch") {
		return b.next.RoundTrip(request)
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	silent := fmt.Errorf("no answer within %s: %w", b.within, context.DeadlineExceeded)
	timer := time.AfterFunc(b.within, func() { cancel(silent) })
	body := &boundedBody{within: b.within, timer: timer, end: func() { timer.Stop(); cancel(nil) }, cause: func(err error) error {
		if errors.Is(context.Cause(ctx), silent) {
			return silent
		}
		return err
	}}
	response, err := b.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		err = body.cause(err)
		body.end()
		return nil, err
	}
	body.ReadCloser, response.Body = response.Body, body
	return response, nil
}

// boundedBody is an answer whose parts each have to come within a time.
type boundedBody struct {
	io.ReadCloser
	within time.Duration
	timer  *time.Timer
	end    func()
	cause  func(error) error
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, b.cause(err)
	}
	b.timer.Reset(b.within)
	return n, err
}

func (b *boundedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
