// Package discovery is how clusters are announced and found: as DNS-based Service Discovery
// (RFC 6763) has it, by multicast in a LAN (RFC 6762).
//
// What is found is a hint. Anybody in a LAN can announce anything: only the certificate of an API
// server, checked with an admin's kubeconfig, says which cluster it is.
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
	services = "_services._dns-sd._udp.local." // RFC 6763, section 9: which services there are
	hosts    = ".liqo-tui.local."
	// IDKey is how the text of a cluster begins that gives its ID.
	IDKey = "id="
)

// Cluster is one that is announced.
type Cluster struct {
	ID wire.ClusterID
	// Server is where its API server answers TLS. In a LAN it is an address: it may have no
	// name server.
	Server netip.AddrPort
}

// ParseServer reads the URL of an API server that can be announced in a LAN.
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

// reachable reports whether another machine can have an API server there.
func reachable(server netip.AddrPort) bool {
	return server.Addr().IsGlobalUnicast() && server.Port() != 0
}

// Question asks a LAN which clusters there are. Answers are wanted by unicast.
func Question() ([]byte, error) {
	name, err := dnsmessage.NewName(local)
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET | unicast}}}
	return m.Pack()
}

const (
	// unicast in the class of a question asks for answers that others don't hear, and in that of
	// a record it says that there is no other one of that name: RFC 6762, sections 5.4 and 10.2.
	unicast = 1 << 15
	unique  = unicast
	// lifetime of a record, in seconds, as RFC 6762, section 10, has it for those with addresses;
	// shortLived for those that ask without a cache, as section 6.7 wants it.
	lifetime   = 120
	shortLived = 10
)

// mostQuestions is more than a common client asks at once. Its questions are in the answer, which
// could be many times as long as a packet with more of them.
const mostQuestions = 16

// Reply is the answer to a packet that has been heard; no message where nothing of the cluster is
// asked, or all of it is known to who asks (RFC 6762, section 7.1). legacy says that the packet did
// not come from the port of mDNS: its sender expects the answer of a common name server. multicast
// reports whether all are to hear the answer.
func (c Cluster) Reply(packet []byte, legacy bool) (message []byte, multicast bool, err error) {
	id, questions, known := ask(packet)
	if len(questions) == 0 || legacy && len(questions) > mostQuestions {
		return nil, false, nil // many talk on this port
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
			reply.Additionals = append(reply.Additionals, r) // who has the one asks for the others next
		}
	}
	if legacy {
		reply.ID, reply.Questions = id, questions
	}
	message, err = reply.Pack()
	return message, multicast && !legacy, err
}

// ask reads a packet as questions, and what its sender knows. It leaves out names that others have
// and this parser does not read, such as a printer's with a dot.
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

// knows reports whether who has said k needs not be told r.
func knows(k, r dnsmessage.Resource) bool {
	return k.Header.Type == r.Header.Type && strings.EqualFold(k.Header.Name.String(), r.Header.Name.String()) &&
		k.Header.TTL >= lifetime/2 && strings.EqualFold(k.Body.GoString(), r.Body.GoString())
}

// records are all of a cluster.
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
		case kind != dnsmessage.TypePTR: // others point to theirs
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

// Read are the clusters that an answer announces whole, and how many it announces besides
// that no cluster can be.
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

// IDOf is the cluster's ID that texts of a record give; "" if none does.
func IDOf(texts []string) wire.ClusterID {
	for _, text := range texts {
		if id, ok := strings.CutPrefix(text, IDKey); ok {
			return wire.ClusterID(id)
		}
	}
	return ""
}
