package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// withStub returns the text of kube-dns' stub domains, a JSON object, with the zone. The rest of the
// text stays as it is. written is set if we have written the text before.
func withStub(text string, server netip.Addr, written bool) (string, error) {
	rest, _ := withoutStub(text, server, written)
	entry := fmt.Sprintf("%q: [%q]", Zone, server)
	if rest == "" {
		return "{" + entry + "}", nil
	}
	var domains map[string][]string
	if err := json.Unmarshal([]byte(rest), &domains); err != nil || domains == nil {
		return "", errors.New("its stubDomains are no JSON object of lists")
	}
	for domain := range domains {
		if within(zoneOf(domain)) {
			return "", fmt.Errorf("it has the stub domain %s already: another program answers for it", domain)
		}
	}
	// The space tells this apart from a text that we have made as a whole.
	entry = " " + entry
	if len(domains) > 0 {
		entry += ","
	}
	return strings.Replace(rest, "{", "{"+entry, 1), nil
}

// withoutStub returns the text without our entry, and whether it had one. The text is "" if we have made
// it as a whole. An entry of the same form is ours if it names our server, or if we have written the text.
func withoutStub(text string, server netip.Addr, written bool) (rest string, ours bool) {
	const begin, end = `"` + Zone + `": ["`, `"]`
	before, behind, ok := strings.Cut(text, begin)
	if !ok {
		return text, false
	}
	address, behind, ok := strings.Cut(behind, end)
	if a, err := netip.ParseAddr(address); !ok || err != nil || a != server && !written {
		return text, false
	}
	switch {
	case before == "{" && behind == "}":
		return "", true
	case strings.TrimLeft(before, " \n\t") == "{ ": // as we write it
		return strings.TrimSuffix(before, " ") + strings.TrimPrefix(behind, ","), true
	}
	return text, false
}
