package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// session is a command that runs no plan and says one thing, in any format.
type session struct {
	io     streams
	format string
	events *ndjson // of -o ndjson
	told   bool    // the document of -o json or yaml is written
	made   outcome // what that is if nothing else is
	next   []nextStep
	err    error
}

// inSession frames what work does: in the lines of NDJSON, or by a document
// also where work has failed before it had one.
func inSession(io streams, format, command string, pair *pairFlags, work func(*session) error) (err error) {
	a, b := pair.local.options().Context, pair.remote.options().Context
	s := &session{io: io, format: format, made: newOutcome(command, a, b)}
	switch format {
	case formatText:
		return work(s)
	case formatJSON, formatYAML:
		defer func() {
			if !s.told {
				s.made.end(err, achieved{next: s.next})
				s.document(s.made)
			}
			err = errors.Join(err, s.err)
		}()
	case formatNDJSON:
		s.events = &ndjson{out: io.out, now: time.Now}
		s.events.begin(command, a, b)
		stop := s.events.keepAlive()
		defer func() {
			stop()
			s.events.end(err, achieved{next: s.next})
			if err != nil {
				err = told{err}
			}
		}()
	default:
		return usageError{fmt.Errorf("--output %q: want text, json, yaml or ndjson", format)}
	}
	if err = work(s); err != nil && len(s.next) == 0 {
		s.next = afterwards(io, pair, err)
	}
	return err
}

// observed tells programs who the clusters are.
func (s *session) observed(f flows.Facts) {
	s.made.A.introduce(f.Local)
	s.made.B.introduce(f.Remote)
	if s.events != nil {
		s.events.observed(f)
	}
}

// result says it: a document, a line, or what text prints.
func (s *session) result(kind string, doc any, text func()) {
	switch s.format {
	case formatText:
		text()
	case formatNDJSON:
		s.events.write(line{Type: kind, Data: doc})
	default:
		s.document(doc)
	}
}

func (s *session) document(doc any) {
	s.told = true
	s.err = errors.Join(s.err, writeDocument(s.io.out, s.format, doc))
}
