// Package discovery describes how clusters are announced and found, with DNS-based Service
// Discovery (RFC 6763) by multicast in a LAN (RFC 6762).
//
// A found cluster is a hint. Anybody in a LAN can announce anything. Only the certificate of an API server,
// checked with an admin's kubeconfig, proves the identity of a cluster.
package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Names of DNS-based Service Discovery. The service is the API server of a cluster.
const (
	Service  = "_liqo-tui._tcp" // a label has 15 characters at most: RFC 6335, section 5.1
	local    = Service + ".local."
	services = "_services._dns-sd._udp.local." // the name for all services: RFC 6763, section 9
	hosts    = ".liqo-tui.local."
	// IDKey is the prefix of the text that contains a cluster's ID.
	IDKey = "id="
)

// Cluster is an announced cluster.
type Cluster struct {
	ID wire.ClusterID
	// Server is the address of its API server. In a LAN it is an IP address, because the LAN may
	// have no name server.
	Server netip.AddrPort
}

// ParseServer parses the URL of an API server for an announcement in a LAN.
func ParseServer(text string) (netip.AddrPort, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return netip.AddrPort{}, errors.New("want a URL like https://192.168.1.20:6443")
	}
	server, err := netip.ParseAddrPort(u.Hostname() + ":" + cmp.Or(u.Port(), "443"))
	switch {
	case err != nil:
		return server, fmt.Errorf("%s is no IPv4 address, and machines of a LAN may know no name", u.Hostname())
	case !reachable(server):
		return server, fmt.Errorf("nobody else reaches %s: name the API server's address in the LAN", server)
	}
	return server, nil
}

// reachable reports whether an API server at this address can be on another machine.
func reachable(server netip.AddrPort) bool {
	return server.Addr().IsGlobalUnicast() && server.Port() != 0
}

// Question returns a packet that asks all clusters in a LAN for answers by unicast.
func Question() ([]byte, error) {
	name, err := dnsmessage.NewName(local)
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET | unicast}}}
	return m.Pack()
}

const (
	// unicast, in the class of a question, asks for an answer to the sender alone. In the class of a record,
	// the same bit means that no other record has that name: RFC 6762, sections 5.4 and 10.2.
	unicast = 1 << 15
	unique  = unicast
	// lifetime is the lifetime of a record in seconds: RFC 6762, section 10, for records with host names.
	// shortLived is the lifetime for senders without a cache: section 6.7.
	lifetime   = 120
	shortLived = 10
)

// mostQuestions is more than a common client asks at once. The limit is needed because the answer repeats the
// questions, and could become many times as long as the packet.
const mostQuestions = 16

// Reply returns the answer to a received packet. It returns no message if there is no question about the
// cluster, or if the sender already knows everything (RFC 6762, section 7.1). legacy means that the packet
// did not come from the port of mDNS, so its sender expects the answer of a common name server. multicast
// reports whether the answer has to go to everybody.
func (c Cluster) Reply(packet []byte, legacy bool) (message []byte, multicast bool, err error) {
	id, questions, known := ask(packet)
	if len(questions) == 0 || legacy && len(questions) > mostQuestions {
		return nil, false, nil // other services use this port, too
	}
	records, err := c.records(legacy)
	if err != nil {
		return nil, false, err
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{Response: true, Authoritative: true}}
	said := map[int]bool{}
	for _, q := range questions {
		for i, r := range records {
			if !said[i] && strings.EqualFold(r.Header.Name.String(), q.Name.String()) && (q.Type == r.Header.Type || q.Type == dnsmessage.TypeALL) {
				said[i] = true
				if !slices.ContainsFunc(known, func(k dnsmessage.Resource) bool { return knows(k, r) }) {
					reply.Answers = append(reply.Answers, r)
					multicast = multicast || q.Class&unicast == 0
				}
			}
		}
	}
	if len(reply.Answers) == 0 {
		return nil, false, nil
	}
	for i, r := range records {
		if !said[i] && r.Header.Name.String() != services {
			reply.Additionals = append(reply.Additionals, r) // otherwise the sender would ask for these records next
		}
	}
	if legacy {
		reply.ID, reply.Questions = id, questions
	}
	message, err = reply.Pack()
	return message, multicast && !legacy, err
}

