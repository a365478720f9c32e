package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"time"
)

// turn is the first answer of another server than before.
type turn struct {
	At       time.Time `json:"at"`
	Hostname string    `json:"hostname"` // "" if nothing answered
}

// watch asks a URL again and again, each time by a new connection, until in ends. It prints a turn as soon as
// another server answers.
func watch(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	interval := flags.Duration("interval", 10*time.Millisecond, "between an answer and the next request")
	timeout := flags.Duration("timeout", 2*time.Second, "of a request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New(usage)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in)
	}()
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	encoder := json.NewEncoder(out)
	for last := new(turn); ; {
		var answer bytes.Buffer
		var now turn
		if err := ask(client, flags.Arg(0), &answer); err == nil {
			if err := json.Unmarshal(answer.Bytes(), &now); err != nil {
				return err
			}
		}
		now.At = time.Now()
		if now.Hostname != last.Hostname {
			if err := encoder.Encode(now); err != nil {
				return err
			}
		}
		last = &now
		select {
		case <-ended:
			return nil
		case <-time.After(*interval):
		}
	}
}
