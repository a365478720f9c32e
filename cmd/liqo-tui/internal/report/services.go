package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// ServicesDocument is what `service list -o json` writes; fields are only added while "v" is 1.
type ServicesDocument struct {
	V        int               `json:"v"`
	Clusters []ClusterServices `json:"clusters"`
}

// ClusterServices are the Services by name of one cluster.
type ClusterServices struct {
	Context   string         `json:"context,omitempty"`
	ClusterID wire.ClusterID `json:"clusterID,omitempty"`
	At        time.Time      `json:"at,omitzero"`
	Services  []NamedService `json:"services"`
	// Undefined is set if the cluster has no Services by name: it does not serve the kinds.
	Undefined bool `json:"undefined,omitempty"`
	// Unread says what could not be read. There may be more Services.
	Unread []string `json:"unread,omitempty"`
	// Without says which peers exchange no Services.
	Without []string `json:"without,omitempty"`
}

// NamedService is one name.
type NamedService struct {
	Namespace    string             `json:"namespace"`
	Name         string             `json:"name"`
	ExportedBy   []wire.ClusterID   `json:"exportedBy,omitempty"`
	ImportedFrom []wire.ClusterID   `json:"importedFrom,omitempty"`
	Type         string             `json:"type,omitempty"`
	IPs          []string           `json:"clustersetIPs,omitempty"`
	Endpoints    []ServiceEndpoints `json:"endpoints,omitempty"`
	Problems     []string           `json:"problems,omitempty"`
	// Call is the name that pods call: below clusterset.local, unless the cluster serves no names.
	Call string `json:"call,omitempty"`
}

// ServiceEndpoints counts the endpoints in one cluster.
type ServiceEndpoints struct {
	Cluster wire.ClusterID `json:"cluster"`
	Ready   int            `json:"ready"`
	All     int            `json:"all"`
	At      time.Time      `json:"at,omitzero"` // when the cluster last said so
}

// ClusterServicesOf returns what is known from the place of one cluster.
func ClusterServicesOf(c flows.ClusterFacts, v services.View) ClusterServices {
	out := ClusterServices{Context: c.Context.Name, ClusterID: c.ID, At: v.At.UTC(), Services: []NamedService{}}
	if v.At.IsZero() {
		out.At = time.Time{}
	}
	rows, unread, without := services.Rows(v)
	if out.Undefined = v.Found.Exports.Undefined || v.Found.Imports.Undefined; !out.Undefined {
		out.Unread, out.Without = unread, without
	}
	for _, r := range rows {
		s := NamedService{
			Namespace: r.Name.Namespace, Name: r.Name.Name, ExportedBy: r.Exporters, ImportedFrom: r.From, Type: r.Type, IPs: r.IPs, Call: r.CallName(),
		}
		for _, p := range r.Problems {
			s.Problems = append(s.Problems, p.String())
		}
		for _, p := range r.Endpoints {
			e := ServiceEndpoints{Cluster: p.Cluster, Ready: p.Ready, All: p.All}
			if !p.At.IsZero() {
				e.At = p.At.UTC()
			}
			s.Endpoints = append(s.Endpoints, e)
		}
		out.Services = append(out.Services, s)
	}
	return out
}

