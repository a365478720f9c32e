package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const (
	// streamInterval is short enough to detect a stall.
	streamInterval = 10 * time.Millisecond
	// stallIntervals is the shortest stall that counts: a busy machine causes shorter
	// ones.
	stallIntervals = 5
	// endSilence is the largest allowed age of the last answer at the end, for runs of
	// at least twice that time. On a busy machine, 0.14 s between two answers were
	// measured.
	endSilence = time.Second
)

// stall is a time without answers, between two answers.
type stall struct {
	Last  time.Time `json:"last"`  // the last answer before it
	First time.Time `json:"first"` // the first answer after it
}

// stream measures how long a path does not work, until in ends. It prints a stall when
// it is over. A stall that lasts until the end is printed with its length so far. This
// is an error if it is longer than endSilence, or than half of the run.
func stream(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("stream", flag.ContinueOnError)
	size := flags.Int("size", 8, "of a datagram, in bytes, at least 8")
	interval := flags.Duration("interval", streamInterval, "between datagrams: many streams through tunnels in user space take the whole machine")
	if len(args) == 0 {
		return errors.New(usage)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *size < 8 {
		return fmt.Errorf("--size %d: want at least 8", *size)
	}
	c, err := net.Dial("udp4", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	start := time.Now()
	go func() {
		packet := make([]byte, *size)
		ticker := time.NewTicker(*interval)
		defer ticker.Stop()
		for range ticker.C {
			binary.BigEndian.PutUint64(packet, uint64(time.Since(start)))
			if _, err := c.Write(packet); errors.Is(err, net.ErrClosed) {
				return // other errors, such as an unreachable host, may pass
			}
		}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = c.SetReadDeadline(time.Now())
	}()
	encoder := json.NewEncoder(out)
	last, buffer := start, make([]byte, *size+1)
	for {
		n, err := c.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil || n != *size {
			continue
		}
		now := time.Now()
		if now.Sub(last) > stallIntervals**interval {
			if err := encoder.Encode(stall{last, now}); err != nil {
				return err
			}
		}
		last = now
	}
	now := time.Now()
	silence := now.Sub(last)
	if silence <= stallIntervals**interval {
		return nil
	}
	err = encoder.Encode(stall{last, now})
	if silence > min(endSilence, now.Sub(start)/2) {
		err = errors.Join(err, errors.New("no answer at the end"))
	}
	return err
}
