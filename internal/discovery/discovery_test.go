package discovery_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/liqo-tui/liqo-tui/internal/discovery"
)

var milan = discovery.Cluster{ID: "milan", Server: netip.MustParseAddrPort("192.168.1.20:6443")}

// ask returns one question, as another program sends it.
func ask(t *testing.T, name string, kind dnsmessage.Type, class dnsmessage.Class) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: class}}}
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

func TestAQuestionOfOursIsAnsweredWhole(t *testing.T) {
	question, err := discovery.Question()
	if err != nil {
		t.Fatal(err)
	}
	for _, legacy := range []bool{true, false} {
		reply, multicast, err := milan.Reply(question, legacy)
		if err != nil || multicast {
			t.Fatalf("got multicast %t, %v", multicast, err)
		}
		found, unfit := discovery.Read(reply)
		if !slices.Equal(found, []discovery.Cluster{milan}) || unfit != 0 {
			t.Errorf("got %v and %d unfit, want %v", found, unfit, milan)
		}
	}
}

// Other programs ask for the records one after the other, as RFC 6763 describes.
func TestAnswersFollowTheStandard(t *testing.T) {
	const shared, own = dnsmessage.ClassINET, dnsmessage.ClassINET | 1<<15
	for _, c := range []struct {
		question string
		kind     dnsmessage.Type
		class    dnsmessage.Class // of the answer, by multicast
		want     string
	}{
		{"_services._dns-sd._udp.local.", dnsmessage.TypePTR, shared, "_liqo-tui._tcp.local."},
		{"_liqo-tui._tcp.local.", dnsmessage.TypePTR, shared, "milan._liqo-tui._tcp.local."},
		{"_Liqo-TUI._tcp.LOCAL.", dnsmessage.TypePTR, shared, "milan._liqo-tui._tcp.local."},
		{"milan._liqo-tui._tcp.local.", dnsmessage.TypeSRV, own, "Port: 6443"},
		{"milan._liqo-tui._tcp.local.", dnsmessage.TypeTXT, own, `"id=milan"`},
		{"milan.liqo-tui.local.", dnsmessage.TypeA, own, "192, 168, 1, 20"},
	} {
		var m dnsmessage.Message
		reply, multicast, err := milan.Reply(ask(t, c.question, c.kind, dnsmessage.ClassINET), false)
		if err != nil || m.Unpack(reply) != nil || len(m.Answers) != 1 {
			t.Fatalf("%s %s: got %d answers, %v", c.question, c.kind, len(m.Answers), err)
		}
		a := m.Answers[0]
		text := strings.NewReplacer(`\x5f`, "_", `\x3d`, "=").Replace(a.Body.GoString())
		if !strings.Contains(text, c.want) || a.Header.Class != c.class || a.Header.TTL != 120 || !multicast || m.ID != 0 || len(m.Questions) != 0 {
			t.Errorf("%s %s: got %s, class %x, TTL %d, multicast %t, ID %d, %d questions", c.question, c.kind, text, a.Header.Class, a.Header.TTL, multicast, m.ID, len(m.Questions))
		}
		// A usual client gets the ID and the question, and no bit that it does not know.
		reply, multicast, err = milan.Reply(ask(t, c.question, c.kind, dnsmessage.ClassINET), true)
		if err != nil || m.Unpack(reply) != nil || m.ID != 7 || len(m.Questions) != 1 || multicast || m.Answers[0].Header.Class != shared || m.Answers[0].Header.TTL > 10 {
			t.Errorf("%s %s, from another port: got %+v, %v", c.question, c.kind, m, err)
		}
	}
}

func TestWhatIsNotOfTheClusterIsNotAnswered(t *testing.T) {
	question, _ := discovery.Question()
	reply, _, _ := milan.Reply(question, false)
	for name, packet := range map[string][]byte{
		"nothing":           {},
		"no DNS":            []byte("hello, is anybody there?"),
		"an answer":         reply,
		"another service":   ask(t, "_ssh._tcp.local.", dnsmessage.TypePTR, dnsmessage.ClassINET),
		"another cluster":   ask(t, "turin._liqo-tui._tcp.local.", dnsmessage.TypeSRV, dnsmessage.ClassINET),
		"an IPv6 address":   ask(t, "milan.liqo-tui.local.", dnsmessage.TypeAAAA, dnsmessage.ClassINET),
		"cut off":           question[:len(question)-3],
		"the common domain": ask(t, "_liqo-tui._tcp.example.com.", dnsmessage.TypePTR, dnsmessage.ClassINET),
	} {
		if reply, _, err := milan.Reply(packet, false); reply != nil || err != nil {
			t.Errorf("%s: got %q, %v, want no answer", name, reply, err)
		}
	}
}

// Every machine in a LAN may send any announcement.
func TestAnnouncementsThatNoClusterCanHaveMade(t *testing.T) {
	question, _ := discovery.Question()
	for _, c := range []discovery.Cluster{
		{ID: "milan", Server: netip.AddrPortFrom(milan.Server.Addr(), 0)},
		{ID: "Milan", Server: milan.Server},
		{ID: "\x1b[31m", Server: milan.Server},
		{ID: "milan", Server: netip.MustParseAddrPort("127.0.0.1:6443")},
		{ID: "milan", Server: netip.MustParseAddrPort("224.0.0.1:6443")},
	} {
		reply, _, err := c.Reply(question, true)
		if err != nil {
			t.Fatal(err)
		}
		if found, unfit := discovery.Read(reply); len(found) != 0 || unfit != 1 {
			t.Errorf("%q at %s: got %v, %d unfit", c.ID, c.Server, found, unfit)
		}
	}
	if found, unfit := discovery.Read(question); found != nil || unfit != 0 {
		t.Errorf("a question was read as an answer: %v, %d", found, unfit)
	}
}

