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

// ErrNoAnswer is wrapped by each error about an API server that has not answered.
var ErrNoAnswer = errors.New("does not answer")

// NoAnswer returns the error about an API server that has not answered. It omits the path of the request and
// the local port, because they differ at every try. Otherwise, each try would change the objects
// that show the error, and wake their watchers.
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