// ask reads the questions of a packet, and the records that its sender knows. It leaves out names of other
// services that the parser can't read, such as a printer's name with a dot.
func ask(packet []byte) (id uint16, questions []dnsmessage.Question, known []dnsmessage.Resource) {
	var p dnsmessage.Parser
	header, err := p.Start(packet)
	if err != nil || header.Response || header.OpCode != 0 {
		return 0, nil, nil
	}
	for !errors.Is(err, dnsmessage.ErrSectionDone) {
		var q dnsmessage.Question
		if q, err = p.Question(); err == nil {
			questions = append(questions, q)
		} else if !errors.Is(err, dnsmessage.ErrSectionDone) && p.SkipQuestion() != nil {
			return 0, nil, nil
		}
	}
	for {
		r, err := p.Answer()
		if err != nil {
			return header.ID, questions, known
		}
		known = append(known, r)
	}
}

// knows reports whether a sender with record k does not need record r.
func knows(k, r dnsmessage.Resource) bool {
	return k.Header.Type == r.Header.Type && strings.EqualFold(k.Header.Name.String(), r.Header.Name.String()) &&
		k.Header.TTL >= lifetime/2 && strings.EqualFold(k.Body.GoString(), r.Body.GoString())
}

func (c Cluster) records(legacy bool) ([]dnsmessage.Resource, error) {
	var names [4]dnsmessage.Name
	var errs [4]error
	for i, text := range []string{services, local, string(c.ID) + "." + local, string(c.ID) + hosts} {
		names[i], errs[i] = dnsmessage.NewName(text)
	}
	kinds, service, instance, host := names[0], names[1], names[2], names[3]
	header := func(name dnsmessage.Name, kind dnsmessage.Type) dnsmessage.ResourceHeader {
		h := dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET, TTL: lifetime}
		switch {
		case legacy:
			h.TTL = shortLived
		case kind != dnsmessage.TypePTR: // other clusters have records of the same name
			h.Class |= unique
		}
		return h
	}
	return []dnsmessage.Resource{
		{Header: header(service, dnsmessage.TypePTR), Body: &dnsmessage.PTRResource{PTR: instance}},
		{Header: header(kinds, dnsmessage.TypePTR), Body: &dnsmessage.PTRResource{PTR: service}},
		{Header: header(instance, dnsmessage.TypeSRV), Body: &dnsmessage.SRVResource{Target: host, Port: c.Server.Port()}},
		{Header: header(instance, dnsmessage.TypeTXT), Body: &dnsmessage.TXTResource{TXT: []string{IDKey + string(c.ID)}}},
		{Header: header(host, dnsmessage.TypeA), Body: &dnsmessage.AResource{A: c.Server.Addr().As4()}},
	}, errors.Join(errs[:]...)
}

// Read returns the complete clusters in an answer, and the number of announcements that can't be a cluster.
func Read(packet []byte) (found []Cluster, unfit int) {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || !m.Response {
		return nil, 0
	}
	servers, addresses, ids := map[string]*dnsmessage.SRVResource{}, map[string]netip.Addr{}, map[string]wire.ClusterID{}
	var instances []string
	for _, r := range slices.Concat(m.Answers, m.Additionals) {
		name := strings.ToLower(r.Header.Name.String())
		switch body := r.Body.(type) {
		case *dnsmessage.PTRResource:
			if to := strings.ToLower(body.PTR.String()); name == local && !slices.Contains(instances, to) {
				instances = append(instances, to)
			}
		case *dnsmessage.SRVResource:
			servers[name] = body
		case *dnsmessage.AResource:
			addresses[name] = netip.AddrFrom4(body.A)
		case *dnsmessage.TXTResource:
			ids[name] = IDOf(body.TXT)
		}
	}
	for _, instance := range instances {
		c := Cluster{ID: ids[instance]}
		if srv := servers[instance]; srv != nil {
			c.Server = netip.AddrPortFrom(addresses[strings.ToLower(srv.Target.String())], srv.Port)
		}
		if c.ID.Validate() != nil || !reachable(c.Server) {
			unfit++
			continue
		}
		found = append(found, c)
	}
	return found, unfit
}

// IDOf returns the cluster's ID in the texts of a record; "" if there is none.
func IDOf(texts []string) wire.ClusterID {
	for _, text := range texts {
		if id, ok := strings.CutPrefix(text, IDKey); ok {
			return wire.ClusterID(id)
		}
	}
	return ""
}
