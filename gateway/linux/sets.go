//go:build linux

package linux

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

func interfaceAddress() nftables.SetDatatype {
	return nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIPAddr)
}

func endpointType() nftables.SetDatatype {
	return nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
}

// addressRange returns the type of a value that is a range. For the kernel, such a value is two addresses.
// nft shows it as a range, because the set's user data names the type "interval ipv4_addr".
func addressRange() nftables.SetDatatype {
	t := nftables.TypeIPAddr
	t.Bytes *= 2
	return t
}

// compileSet declares a set or map. If the value is a prefix, it is declared as a range of two addresses.
func compileSet(table *nftables.Table, s gateway.Set, id uint32) *nftables.Set {
	set := &nftables.Set{Table: table, ID: id, Name: s.Name, Comment: s.Comment, Counter: s.Counts()}
	if s.Lately {
		set.Dynamic, set.HasTimeout, set.Timeout, set.Size = true, true, gateway.LatelyTime, gateway.LatelySize
	}
	switch s.Key {
	case gateway.KeyInterface:
		set.KeyType, set.KeyByteOrder = nftables.TypeIFName, binaryutil.NativeEndian
	case gateway.KeyAddress:
		set.KeyType, set.Interval = nftables.TypeIPAddr, true
	case gateway.KeyInterfaceAddress:
		set.KeyType, set.Interval, set.Concatenation = interfaceAddress(), true, true
	case gateway.KeyPort:
		set.KeyType = nftables.TypeInetService
	case gateway.KeyHost:
		set.KeyType = nftables.TypeIPAddr
	case gateway.KeyEndpoint:
		set.KeyType = endpointType()
	}
	switch s.Value {
	case gateway.ValuePrefix:
		set.IsMap, set.DataType, set.DataInterval = true, addressRange(), true
	case gateway.ValueMark:
		set.IsMap, set.DataType = true, nftables.TypeMark
	}
	return set
}

func compileElements(s gateway.Set) []nftables.SetElement {
	elements := make([]nftables.SetElement, 0, 2*len(s.Elements))
	for _, e := range s.Elements {
		value := compileValue(s.Value, e)
		var counter *expr.Counter
		if e.Counts {
			counter = &expr.Counter{}
		}
		switch s.Key {
		case gateway.KeyInterface:
			elements = append(elements, nftables.SetElement{Key: interfaceName(e.Interface), Val: value, Comment: e.Comment})
		case gateway.KeyPort:
			elements = append(elements, nftables.SetElement{Key: binary.BigEndian.AppendUint16(nil, e.Port), Val: value, Comment: e.Comment})
		case gateway.KeyHost:
			address := e.Prefix.Addr().As4()
			elements = append(elements, nftables.SetElement{Key: address[:], Val: value, Comment: e.Comment})
		case gateway.KeyEndpoint:
			elements = append(elements, nftables.SetElement{Key: endpointKey(e), Val: value, Comment: e.Comment})
		case gateway.KeyAddress:
			// An interval set has two elements for a range: the first address of the range, and
			// the first address after it.
			first, end := e.Prefix.Addr().As4(), last(e.Prefix)
			after := binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(end[:])+1)
			elements = append(elements,
				nftables.SetElement{Key: first[:], Val: value, Counter: counter, Comment: e.Comment},
				nftables.SetElement{Key: after, IntervalEnd: true})
		case gateway.KeyInterfaceAddress:
			first, end := e.Prefix.Addr().As4(), last(e.Prefix)
			elements = append(elements, nftables.SetElement{
				Key:    append(interfaceName(e.Interface), first[:]...),
				KeyEnd: append(interfaceName(e.Interface), end[:]...),
				Val:    value, Comment: e.Comment,
			})
		}
	}
	return elements
}

func compileValue(v gateway.Value, e gateway.Element) []byte {
	switch v {
	case gateway.ValuePrefix:
		first, end := e.To.Addr().As4(), last(e.To)
		return append(first[:], end[:]...)
	case gateway.ValueMark:
		return binary.NativeEndian.AppendUint32(nil, e.Mark)
	}
	return nil
}

