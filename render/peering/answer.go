package peering

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
)

// ErrNoAnswer is in each error of an API server that gave no answer.
var ErrNoAnswer = errors.New("does not answer")

// NoAnswer is the error of an API server that gave no answer. It leaves out which path was
// asked for, and from which port: with those, the same outage would be news at every try,
// and each would be written into objects that others watch.
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
