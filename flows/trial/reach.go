package trial

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reach has the results of test pods in two clusters, before gateways exist.
type Reach struct {
	At time.Time
	// Ways has the ways by the side that dials: index 0 is the way from A to B.
	Ways [2]Way
}

// Way leads from the pods of one cluster to a Service and to the API server of the other
// one.
type Way struct {
	// Unknown is the reason that UDP was not tried; "" if it was tried.
	Unknown string
	Dials   []Dial
	// Arrived is the number of packets that the pod behind the Service has received. From
	// has the source addresses of these packets.
	Arrived int
	From    []string
	API     API
}

// Dial is the result for one address of the Service.
type Dial struct {
	Address   string // host:port
	Sent      int
	Answered  int
	RoundTrip time.Duration
	// Largest is the size of the largest packet that arrived unfragmented, in bytes with
	// its IP header; 0 if unknown.
	Largest int
	Problem string // the reason that no packet could be sent
}

// API is the result of a request to the other cluster's API server.
type API struct {
	URL     string
	Unknown string // the reason that it was not tried; "" if it was tried
	Problem string // "" if the API server has answered
}

// Tried reports whether packets were sent.
func (w Way) Tried() bool { return w.Unknown == "" && len(w.Dials) > 0 }

// Open reports whether an address has answered, so packets pass in both directions.
func (w Way) Open() bool { return slices.ContainsFunc(w.Dials, Dial.open) }

// Closed reports whether no address has answered, although packets were sent.
func (w Way) Closed() bool { return w.Tried() && !w.Open() }

func (d Dial) open() bool { return d.Answered > 0 }

// Silent returns the addresses that did not answer.
func (w Way) Silent() (addresses []string) {
	for _, d := range w.Dials {
		if !d.open() {
			addresses = append(addresses, d.Address)
		}
	}
	return addresses
}

// Largest returns the size of the longest packet that passed, in bytes with its IP header;
// 0 if unknown.
func (w Way) Largest() (size int) {
	for _, d := range w.Dials {
		size = max(size, d.Largest)
	}
	return size
}

// Text describes the results, a line for each address.
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