// decodeSet is the reverse of compileSet and compileElements. For an element that it can't express, such as a
// range that is no prefix, it returns an element that is never wanted.
func decodeSet(set *nftables.Set, elements []nftables.SetElement) gateway.Set {
	found := gateway.Set{Name: set.Name, Comment: set.Comment}
	if set.IsMap {
		found.Value = gateway.ValuePrefix
		if set.DataType.Name == nftables.TypeMark.Name {
			found.Value = gateway.ValueMark
		}
	}
	switch {
	case set.Interval && set.Concatenation:
		found.Key = gateway.KeyInterfaceAddress
		for _, e := range elements {
			found.Elements = append(found.Elements, decodeConcatenation(e))
		}
	case set.Interval:
		found.Key = gateway.KeyAddress
		found.Elements = decodeIntervals(elements)
	default:
		if found.Lately = set.Dynamic; found.Lately {
			elements = nil // the rules own the elements
		}
		found.Key, found.Elements = decodeExact(set.KeyType.Name, elements)
	}
	slices.SortFunc(found.Elements, func(a, b gateway.Element) int {
		return cmp.Or(strings.Compare(a.Interface, b.Interface), a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	return found
}

// decodeExact decodes sets whose elements are no ranges.
func decodeExact(keyType string, elements []nftables.SetElement) (key gateway.Key, found []gateway.Element) {
	var decode func(key []byte) gateway.Element
	switch keyType {
	case nftables.TypeIFName.Name:
		key, decode = gateway.KeyInterface, func(b []byte) gateway.Element { return gateway.Element{Interface: cString(b)} }
	case nftables.TypeInetService.Name:
		key, decode = gateway.KeyPort, func(b []byte) gateway.Element { return gateway.Element{Port: binary.BigEndian.Uint16(b)} }
	case nftables.TypeIPAddr.Name:
		key, decode = gateway.KeyHost, func(b []byte) gateway.Element { return gateway.Element{Prefix: prefixOf(b, b)} }
	case endpointType().Name:
		key, decode = gateway.KeyEndpoint, decodeEndpoint
	default:
		return 0, nil // not one of ours
	}
	for _, e := range elements {
		found = append(found, withValue(e, decode(e.Key)))
	}
	return key, found
}

func decodeConcatenation(e nftables.SetElement) gateway.Element {
	const size = unix.IFNAMSIZ + 4
	end := e.KeyEnd
	if end == nil {
		end = e.Key
	}
	if len(e.Key) != size || len(end) != size {
		return gateway.Element{Interface: fmt.Sprintf("element %x", e.Key)}
	}
	return withValue(e, gateway.Element{
		Interface: cString(e.Key[:unix.IFNAMSIZ]),
		Prefix:    prefixOf(e.Key[unix.IFNAMSIZ:], end[unix.IFNAMSIZ:]),
	})
}

// endpointSize is the length of an endpoint's key: address, protocol and port have 4 bytes each.
const endpointSize = 12

func endpointKey(e gateway.Element) []byte {
	key, address := make([]byte, endpointSize), e.Prefix.Addr().As4()
	copy(key, address[:])
	key[4] = byte(e.Protocol)
	binary.BigEndian.PutUint16(key[8:], e.Port)
	return key
}

func decodeEndpoint(key []byte) gateway.Element {
	if len(key) != endpointSize {
		return gateway.Element{Interface: fmt.Sprintf("element %x", key)}
	}
	return gateway.Element{Prefix: prefixOf(key[:4], key[:4]), Protocol: gateway.Protocol(key[4]), Port: binary.BigEndian.Uint16(key[8:])}
}

func decodeIntervals(elements []nftables.SetElement) []gateway.Element {
	// The kernel lists starts and ends in no fixed order. If one interval ends at the address
	// at which the next begins, the end is sorted first.
	sorted := slices.Clone(elements)
	slices.SortFunc(sorted, func(a, b nftables.SetElement) int {
		if c := bytes.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		if a.IntervalEnd == b.IntervalEnd {
			return 0
		}
		if a.IntervalEnd {
			return -1
		}
		return 1
	})
	var found []gateway.Element
	for i, e := range sorted {
		if e.IntervalEnd || len(e.Key) != 4 {
			continue
		}
		end := []byte{255, 255, 255, 255}
		if i+1 < len(sorted) && len(sorted[i+1].Key) == 4 {
			end = binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(sorted[i+1].Key)-1)
		}
		found = append(found, withValue(e, gateway.Element{Prefix: prefixOf(e.Key, end)}))
	}
	return found
}

// withValue adds the value, the comment and the counter to an element that already has its key.
func withValue(e nftables.SetElement, found gateway.Element) gateway.Element {
	found.Comment, found.Counts = e.Comment, e.Counter != nil
	switch len(e.Val) {
	case 4:
		found.Mark = binary.NativeEndian.Uint32(e.Val)
	case 8:
		found.To = prefixOf(e.Val[:4], e.Val[4:])
	}
	return found
}

// prefixOf returns the prefix from first to end; the zero Prefix if the range is no prefix.
func prefixOf(first, end []byte) netip.Prefix {
	a, b := binary.BigEndian.Uint32(first), binary.BigEndian.Uint32(end)
	host := bits.Len32(a ^ b)
	p := netip.PrefixFrom(netip.AddrFrom4([4]byte(first)), 32-host)
	if p.Masked() != p || last(p) != [4]byte(end) {
		return netip.Prefix{}
	}
	return p
}

func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// describe prints a rule. The text is the same for a rule from compileRule and for the same rule as the
// kernel returns it.
func describe(exprs []expr.Any) string {
	words := make([]string, len(exprs))
	for i, e := range exprs {
		words[i] = describeExpr(e)
	}
	return strings.Join(words, "; ")
}

func describeExpr(e expr.Any) string {
	switch e := e.(type) {
	case *expr.Meta:
		return fmt.Sprintf("meta %d reg %d set %v", e.Key, dumped(e.Register), e.SourceRegister)
	case *expr.Ct:
		return fmt.Sprintf("ct %d direction %d reg %d set %v", e.Key, e.Direction, dumped(e.Register), e.SourceRegister)
	case *expr.Cmp:
		return fmt.Sprintf("cmp %d reg %d %x", e.Op, dumped(e.Register), e.Data)
	case *expr.Payload:
		if e.OperationType == expr.PayloadWrite {
			return fmt.Sprintf("payload %d %d+%d from %d checksum %d at %d", e.Base, e.Offset, e.Len, dumped(e.SourceRegister), e.CsumType, e.CsumOffset)
		}
		return fmt.Sprintf("payload %d %d+%d reg %d", e.Base, e.Offset, e.Len, dumped(e.DestRegister))
	case *expr.Lookup:
		return fmt.Sprintf("lookup %s not %v reg %d to %v %d", e.SetName, e.Invert, dumped(e.SourceRegister), e.IsDestRegSet, dumped(e.DestRegister))
	case *expr.Dynset:
		return fmt.Sprintf("dynset %s operation %d reg %d timeout %v", e.SetName, e.Operation, dumped(e.SrcRegKey), e.Timeout)
	case *expr.Bitwise:
		return fmt.Sprintf("bitwise reg %d to %d mask %x xor %x", dumped(e.SourceRegister), dumped(e.DestRegister), e.Mask, e.Xor)
	case *expr.Immediate:
		return fmt.Sprintf("immediate reg %d %x", dumped(e.Register), e.Data)
	case *expr.NAT:
		lowest, highest := dumped(e.RegAddrMin), dumped(e.RegAddrMax)
		if highest == 0 {
			highest = lowest // the kernel fills it in
		}
		return fmt.Sprintf("nat %d reg %d-%d ports %d-%d prefix %v random %v", e.Type, lowest, highest,
			e.RegProtoMin, e.RegProtoMax, e.Prefix, e.Random || e.FullyRandom)
	case *expr.Exthdr:
		return fmt.Sprintf("exthdr %d type %d %d+%d from %d", e.Op, e.Type, e.Offset, e.Len, dumped(e.SourceRegister))
	case *expr.Objref:
		return fmt.Sprintf("object %d %s", e.Type, e.Name)
	case *expr.Verdict:
		return fmt.Sprintf("verdict %d %s", e.Kind, e.Chain)
	}
	return fmt.Sprintf("%T %+v", e, e)
}

// dumped returns the number under which the kernel returns a register. A 4-byte register at the start of a
// 16-byte register gets the number of the 16-byte register.
func dumped(reg uint32) uint32 {
	if reg < unix.NFT_REG32_00 || reg%4 != 0 {
		return reg
	}
	return (reg-unix.NFT_REG32_00)/4 + unix.NFT_REG_1
}
