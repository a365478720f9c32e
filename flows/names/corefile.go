package names

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The lines around our block. It comes first, so that the text behind it stays as it was, even where
// its last line does not end.
const (
	beginMark = "# BEGIN liqo-tui: the names of imported Services. liqo-tui uninstall removes this.\n"
	endMark   = "# END liqo-tui\n"
)

// withBlock returns a Corefile with our block. Its error is the reason that a block can't be added.
func withBlock(text string, server netip.Addr) (string, error) {
	rest := cut(text)
	blocks, err := parse(rest)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(blocks, func(b block) bool { return b.forwards(server) }) {
		return rest, nil // somebody has kept the block, and has dropped the marks
	}
	if err := foreign(blocks); err != nil {
		return "", err
	}
	return beginMark + serverBlock(rest, server) + endMark + rest, nil
}

// withoutBlock returns a Corefile without our block. A block without our marks is ours if it forwards
// the zone to our server: a program that rewrites a Corefile may drop the comments.
func withoutBlock(text string, server netip.Addr) string {
	if rest := cut(text); rest != text {
		return rest
	}
	blocks, _ := parse(text)
	for _, b := range blocks {
		if b.forwards(server) {
			return text[:b.start] + text[b.end:]
		}
	}
	return text
}

// cut removes our marks and all between them.
func cut(text string) string {
	begin := strings.Index(text, beginMark)
	if begin < 0 {
		return text
	}
	length := strings.Index(text[begin:], endMark)
	if length < 0 {
		return text
	}
	return text[:begin] + text[begin+length+len(endMark):]
}

// serverBlock returns a server block that forwards the zone, with the port and the addresses of the
// other blocks in a Corefile. Both caches of the way together keep a missing name for 5 s, because
// people ask for a name before it exists.
func serverBlock(corefile string, server netip.Addr) string {
	blocks, _ := parse(cut(corefile))
	var model block
	for _, is := range []func(block) bool{
		func(b block) bool { return b.has("kubernetes") },
		func(b block) bool { return b.has("bind") },
		func(block) bool { return true },
	} {
		if i := slices.IndexFunc(blocks, func(b block) bool { return b.serves() && is(b) }); i >= 0 {
			model = blocks[i]
			break
		}
	}
	var lines []string
	var options string // of forward
	for _, d := range model.directives {
		if d[0] == "bind" {
			lines = append(lines, strings.Join(d, " "))
		}
		if d[0] == "forward" && slices.Contains(d, "force_tcp") { // as a cache on nodes asks
			options = " {\n        force_tcp\n    }"
		}
	}
	header := Zone
	if port := model.port(); port != "" {
		header += ":" + port
	}
	lines = append([]string{"errors", "cache 5"}, append(lines, "forward . "+server.String()+options)...)
	return header + " {\n    " + strings.Join(lines, "\n    ") + "\n}\n"
}

// foreign returns the reason that a Corefile already answers for the zone; nil if it does not.
func foreign(blocks []block) error {
	for _, b := range blocks {
		for _, k := range b.keys {
			if zone := zoneOf(k); within(zone) {
				return fmt.Errorf("it has a server block for %s already: another program answers for this zone", zone)
			}
		}
		for _, d := range b.directives {
			if slices.ContainsFunc(d, func(word string) bool { return within(zoneOf(word)) }) {
				return fmt.Errorf("plugin %s of the block for %s names %s already", d[0], cmp.Or(b.keys...), Zone)
			}
		}
	}
	return nil
}

// importsCustom reports whether a Corefile imports the server blocks in ConfigMap coredns-custom.
func importsCustom(corefile string) bool {
	blocks, _ := parse(corefile)
	return slices.ContainsFunc(blocks, func(b block) bool {
		return len(b.keys) == 2 && b.keys[0] == "import" && strings.HasSuffix(b.keys[1], "custom/*.server")
	})
}

// forwardsTo reports whether a Corefile forwards a zone to an address.
func forwardsTo(corefile, zone, address string) bool {
	blocks, _ := parse(corefile)
	return slices.ContainsFunc(blocks, func(b block) bool {
		return slices.ContainsFunc(b.keys, func(k string) bool { return zoneOf(k) == zone }) && slices.ContainsFunc(b.directives, func(d []string) bool {
			return d[0] == "forward" && slices.Contains(d, address)
		})
	})
}

