package report

import (
	"errors"
	"io"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Session is the output of a command that has no plan and one result, in any
// format.
type Session struct {
	Out, Err   io.Writer // results, and all other texts
	Format     string
	Afterwards func(error) []NextStep // returns the next steps after an error
	Events     *NDJSON                // for -o ndjson
	told       bool                   // the document of -o json or yaml was written
	made       outcome                // the document if work writes none
	Next       []NextStep
	unwritten  error // the reason that the document was not written
}

// Run calls work between the first and the last line of NDJSON. If work writes
// no document, because it has failed, Run writes one.
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

// Observed adds the clusters' IDs to the output for programs.
func (s *Session) Observed(f flows.Facts) {
	s.made.A.introduce(f.Sides[flows.A])
	s.made.B.introduce(f.Sides[flows.B])
	if s.Events != nil {
		s.Events.Observed(f)
	}
}

// Result writes the result: as a document, as a line, or as text by calling
// text.
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

// Document writes the result as -o json or -o yaml.
func (s *Session) Document(doc any) {
	s.told = true
	s.unwritten = errors.Join(s.unwritten, WriteDocument(s.Out, s.Format, doc))
}

// Raw is called by a command that has written its own result. It keeps Run from
// writing a document, unless err is set.
func (s *Session) Raw(err error) error {
	s.told = s.told || err == nil
	return err
}
