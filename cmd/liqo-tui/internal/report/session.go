package report

import (
	"errors"
	"io"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Session is a command that runs no plan and says one thing, in any format.
type Session struct {
	Out, Err   io.Writer // results, everything else
	Format     string
	Afterwards func(error) []NextStep // what to do after an error
	Events     *NDJSON                // of -o ndjson
	told       bool                   // the document of -o json or yaml is written
	made       outcome                // what that is if nothing else is
	Next       []NextStep
	unwritten  error // why the document is not written
}

// Run frames what work does: in the lines of NDJSON, or by a document also where
// work has failed before it had one.
func (s *Session) Run(command string, a, b flows.ContextRef, work func(*Session) error) (err error) {
	s.made = newOutcome(command, a, b)
	switch s.Format {
	case Text:
		return work(s)
	case JSON, YAML:
		defer func() {
			if !s.told {
				s.made.End(err, Achieved{Next: s.Next})
				s.Document(s.made)
			}
			err = errors.Join(err, s.unwritten)
		}()
	case EventStream:
		s.Events = &NDJSON{Out: s.Out, Now: time.Now}
		s.Events.Begin(command, a, b)
		stop := s.Events.KeepAlive()
		defer func() {
			stop()
			s.Events.End(err, Achieved{Next: s.Next})
			if err != nil {
				err = Told{err}
			}
		}()
	default:
		return wantFormat(s.Format)
	}
	if err = work(s); err != nil && len(s.Next) == 0 && s.Afterwards != nil {
		s.Next = s.Afterwards(err)
	}
	return err
}

// Observed tells programs who the clusters are.
func (s *Session) Observed(f flows.Facts) {
	s.made.A.introduce(f.Sides[flows.A])
	s.made.B.introduce(f.Sides[flows.B])
	if s.Events != nil {
		s.Events.Observed(f)
	}
}

// Result says it: a document, a line, or what text prints.
func (s *Session) Result(kind string, doc any, text func()) {
	switch s.Format {
	case Text:
		text()
	case EventStream:
		s.Events.write(line{Type: kind, Data: doc})
	default:
		s.Document(doc)
	}
}

// Document is what the command says, as -o json or -o yaml.
func (s *Session) Document(doc any) {
	s.told = true
	s.unwritten = errors.Join(s.unwritten, WriteDocument(s.Out, s.Format, doc))
}

// Raw is the result of a command that has written what it says by itself.
func (s *Session) Raw(err error) error {
	s.told = s.told || err == nil
	return err
}
