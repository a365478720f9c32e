package check

import (
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
)

// subjects are the subjects of checks, each with its first code, in the order of codes.
var subjects = []struct {
	first flows.Code
	name  string
}{
	{Answers, "clusters"},
	{Gateways, "gateways and nodes"},
	{Ping, "tunnel"},
	{LentAccess, "lending"},
	{Allowed, "tunnel"},
	{flows.CodeAnswers, "requirements"},
	{BothExchange, "Services"},
}

// Subjects returns all subjects in the order in which people read them.
func Subjects() (all []string) {
	for _, s := range subjects {
		if !slices.Contains(all, s.name) {
			all = append(all, s.name)
		}
	}
	return all
}

// SubjectOf returns the subject of a check.
func SubjectOf(id flows.Code) (name string) {
	for _, s := range subjects {
		if id >= s.first {
			name = s.name
		}
	}
	return name
}
