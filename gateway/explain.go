package gateway

import (
	"fmt"
	"slices"
	"strconv"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// Explain lists the differences between have and want, one readable line each, in the order of KernelState's
// fields. The list is empty if they are equal. It contains no private keys. A field that want leaves to the
// kernel (listen port, endpoint, implementation) is not compared.
func Explain(have, want KernelState) []string {
	var lines []string
	lines = append(lines, DiffLinks(have.Links, want.Links).Lines...)
	lines = append(lines, explainTunnels(have.Tunnels, want.Tunnels)...)
	lines = append(lines, DiffSettings(have.Settings, want.Settings).Lines...)
	lines = append(lines, DiffNeighbors(have.Neighbors, want.Neighbors).Lines...)
	lines = append(lines, DiffForwards(have.Forwards, want.Forwards).Lines...)
	lines = append(lines, DiffRoutes(have.Routes, want.Routes).Lines...)
	lines = append(lines, DiffRules(have.Rules, want.Rules).Lines...)
	return append(lines, ExplainFirewall(have.Firewall, want.Firewall)...)
}

// Change is the difference between two lists of T. Add also contains the items whose attributes have to
// change.
type Change[T any] struct {
	Add, Remove []T
	Lines       []string
}

// diff pairs the items that have the same identity, and compares their other fields.
func diff[T interface {
	comparable
	fmt.Stringer
}, K comparable](have, want []T, key func(T) K) Change[T] {
	var c Change[T]
	found := make(map[K]T, len(have))
	for _, h := range have {
		if other, twice := found[key(h)]; twice {
			// The kernel has two items with the same identity, but we want at most one.
			c.Remove = append(c.Remove, other)
			c.Lines = append(c.Lines, "unexpected: "+other.String())
		}
		found[key(h)] = h
	}
	for _, w := range want {
		h, ok := found[key(w)]
		delete(found, key(w))
		switch {
		case !ok:
			c.Add = append(c.Add, w)
			c.Lines = append(c.Lines, "missing: "+w.String())
		case h != w:
			c.Add = append(c.Add, w)
			c.Lines = append(c.Lines, h.String()+" → "+w.String())
		}
	}
	for _, h := range have {
		if f, ok := found[key(h)]; ok && f == h {
			c.Remove = append(c.Remove, h)
			c.Lines = append(c.Lines, "unexpected: "+h.String())
			delete(found, key(h))
		}
	}
	return c
}

// DiffLinks compares by name.
func DiffLinks(have, want []Link) Change[Link] {
	return diff(have, want, func(l Link) string { return l.Name })
}

// DiffSettings compares by device and name.
func DiffSettings(have, want []Setting) Change[Setting] {
	return diff(have, want, func(s Setting) Setting { s.Value = 0; return s })
}

// DiffNeighbors compares by device and address.
func DiffNeighbors(have, want []Neighbor) Change[Neighbor] {
	return diff(have, want, func(n Neighbor) Neighbor { n.MAC = MAC{}; return n })
}

// DiffForwards compares whole entries. A device can send frames for one MAC to several
// addresses, so a second entry is not a changed first entry.
func DiffForwards(have, want []Forward) Change[Forward] {
	return diff(have, want, func(f Forward) Forward { return f })
}

// DiffRules compares whole rules: in the kernel, a rule has no other identity.
func DiffRules(have, want []Rule) Change[Rule] {
	return diff(have, want, func(r Rule) Rule { return r })
}

// DiffRoutes compares by table, destination and metric, as the kernel does.
func DiffRoutes(have, want []Route) Change[Route] {
	return diff(have, want, func(r Route) Route {
		return Route{Table: r.Table, Destination: r.Destination, Metric: r.Metric}
	})
}

func explainTunnels(have, want []Tunnel) []string {
	var lines []string
	for _, w := range want {
		i := slices.IndexFunc(have, func(h Tunnel) bool { return h.Device == w.Device })
		if i < 0 {
			lines = append(lines, "missing: tunnel "+w.Device)
			continue
		}
		lines = append(lines, ExplainTunnel(have[i], w)...)
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w Tunnel) bool { return w.Device == h.Device }) {
			lines = append(lines, "unexpected: tunnel "+h.Device)
		}
	}
	return lines
}

// ExplainTunnel compares two states of the same device.
func ExplainTunnel(have, want Tunnel) []string {
	var lines []string
	changed := func(what string, from, to any) {
		lines = append(lines, fmt.Sprintf("tunnel %s: %s %v → %v", want.Device, what, from, to))
	}
	if want.Implementation != Auto && have.Implementation != want.Implementation {
		changed("implementation", have.Implementation, want.Implementation)
	}
	if have.Address != want.Address {
		changed("address", have.Address, want.Address)
	}
	if have.MTU != want.MTU {
		changed("mtu", have.MTU, want.MTU)
	}
	if have.Alias != want.Alias {
		changed("alias", strconv.Quote(have.Alias), strconv.Quote(want.Alias))
	}
	if have.Up != want.Up {
		changed("link", upText(have.Up), upText(want.Up))
	}
	if have.PrivateKey != want.PrivateKey {
		changed("own key", publicOf(have.PrivateKey), publicOf(want.PrivateKey))
	}
	if want.ListenPort != 0 && have.ListenPort != want.ListenPort {
		changed("listen port", have.ListenPort, want.ListenPort)
	}
	if have.PublicKey != want.PublicKey {
		changed("peer", keyText(have.PublicKey), keyText(want.PublicKey))
	}
	if have.NextKey != want.NextKey {
		changed("next key of the peer", keyText(have.NextKey), keyText(want.NextKey))
	}
	if want.PublicKey == (wgtypes.Key{}) {
		return lines
	}
	if want.Endpoint.IsValid() && have.Endpoint != want.Endpoint {
		changed("peer endpoint", endpointText(have), endpointText(want))
	}
	if have.Keepalive != want.Keepalive {
		changed("keepalive", have.Keepalive, want.Keepalive)
	}
	return lines
}

func publicOf(k PrivateKey) string {
	if k.IsZero() {
		return "none"
	}
	return k.Public().String()
}

func keyText(k wgtypes.Key) string {
	if k == (wgtypes.Key{}) {
		return "none"
	}
	return k.String()
}

func endpointText(t Tunnel) string {
	if !t.Endpoint.IsValid() {
		return "none"
	}
	return t.Endpoint.String()
}

// ExplainFirewall lists the differences between two tables. If a whole table is missing, the list contains
// one line.
func ExplainFirewall(have, want Table) []string {
	if have.Name == "" && want.Name != "" {
		return []string{"missing: nft table ip " + want.Name}
	}
	if want.Name == "" && have.Name != "" {
		return []string{"unexpected: nft table ip " + have.Name}
	}
	h, w := have.lines(), want.lines()
	var lines []string
	for _, l := range without(w, h) {
		lines = append(lines, "missing: nft "+l)
	}
	for _, l := range without(h, w) {
		lines = append(lines, "unexpected: nft "+l)
	}
	return lines
}

func without(list, other []string) []string {
	found := make(map[string]bool, len(other))
	for _, o := range other {
		found[o] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(l string) bool { return found[l] })
}
