package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/render"
)

// Exchange reports whether the gateways of two connected clusters exchange Services. If only one gateway does,
// why says so, and fix is the advice for the other cluster.
func Exchange(f flows.Facts) (both bool, why string, fix []command.Hint) {
	on := [2]bool{}
	for _, side := range []flows.Side{flows.A, flows.B} {
		on[side] = f.End(side).ServicesReport() != nil
	}
	switch on {
	case [2]bool{true, true}:
		return true, "", nil
	case [2]bool{}:
		return false, "", nil
	}
	off := f.Sides[flows.A]
	if on[flows.A] {
		off = f.Sides[flows.B]
	}
	if !off.Can().ImportServices {
		return false, fmt.Sprintf("No Service can be reached by name: Liqo connects %s, and its gateways exchange none.", off.Name()), nil
	}
	return false, fmt.Sprintf("To reach a Service by name, %s has to exchange Services, too:", off.Name()), []command.Hint{command.Hintf("%s", off.Ours("install", "--services"))}
}

// AskOffers returns the questions whose answers [Offers] needs.
func AskOffers() []flows.Question {
	return append(Asks(types.NamespacedName{}, flows.A, flows.B), flows.AskOffers{Side: flows.A}, flows.AskOffers{Side: flows.B})
}

// An Offer is a Service of a side that can be exported.
type Offer struct {
	Side     flows.Side
	Name     types.NamespacedName
	Exported bool   // there is a ServiceExport
	Missing  string // the reason that the other cluster would not import it; "" if it would
}

// Offers lists the Services that both clusters can export, A's first. left describes the Services that are
// left out. The facts have the answers to [AskOffers].
func Offers(f flows.Facts) (all []Offer, left []string) {
	for side, c := range f.Sides {
		offered := c.Offers.Value()
		if offered == nil {
			continue
		}
		from := flows.Facts{Sides: [2]flows.ClusterFacts{c, f.Sides[flows.Side(side).Other()]}, At: f.At}
		reserved, others := 0, []string(nil)
		for i := range *offered {
			s := &(*offered)[i]
			name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
			live := exportOf(from, name)
			want := cmp.Or(live, export(name))
			switch why := unfit(c, s, want, f.At); {
			case services.IsDerived(s): // a derived Service can't be exported
			case services.Reserved(name.Namespace, own(c)):
				reserved++
			case why != "":
				others = append(others, fmt.Sprintf("%s (%s)", name, why))
			default:
				missing, _ := notImported(want, name, from)
				all = append(all, Offer{flows.Side(side), name, live != nil, missing})
			}
		}
		slices.Sort(others)
		if reserved > 0 {
			others = append(others, fmt.Sprintf("%s of default, kube-… and liqo-tui, which are never exported", counted(reserved)))
		}
		if len(others) > 0 {
			left = append(left, fmt.Sprintf("Not listed of %s: %s.", c.Name(), strings.Join(others, "; ")))
		}
	}
	slices.SortStableFunc(all, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), strings.Compare(a.Name.String(), b.Name.String()))
	})
	return all, left
}

func counted(n int) string {
	if n == 1 {
		return "1 Service"
	}
	return fmt.Sprintf("%d Services", n)
}

// Unlisted returns the reason for each side whose Services were not read.
func Unlisted(f flows.Facts) (texts []command.Hint) {
	for _, c := range f.Sides {
		why, fix := Off(c)
		switch {
		case c.Problem != nil:
			texts = append(texts, command.Hintf("%s was not read: %s", c.Name(), c.Problem.Message))
		case why != "" && len(fix) > 0:
			texts = append(texts, command.Join([]command.Hint{command.Text(why), fix[0]}, "; "))
		case why != "":
			texts = append(texts, command.Text(why))
		case c.Offers.Unknown() != "":
			texts = append(texts, command.Hintf("the Services of %s were not read: %s; to export one that you know: %s", c.Name(), c.Offers.Unknown(), c.Ours("service", "export", "NAMESPACE/NAME")))
		}
	}
	return texts
}

