package exports

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Hurry sets how long a client waits for the next slice of a list, and for the next event.
func (c *Client) Hurry(d time.Duration) { c.slice, c.quiet = d, d }

// Parse reads a list as a client does, and returns the number of slices that can be used.
func Parse(text []byte) (usable int, err error) {
	f := readerOf(text)
	defer f.stop()
	_, err = f.list(func(raw []byte) error {
		s, err := parseSlice(raw)
		switch {
		case s == nil:
			return err
		case err == nil:
			usable++
			var again discoveryv1.EndpointSlice
			content, err := json.Marshal(s)
			if err != nil {
				return err
			}
			return json.Unmarshal(content, &again)
		}
		return nil
	})
	return usable, err
}

func readerOf(text []byte) *frames {
	ctx, end := context.WithCancelCause(context.Background())
	return newFrames(ctx, bytes.NewReader(text), maxList, time.Minute, end)
}
