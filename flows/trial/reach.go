package trial

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reach is what pods of two clusters have tried of the ways between them, before
// there were gateways.
type Reach struct {
	At time.Time
	// Ways are by the side that dials: of index 0 is the way from A to B.
	Ways [2]Way
}

// Way is from the pods of one cluster to a Service and to the API server of the other.
type Way struct {
	// Unknown is why UDP was not tried; "" if it was.
	Unknown string
	Dials   []Dial
	// Arrived is how many packets the pod behind the Service has seen, and From whom: their
	// addresses as they look there.
	Arrived int
	From    []string
	API     API
}

// Dial is what became of one address of the Service.
type Dial struct {
	Address   string // host:port
	Sent      int
	Answered  int
	RoundTrip time.Duration
	// Largest packet that arrived unfragmented, in bytes with its IP header; 0 if that is
	// not known.
	Largest int
	Problem string // why nothing could be sent
}

// API is what became of a request to the other cluster's API server.
type API struct {
	URL     string
	Unknown string // why it was not tried; "" if it was
	Problem string // "" if it has answered
}

// Tried reports whether packets were sent.
func (w Way) Tried() bool { return w.Unknown == "" && len(w.Dials) > 0 }

// Open reports whether an address has answered: packets pass both ways.
func (w Way) Open() bool { return slices.ContainsFunc(w.Dials, Dial.open) }

// Closed reports whether none has, although all was tried.
func (w Way) Closed() bool { return w.Tried() && !w.Open() }

func (d Dial) open() bool { return d.Answered > 0 }

// Silent are the addresses that did not answer.
func (w Way) Silent() (addresses []string) {
	for _, d := range w.Dials {
		if !d.open() {
			addresses = append(addresses, d.Address)
		}
	}
	return addresses
}

// Largest is the longest packet that passed, in bytes with its IP header; 0 if that is
// not known.
func (w Way) Largest() (size int) {
	for _, d := range w.Dials {
		size = max(size, d.Largest)
	}
	return size
}

// Text says what became of each address, a line each.
func (w Way) Text() (lines []string) {
	for _, d := range w.Dials {
		switch {
		case d.Problem != "":
			lines = append(lines, fmt.Sprintf("UDP %s: %s", d.Address, d.Problem))
		case !d.open():
			lines = append(lines, fmt.Sprintf("UDP %s: no answer", d.Address))
		default:
			text := fmt.Sprintf("UDP %s: %d of %d packets were answered, round trip %.1f ms", d.Address, d.Answered, d.Sent, float64(d.RoundTrip.Microseconds())/1000)
			if d.Largest > 0 {
				text += fmt.Sprintf(", largest packet %d bytes", d.Largest)
			}
			lines = append(lines, text)
		}
	}
	if w.Arrived > 0 {
		lines = append(lines, fmt.Sprintf("%d packets arrived there, from %s", w.Arrived, strings.Join(w.From, ", ")))
	} else if w.Tried() {
		lines = append(lines, "no packet arrived there")
	}
	return lines
}
