package peering

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
)

// ReasonSilent is the reason of a ForeignCluster's condition about an API server that does not answer.
const ReasonSilent = "APIServerSilent"

// ErrNoAnswer is wrapped by each error of an API server that gave no answer.
var ErrNoAnswer = errors.New("does not answer")

// NoAnswer is the error of an API server that gave no answer. It leaves out the path of the request and the
// local port: they differ at every try, so the same outage would change the objects that show the error,
// and wake everything that watches them.
func NoAnswer(server string, err error) error {
	if inner := (&url.Error{}); errors.As(err, &inner) {
		err = inner.Err
	}
	if inner := (&net.OpError{}); errors.As(err, &inner) {
		err = inner.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("not in time")
	}
	return fmt.Errorf("its API server %s %w: %w", server, ErrNoAnswer, err)
}
