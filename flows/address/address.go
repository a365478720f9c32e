// Package address finds the addresses at which pods of one cluster reach pods,
// Services and hosts of the other cluster.
package address

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Target is a pod, a Service or an address that an admin wants to reach from the other
// cluster.
type Target struct {
	Kind            Kind
	Namespace, Name string     // of a pod or a Service
	Address         netip.Addr // if Kind is an address
}

// Kind is the kind of a target.
type Kind string

// The kinds.
const (
	Pod     Kind = "pod"
	Service Kind = "service"
	Address Kind = "address"
)

func (t Target) String() string {
	if t.Kind == Address {
		return t.Address.String()
	}
	return fmt.Sprintf("%s %s/%s", t.Kind, t.Namespace, t.Name)
}

var kinds = map[string]Kind{"pod": Pod, "pods": Pod, "po": Pod, "service": Service, "services": Service, "svc": Service}

// Parse reads an IP address, pod/NAME or service/NAME.
func Parse(text, namespace string) (Target, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return Target{Kind: Address, Address: ip.Unmap()}, nil
	}
	kind, name, _ := strings.Cut(text, "/")
	if kinds[kind] == "" || name == "" || strings.ContainsAny(name, "/ ") {
		return Target{}, fmt.Errorf("%q is not pod/NAME, service/NAME or an IP address", text)
	}
	return Target{Kind: kinds[kind], Namespace: namespace, Name: name}, nil
}

// Found is what the target's cluster knows about the target.
type Found struct {
	Ends []End
	// ClusterIP is a Service's own address, which peers can't use.
	ClusterIP string
}

// End is a pod or an address that answers.
type End struct {
	Name    string // "" for an address
	Address string // "" if it has none yet
	Ready   bool
	// HostNetwork is set if the address is the node's.
	HostNetwork bool
}

// Answer has the addresses to call.
type Answer struct {
	Target   Target
	Of, From wire.ClusterID // the target's cluster, and the caller's
	Ends     []Seen
	// Note is an additional fact for the admin; "" if there is none.
	Note string
}

// Seen is one end as the caller sees it.
type Seen struct {
	End
	Seen    netip.Addr
	Problem string // why there is no such address
}

// Of returns the addresses at which pods of the caller's side reach the ends on the
// other side.
func Of(f flows.Facts, caller flows.Side, t Target, found Found) (Answer, error) {
	here, there := f.Sides[caller], f.Sides[caller.Other()]
	a := Answer{Target: t, Of: there.ID, From: here.ID}
	conf := here.End(there.ID).Configuration
	if conf == nil {
		return a, fmt.Errorf("%s knows no address of %s: they are not connected", here.ID, there.ID)
	}
	if t.Kind == Address {
		found.Ends = []End{{Address: t.Address.String(), Ready: true}}
	}
	for _, e := range found.Ends {
		s := Seen{End: e}
		real, err := netip.ParseAddr(e.Address)
		switch {
		case e.Address == "":
			s.Problem = "it has no address yet"
		case e.HostNetwork:
			s.Problem = e.Address + " is its node's: peers reach pods' addresses only"
		case err == nil:
			s.Seen, err = SeenAs(conf, real)
		}
		if err != nil && s.Problem == "" {
			s.Problem = err.Error()
		}
		a.Ends = append(a.Ends, s)
	}
	switch {
	case len(a.Ends) == 0:
		return a, errors.New(t.String() + " has no pods")
	case found.ClusterIP != "":
		a.Note = fmt.Sprintf("Its address %s is of %s only: from %s, call a pod, or export the Service and call its name.", found.ClusterIP, there.ID, here.ID)
	case !a.Callable():
		a.Note = "None of it can be called now."
	}
	return a, nil
}

// Callable reports whether at least one end can be reached now.
func (a Answer) Callable() bool {
	return slices.ContainsFunc(a.Ends, func(s Seen) bool { return s.Problem == "" && s.Ready })
}

// Lines returns the answer as text.
func (a Answer) Lines() []string {
	lines := []string{fmt.Sprintf("%s of %s, called from pods of %s:", a.Target, a.Of, a.From)}
	for _, e := range a.Ends {
		text := "  " + e.Seen.String()
		if e.Problem != "" {
			text = "  none: " + e.Problem
		}
		switch {
		case e.Name != "" && e.Address != "":
			text += fmt.Sprintf("   (pod %s, %s there)", e.Name, e.Address)
		case e.Name != "":
			text += "   (pod " + e.Name + ")"
		case e.Problem == "":
			text += fmt.Sprintf("   (%s there)", e.Address)
		}
		if !e.Ready {
			text += ", not ready"
		}
		lines = append(lines, text)
	}
	if a.Note != "" {
		lines = append(lines, a.Note)
	}
	return lines
}