// Call returns the request by which pods of B call A's exported Service: by its name, or by the clusterset IP
// if B serves no names. why is the reason if there is no such request. The facts have the answers to [Asks]
// and [AsksNames].
func Call(name types.NamespacedName, f flows.Facts) (call render.ProbeCall, why string) {
	b := f.Sides[flows.B]
	e := services.Explain(ViewOf(f, flows.B), name)
	switch {
	case !imports(f, name):
		return call, fmt.Sprintf("%s does not import it", b.Name())
	case e.Names != services.Unserved: // also if names do not work, because pods should call the name
		call.Host = services.DNSName(name)
	case e.IP != "":
		call.Host = e.IP
	}
	s := serviceOf(f, name)
	if s == nil {
		return call, "the Service was not read"
	}
	var port *corev1.ServicePort
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP && (port == nil || speaksHTTP(*p) && !speaksHTTP(*port)) {
			port = p
		}
	}
	if port == nil {
		return call, "it has no TCP port, and a test pod knows no other protocol"
	}
	call.Port, call.HTTP = uint16(port.Port), speaksHTTP(*port)
	if e.Headless { // its names resolve to the pods' addresses
		if call.Port = podPort(found(b).Of(f.Sides[flows.A].ID, name), port.Name); call.Port == 0 {
			return call, "it has no endpoint"
		}
	}
	return call, ""
}

// speaksHTTP reports whether a port is declared or known to speak HTTP.
func speaksHTTP(p corev1.ServicePort) bool {
	if p.AppProtocol != nil {
		return *p.AppProtocol == "http"
	}
	return p.Name == "http" || strings.HasPrefix(p.Name, "http-") || p.Port == 80
}

func podPort(all []*discoveryv1.EndpointSlice, name string) uint16 {
	for _, s := range all {
		for _, p := range s.Ports {
			if p.Port != nil && (p.Name == nil || *p.Name == name) {
				return uint16(*p.Port)
			}
		}
	}
	return 0
}

// An Answer is the result of a request of a test pod of B to a Service of A.
type Answer struct {
	Name   types.NamespacedName
	Call   render.ProbeCall
	Result render.ProbeCallResult
	Not    string      // the reason that no pod has sent a request; "" if a pod has
	Facts  flows.Facts // the facts after the request
}

// Came reports whether there was an answer.
func (a Answer) Came() bool { return a.Not == "" && a.Result.Problem == "" }

// Lines describes the result. If there was no answer, it names the broken part of the way.
func (a Answer) Lines() (lines []string) {
	b := a.Facts.Sides[flows.B]
	what := "a TCP connection to " + a.Call.URL()
	if a.Call.HTTP {
		what = "GET " + a.Call.URL()
	}
	took := (time.Duration(a.Result.Micros) * time.Microsecond).Round(100 * time.Microsecond)
	switch {
	case a.Not != "":
		lines = []string{fmt.Sprintf("No pod of %s has called it: %s.", b.Name(), a.Not)}
	case a.Result.Problem == "":
		answer := "it was accepted"
		if a.Call.HTTP {
			answer = fmt.Sprintf("HTTP status %d", a.Result.Status)
		}
		return []string{fmt.Sprintf("First answer from %s to a pod of %s: %s, %s, after %s.", a.Facts.Sides[flows.A].Name(), b.Name(), a.request(what), answer, took)}
	default:
		lines = []string{fmt.Sprintf("No answer to a pod of %s: %s: %s.", b.Name(), a.request(what), a.Result.Problem)}
	}
	e := services.Explain(ViewOf(a.Facts, flows.B), a.Name)
	switch broken := e.Broken(); {
	case broken != nil:
		lines = append(lines, fmt.Sprintf("The way is broken at: %s: %s.", broken.What, broken.Found))
		if !broken.Fix.IsZero() {
			lines = append(lines, "To do: "+broken.Fix.String())
		}
	case a.Not == "":
		lines = append(lines, fmt.Sprintf("%s. So look whether its pods answer at this port, and which NetworkPolicies they have.", capital(e.Result())))
	}
	return lines
}

// request adds the address of the request to its text.
func (a Answer) request(what string) string {
	if a.Result.Address == "" || a.Result.Address == a.Call.Host {
		return what
	}
	return what + " at " + a.Result.Address
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// Curl returns the command that makes the request in a pod; "" if the port is not known to speak HTTP.
func (a Answer) Curl() string {
	if a.Call.Host == "" || !a.Call.HTTP {
		return ""
	}
	return command.Of("curl", a.Call.URL()).String()
}