// WriteServices writes the table of one cluster.
func WriteServices(out io.Writer, c ClusterServices, now time.Time) error {
	name := cmp.Or(string(c.ClusterID), c.Context)
	switch {
	case c.Undefined:
		fmt.Fprintf(out, "%s has no Services by name: it does not serve ServiceExport and ServiceImport.\n", name)
	case len(c.Services) == 0 && len(c.Unread) == 0:
		fmt.Fprintf(out, "Services by name in %s: none.\n", name)
	case len(c.Services) == 0:
		fmt.Fprintf(out, "Services by name in %s: none was found, but not all was read.\n", name)
	default:
		fmt.Fprintf(out, "Services by name in %s:\n", name)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tEXPORTED BY\tIMPORTED FROM\tTYPE\tCLUSTERSET IP\tPODS CALL\tENDPOINTS READY")
		aged := false
		for _, s := range c.Services {
			var parts []services.Part
			for _, e := range s.Endpoints {
				parts = append(parts, services.Part{Cluster: e.Cluster, Count: services.Count{Ready: e.Ready, All: e.All}, At: e.At})
			}
			ready := services.Text(parts, now)
			aged = aged || strings.Contains(ready, " ago)")
			fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Namespace, s.Name, cmp.Or(flows.Joined(s.ExportedBy), "-"), cmp.Or(flows.Joined(s.ImportedFrom), "-"),
				cmp.Or(s.Type, "-"), cmp.Or(strings.Join(s.IPs, ", "), "-"), cmp.Or(s.Call, "-"), ready)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if aged {
			fmt.Fprintln(out, "ago: since the last message of that cluster's gateway.")
		}
		for _, s := range c.Services {
			for _, p := range s.Problems {
				fmt.Fprintf(out, "%s/%s: %s\n", s.Namespace, s.Name, p)
			}
		}
	}
	for _, u := range c.Unread {
		fmt.Fprintf(out, "unread: %s\n", u)
	}
	for _, w := range c.Without {
		fmt.Fprintf(out, "without Services: %s\n", w)
	}
	return nil
}

// ExplanationDocument is what `service resolve -o json` writes; fields are only added while "v" is 1.
type ExplanationDocument struct {
	V         int            `json:"v"`
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	From      wire.ClusterID `json:"from"`              // the cluster whose pods call
	DNSName   string         `json:"dnsName"`           // where names are served
	IP        string         `json:"ip,omitempty"`      // the clusterset IP
	Service   string         `json:"service,omitempty"` // the derived Service, which has the address
	Hops      []Hop          `json:"hops"`
	// Broken is the first broken hop, by its place in "hops".
	Broken *int `json:"broken,omitempty"`
}

// Hop is one part of the way.
type Hop struct {
	Hop   string         `json:"hop"`
	Peer  wire.ClusterID `json:"peer,omitempty"`
	State string         `json:"state"` // "good", "broken" or "not looked"
	Found string         `json:"found"`
	At    time.Time      `json:"at,omitzero"`
	Fix   string         `json:"fix,omitempty"`
}

// ExplanationOf returns an explanation as a document.
func ExplanationOf(e services.Explanation) ExplanationDocument {
	d := ExplanationDocument{
		V: SchemaVersion, Namespace: e.Name.Namespace, Name: e.Name.Name, From: e.Self, DNSName: services.DNSName(e.Name), IP: e.IP, Service: e.Derived, Hops: []Hop{},
	}
	for i, h := range e.Hops {
		hop := Hop{Hop: h.What, Peer: h.Peer, State: h.Look.String(), Found: h.Found, Fix: h.Fix.String()}
		if !h.At.IsZero() {
			hop.At = h.At.UTC()
		}
		if h.Look == services.Broken && d.Broken == nil {
			d.Broken = new(i)
		}
		d.Hops = append(d.Hops, hop)
	}
	return d
}

// lookMarks show the state of a hop without colour.
var lookMarks = map[services.Look]string{services.Good: "ok", services.Broken: "FAIL", services.NotLooked: "?"}

// WriteExplanation writes an explanation, one hop after the other.
func WriteExplanation(out io.Writer, e services.Explanation, now time.Time) {
	fmt.Fprintf(out, "Service %s, called from pods of %s:\n", e.Name, e.Self)
	for _, h := range e.Hops {
		text := h.Found
		switch age := now.Sub(h.At).Round(time.Second); {
		case h.Look == services.NotLooked:
			text = "not looked: " + text
		case h.At.IsZero():
			text += " (age not known)"
		case age > time.Second:
			text += fmt.Sprintf(" (%s ago)", age)
		}
		fmt.Fprintf(out, "%-4s %s: %s\n", lookMarks[h.Look], h.What, text)
		if !h.Fix.IsZero() {
			fmt.Fprintf(out, "     fix: %s\n", h.Fix)
		}
	}
	fmt.Fprintf(out, "\nResult: %s\n", e.Result())
	for _, line := range e.Calls() {
		fmt.Fprintln(out, line)
	}
}