// block is a server block of a Corefile, or an import outside of blocks: then its keys are the line.
type block struct {
	keys       []string   // such as .:53
	directives [][]string // the words of each, with those inside of its braces
	start, end int        // where it is in the text, with the line's end
}

// serves reports whether it is neither an import nor a snippet.
func (b block) serves() bool {
	return len(b.keys) > 0 && b.keys[0] != "import" && !strings.HasPrefix(b.keys[0], "(")
}

func (b block) has(plugin string) bool {
	return slices.ContainsFunc(b.directives, func(d []string) bool { return d[0] == plugin })
}

// forwards reports whether the block only forwards our zone to our server.
func (b block) forwards(server netip.Addr) bool {
	return server.IsValid() && len(b.keys) == 1 && zoneOf(b.keys[0]) == Zone && slices.ContainsFunc(b.directives, func(d []string) bool {
		return len(d) > 2 && d[0] == "forward" && d[2] == server.String()
	})
}

// port is the port of the block's keys; "" if they name none.
func (b block) port() string {
	for _, k := range b.keys {
		k = withoutScheme(k)
		if i := strings.LastIndex(k, ":"); i >= 0 {
			return k[i+1:]
		}
	}
	return ""
}

// zoneOf is the zone of a key such as dns://EXAMPLE.org.:53.
func zoneOf(key string) string {
	key = withoutScheme(key)
	if i := strings.LastIndex(key, ":"); i >= 0 {
		key = key[:i]
	}
	return strings.ToLower(strings.TrimSuffix(key, "."))
}

func withoutScheme(key string) string {
	if _, rest, ok := strings.Cut(key, "://"); ok {
		return rest
	}
	return key
}

func within(zone string) bool { return zone == Zone || strings.HasSuffix(zone, "."+Zone) }

// parse returns the server blocks of a Corefile, and its imports. It refuses what it can't read.
func parse(text string) ([]block, error) {
	var blocks []block
	lines, err := words(text)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(lines); i++ {
		head := lines[i]
		switch {
		case head.words[0] == "import":
			blocks = append(blocks, block{keys: head.words, start: head.start, end: head.end})
			continue
		case head.words[len(head.words)-1] != "{":
			return nil, fmt.Errorf("its Corefile has a line outside of blocks that liqo-tui does not know: %s", strings.Join(head.words, " "))
		}
		b, depth := block{start: head.start}, 1
		for _, k := range head.words[:len(head.words)-1] {
			if k = strings.TrimSuffix(k, ","); k != "" {
				b.keys = append(b.keys, k)
			}
		}
		for i++; i < len(lines); i++ {
			l := lines[i]
			if depth == 1 && l.words[0] != "}" {
				b.directives = append(b.directives, nil)
			}
			for _, w := range l.words {
				switch w {
				case "{":
					depth++
				case "}":
					depth--
				default:
					if n := len(b.directives); n > 0 {
						b.directives[n-1] = append(b.directives[n-1], w)
					}
				}
			}
			if depth == 0 {
				b.end = l.end
				break
			}
		}
		if depth != 0 {
			return nil, errors.New("a block of its Corefile does not end")
		}
		b.directives = slices.DeleteFunc(b.directives, func(d []string) bool { return len(d) == 0 }) // a line of braces alone
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		return nil, errors.New("it has no Corefile with server blocks")
	}
	return blocks, nil
}

// line has the words of one line, without comments.
type line struct {
	words      []string
	start, end int
}

// words splits a Corefile as the Caddyfile's grammar says: words end at spaces, and a comment begins
// with a word. It refuses quoted texts of several lines, which no DNS that we know has.
func words(text string) (all []line, err error) {
	at := 0
	for row := range strings.Lines(text) {
		l := line{start: at, end: at + len(row)}
		at = l.end
		rest := strings.TrimSpace(row)
		for rest != "" && rest[0] != '#' {
			n := strings.IndexAny(rest, " \t")
			if rest[0] == '"' {
				quote := strings.IndexByte(rest[1:], '"')
				if quote < 0 {
					return nil, fmt.Errorf("its Corefile has a quoted text that liqo-tui can't read: %s", strings.TrimSpace(row))
				}
				n = quote + 2
			}
			if n < 0 || n > len(rest) {
				n = len(rest)
			}
			l.words = append(l.words, strings.Trim(rest[:n], `"`))
			rest = strings.TrimSpace(rest[n:])
		}
		if len(l.words) > 0 {
			all = append(all, l)
		}
	}
	return all, nil
}