// A browsing machine sends the answers that it knows. Otherwise all nodes of all clusters would repeat their
// answers each time.
func TestWhatIsKnownIsNotSaidAgain(t *testing.T) {
	for name, c := range map[string]struct {
		ttl    uint32
		points string
		want   bool // an answer
	}{
		"known":              {120, "milan._liqo-tui._tcp.local.", false},
		"soon forgotten":     {59, "milan._liqo-tui._tcp.local.", true},
		"of another cluster": {120, "turin._liqo-tui._tcp.local.", true},
	} {
		m := dnsmessage.Message{
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("_liqo-tui._tcp.local."), Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}},
			Answers: []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("_liqo-tui._tcp.local."), Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET, TTL: c.ttl},
				Body:   &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(c.points)},
			}},
		}
		packet, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		reply, _, err := milan.Reply(packet, false)
		if got := reply != nil; got != c.want || err != nil {
			t.Errorf("%s: answered %t, %v, want %t", name, got, err, c.want)
		}
	}
}

// The packet may contain records of others that this program can't read, such as a printer's name with a dot.
func TestAQuestionBesideWhatCannotBeReadIsAnswered(t *testing.T) {
	const printer = "\x0bPrinter 2.4\x04_ipp\x04_tcp\x05local\x00\x00\x21\x00\x01"
	ours := ask(t, "_liqo-tui._tcp.local.", dnsmessage.TypePTR, dnsmessage.ClassINET)
	const header = 12
	answered := append(slices.Clone(ours), printer+"\x00\x00\x00\x78\x00\x02\xc0\x0c"...)
	answered[7] = 1 // how many answers follow
	asked := slices.Concat(ours[:header], []byte(printer), ours[header:])
	asked[5] = 2 // how many questions
	for name, packet := range map[string][]byte{"an answer": answered, "a question": asked} {
		if reply, _, err := milan.Reply(packet, false); reply == nil || err != nil {
			t.Errorf("%s: got %q, %v, want an answer", name, reply, err)
		}
	}
}

// An answer must not be much longer than the question, because an attacker can ask with another machine's
// address.
func TestAnAnswerIsShort(t *testing.T) {
	m := dnsmessage.Message{}
	for range 17 {
		m.Questions = append(m.Questions, dnsmessage.Question{Name: dnsmessage.MustNewName("_liqo-tui._tcp.local."), Type: dnsmessage.TypeALL, Class: dnsmessage.ClassINET})
	}
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if reply, _, err := milan.Reply(packet, true); reply != nil || err != nil {
		t.Errorf("got an answer of %d bytes, %v", len(reply), err)
	}
	m.Questions = m.Questions[:16]
	packet, _ = m.Pack()
	if reply, _, err := milan.Reply(packet, true); err != nil || reply == nil || len(reply) > len(packet)+500 {
		t.Errorf("got %d bytes for %d, %v", len(reply), len(packet), err)
	}
}

func FuzzRead(f *testing.F) {
	question, _ := discovery.Question()
	reply, _, _ := milan.Reply(question, true)
	f.Add(question)
	f.Add(reply)
	f.Fuzz(func(t *testing.T, packet []byte) {
		found, _ := discovery.Read(packet)
		for _, c := range found {
			if c.ID.Validate() != nil || !c.Server.IsValid() {
				t.Errorf("found %+v", c)
			}
		}
		if reply, _, err := milan.Reply(packet, true); err != nil || len(reply) > 5000 {
			t.Errorf("%d bytes, %v", len(reply), err)
		}
	})
}

func TestServersThatCanBeAnnounced(t *testing.T) {
	for text, want := range map[string]string{
		"https://192.168.1.20:6443":        "192.168.1.20:6443",
		"https://192.168.1.20":             "192.168.1.20:443",
		"https://192.168.1.20:6443/":       "192.168.1.20:6443",
		"192.168.1.20:6443":                "want a URL like",
		"http://192.168.1.20:6443":         "want a URL like",
		"https://me@192.168.1.20:6443":     "want a URL like",
		"https://192.168.1.20:6443/k8s/c1": "want a URL like",
		"https://api.example:6443":         "no IPv4 address",
		"https://[fd00::1]:6443":           "no IPv4 address",
		"https://127.0.0.1:6443":           "nobody else reaches",
		"https://0.0.0.0:6443":             "nobody else reaches",
		"https://192.168.1.20:0":           "nobody else reaches",
		"https://192.168.1.20/?a,b":        "want a URL like",
		"https://192.168.1.20/#a":          "want a URL like",
	} {
		got, err := discovery.ParseServer(text)
		if said := got.String(); err != nil && !strings.Contains(err.Error(), want) || err == nil && said != want {
			t.Errorf("%s: got %s, %v, want %s", text, said, err, want)
		}
	}
}
