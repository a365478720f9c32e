package report

import (
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Check is one check of -o json. While "v" is 1, fields are only added.
type Check struct {
	ID       flows.Code        `json:"id"`
	Title    string            `json:"title"`
	Sides    []string          `json:"sides"` // "a", "b"; for a direction, from and to
	Directed bool              `json:"directed,omitempty"`
	Result   string            `json:"result"` // pass, warn, fail, inconclusive, skipped, measuring, planned
	Summary  string            `json:"summary,omitempty"`
	Evidence []string          `json:"evidence,omitempty"`
	Fix      []string          `json:"fix,omitempty"`
	Commands []command.Command `json:"commands,omitempty"` // the commands in fix
	Needs    flows.Code        `json:"needs,omitempty"`    // the code of the needed check that has failed, if this one was skipped
	Root     bool              `json:"root,omitempty"`     // no other failure explains this one
}

// CheckOf returns the result of a check in the form for programs.
func CheckOf(r check.Result) Check {
	sides := make([]string, len(r.Sides))
	for i, side := range r.Sides {
		sides[i] = Side(side)
	}
	return Check{
		ID: r.ID, Title: r.Title, Sides: sides, Directed: r.Directed, Result: r.State.String(),
		Summary: r.Summary, Evidence: r.Evidence, Fix: texts(r.Fix), Commands: command.Join(r.Fix, "").Commands(), Needs: r.Needs, Root: r.Root,
	}
}
