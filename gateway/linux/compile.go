//go:build linux

package linux

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// Registers of 4 bytes, in nf_tables' numbering. An interface name fills the first four
// registers; an address after it is in the next one.
const (
	register    = unix.NFT_REG_1
	registerMax = unix.NFT_REG32_00 + 1 // upper end of a range found in register
	registerKey = unix.NFT_REG32_00 + 4 // behind an interface name

	// Of an endpoint: behind an address in register.
	registerProtocol = unix.NFT_REG32_00 + 1
	registerPort     = unix.NFT_REG32_00 + 2
)

// Offsets of fields, in bytes.
const (
	ipSource        = 12
	ipDestination   = 16
	ipFragment      = 6
	ipChecksum      = 10
	udpChecksum     = 6
	portSource      = 0
	portDestination = 2
	tcpFlags        = 13
	tcpSYN          = 0x02
	tcpACK          = 0x10
	maxsegValue     = 2                 // of the option
	aboutTo         = 8 + ipDestination // behind the header of an ICMP error
	frameDirection  = 8 + 8 + 2         // behind the headers of UDP and VXLAN, in the MAC
)

const (
	icmpUnreachable = 3
	dontFragment    = 0x4000 // in the field of the fragment's offset, which is 0 here
)

// compileRule translates a rule into the kernel's expressions. ids are the numbers of sets within the batch.
// It can be nil if the result is only compared.
func compileRule(statements []gateway.Statement, ids map[string]uint32) ([]expr.Any, error) {
	var exprs []expr.Any
	for _, st := range statements {
		e, err := compileStatement(st, ids)
		if err != nil {
			return nil, err
		}
		exprs = append(exprs, e...)
	}
	return exprs, nil
}

func compileStatement(st gateway.Statement, ids map[string]uint32) ([]expr.Any, error) {
	member := &expr.Lookup{SourceRegister: register, SetName: st.Name, SetID: ids[st.Name], Invert: st.Not}
	found := &expr.Lookup{SourceRegister: register, DestRegister: register, IsDestRegSet: true, SetName: st.Name, SetID: ids[st.Name]}
	switch st.Op {
	case gateway.InputIs:
		is := equal(interfaceName(st.Name))
		if st.Not {
			is.Op = expr.CmpOpNeq
		}
		return []expr.Any{load(expr.MetaKeyIIFNAME), is}, nil
	case gateway.OutputIs:
		return []expr.Any{load(expr.MetaKeyOIFNAME), equal(interfaceName(st.Name))}, nil
	case gateway.InputIn:
		return []expr.Any{load(expr.MetaKeyIIFNAME), member}, nil
	case gateway.OutputIn:
		return []expr.Any{load(expr.MetaKeyOIFNAME), member}, nil
	case gateway.SourceIn:
		return []expr.Any{address(ipSource, register), member}, nil
	case gateway.DestinationIn:
		return []expr.Any{address(ipDestination, register), member}, nil
	case gateway.FrameNotTo:
		a := st.Addr.As4()
		return []expr.Any{frameTo(), &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: a[:]}}, nil
	case gateway.DestinationHere:
		return []expr.Any{
			&expr.Fib{Register: register, FlagDADDR: true, ResultADDRTYPE: true},
			equal(binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)),
		}, nil
	case gateway.DestinationUnicast:
		is := equal(binary.NativeEndian.AppendUint32(nil, unix.RTN_UNICAST))
		if st.Not {
			is.Op = expr.CmpOpNeq
		}
		return []expr.Any{&expr.Fib{Register: register, FlagDADDR: true, ResultADDRTYPE: true}, is}, nil
	case gateway.OriginalSourceIn:
		return []expr.Any{&expr.Ct{Key: expr.CtKeySRCIP, Register: register, Direction: expr.CtDirOriginal}, member}, nil
	case gateway.OriginalDestinationIn:
		return []expr.Any{&expr.Ct{Key: expr.CtKeyDSTIP, Register: register, Direction: expr.CtDirOriginal}, member}, nil
	case gateway.EndpointIn:
		return append(destinationEndpoint(), member), nil
	case gateway.InputSourceIn:
		return []expr.Any{load(expr.MetaKeyIIFNAME), address(ipSource, registerKey), member}, nil
	case gateway.InputDestinationIn:
		return []expr.Any{load(expr.MetaKeyIIFNAME), address(ipDestination, registerKey), member}, nil
	case gateway.UDPDestinationPort:
		return portIs(unix.IPPROTO_UDP, portDestination, equal(binary.BigEndian.AppendUint16(nil, uint16(st.Number)))), nil
	case gateway.UDPSourcePort:
		return portIs(unix.IPPROTO_UDP, portSource, equal(binary.BigEndian.AppendUint16(nil, uint16(st.Number)))), nil
	case gateway.UDPDestinationPortIn:
		return portIs(unix.IPPROTO_UDP, portDestination, member), nil
	case gateway.UDPSourcePortIn:
		return portIs(unix.IPPROTO_UDP, portSource, member), nil
	case gateway.TCPDestinationPort:
		return portIs(unix.IPPROTO_TCP, portDestination, equal(binary.BigEndian.AppendUint16(nil, uint16(st.Number)))), nil
	case gateway.TCPSourcePort:
		return portIs(unix.IPPROTO_TCP, portSource, equal(binary.BigEndian.AppendUint16(nil, uint16(st.Number)))), nil
	case gateway.ICMPUnreachable:
		return []expr.Any{
			load(expr.MetaKeyL4PROTO), equal([]byte{unix.IPPROTO_ICMP}),
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1}, equal([]byte{icmpUnreachable}),
		}, nil
	case gateway.ICMP:
		return []expr.Any{load(expr.MetaKeyL4PROTO), equal([]byte{unix.IPPROTO_ICMP})}, nil
	case gateway.MarkIs:
		return []expr.Any{load(expr.MetaKeyMARK), equal(binary.NativeEndian.AppendUint32(nil, st.Number))}, nil
	case gateway.Established:
		return connectionBit(expr.CtKeySTATE, expr.CtStateBitESTABLISHED), nil
	case gateway.Related:
		return connectionBit(expr.CtKeySTATE, expr.CtStateBitRELATED), nil
	case gateway.Answer:
		return direction(expr.CtDirReply), nil
	case gateway.Redirected:
		return connectionBit(expr.CtKeySTATUS, 1<<5), nil // IPS_DST_NAT of nf_conntrack_common.h
	case gateway.Masqueraded:
		return append(direction(expr.CtDirOriginal), connectionBit(expr.CtKeySTATUS, 1<<4)...), nil // IPS_SRC_NAT
	case gateway.TCPSYN:
		return tcpBits(tcpSYN, &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: []byte{0}}), nil
	case gateway.TCPOpens:
		is := equal([]byte{tcpSYN})
		if st.Not {
			is.Op = expr.CmpOpNeq
		}
		return tcpBits(tcpSYN|tcpACK, is), nil
	case gateway.MarkByInput:
		return []expr.Any{load(expr.MetaKeyIIFNAME), found, setMark()}, nil
	case gateway.MarkByDestination:
		return []expr.Any{address(ipDestination, register), found, setMark()}, nil
	case gateway.DestinationByMap:
		return []expr.Any{address(ipDestination, register), found, prefixNAT(expr.NATTypeDestNAT)}, nil
	case gateway.SourceByMap:
		return []expr.Any{load(expr.MetaKeyIIFNAME), address(ipSource, registerKey), found, prefixNAT(expr.NATTypeSourceNAT)}, nil
	default:
		return compileEffect(st, ids)
	}
}

func compileEffect(st gateway.Statement, ids map[string]uint32) ([]expr.Any, error) {
	switch st.Op {
	case gateway.SetZone:
		return []expr.Any{
			immediate(binary.NativeEndian.AppendUint16(nil, uint16(st.Number))),
			&expr.Ct{Key: expr.CtKeyZONE, Register: register, SourceRegister: true},
		}, nil
	case gateway.SetMark:
		return []expr.Any{
			immediate(binary.NativeEndian.AppendUint32(nil, st.Number)), setMark(),
		}, nil
	case gateway.Untrack:
		return []expr.Any{&expr.Notrack{}}, nil
	case gateway.Count:
		return []expr.Any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: st.Name}}, nil
	case gateway.Remember:
		return append(destinationEndpoint(), &expr.Dynset{SrcRegKey: register, SetName: st.Name, SetID: ids[st.Name], Operation: unix.NFT_DYNSET_OP_UPDATE}), nil
	case gateway.Drop:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}, nil
	case gateway.Accept:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}, nil
	case gateway.SourceTo:
		a := st.Addr.As4()
		return []expr.Any{immediate(a[:]), sourceNAT()}, nil
	case gateway.SourceKeep:
		return []expr.Any{address(ipSource, register), sourceNAT()}, nil
	case gateway.MaximumSegment:
		return []expr.Any{
			immediate(binary.BigEndian.AppendUint16(nil, uint16(st.Number))),
			&expr.Exthdr{
				SourceRegister: register, Op: expr.ExthdrOpTcpopt, Type: unix.TCP_MAXSEG,
				Offset: maxsegValue, Len: 2,
			},
		}, nil
	case gateway.DontFragment:
		return []expr.Any{
			immediate(binary.BigEndian.AppendUint16(nil, dontFragment)), writeIP(ipFragment, 2),
		}, nil
	case gateway.SourceOfError:
		return []expr.Any{
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: aboutTo, Len: 4}, writeIP(ipSource, 4),
		}, nil
	case gateway.DestinationOfFrame:
		// The checksum covers the addresses, so it is removed. A VXLAN packet over IPv4 needs none (RFC 7348,
		// section 5), and the receiver then verifies none.
		return []expr.Any{immediate(make([]byte, 2)), writeUDP(udpChecksum, 2), frameTo(), writeIP(ipDestination, 4)}, nil
	default:
		return nil, fmt.Errorf("statement %q: unknown", st)
	}
}

// destinationEndpoint loads the packet's destination: address, protocol and port. Conntrack has already put
// fragments together.
func destinationEndpoint() []expr.Any {
	return []expr.Any{
		address(ipDestination, register),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: registerProtocol},
		&expr.Payload{DestRegister: registerPort, Base: expr.PayloadBaseTransportHeader, Offset: portDestination, Len: 2},
	}
}

func direction(is byte) []expr.Any {
	return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: register}, equal([]byte{is})}
}

func connectionBit(key expr.CtKey, bit uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: key, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binary.NativeEndian.AppendUint32(nil, bit), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: make([]byte, 4)},
	}
}

// tcpBits compares some of the flags of a TCP packet.
func tcpBits(mask byte, is *expr.Cmp) []expr.Any {
	return []expr.Any{
		load(expr.MetaKeyL4PROTO), equal([]byte{unix.IPPROTO_TCP}),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: tcpFlags, Len: 1},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 1, Mask: []byte{mask}, Xor: []byte{0}}, is,
	}
}

func portIs(protocol byte, offset uint32, is expr.Any) []expr.Any {
	return []expr.Any{
		load(expr.MetaKeyL4PROTO), equal([]byte{protocol}),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}, is,
	}
}

func load(key expr.MetaKey) *expr.Meta { return &expr.Meta{Key: key, Register: register} }

func setMark() *expr.Meta {
	return &expr.Meta{Key: expr.MetaKeyMARK, Register: register, SourceRegister: true}
}

func equal(data []byte) *expr.Cmp {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: data}
}

func immediate(data []byte) *expr.Immediate { return &expr.Immediate{Register: register, Data: data} }

func address(offset, reg uint32) *expr.Payload {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

// frameTo loads the IP address in the destination MAC address of a VXLAN packet's frame.
func frameTo() *expr.Payload {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: frameDirection, Len: 4}
}

func writeIP(offset, length uint32) *expr.Payload {
	return &expr.Payload{
		OperationType: expr.PayloadWrite, SourceRegister: register, Base: expr.PayloadBaseNetworkHeader,
		Offset: offset, Len: length, CsumType: expr.CsumTypeInet, CsumOffset: ipChecksum,
	}
}

func writeUDP(offset, length uint32) *expr.Payload {
	return &expr.Payload{
		OperationType: expr.PayloadWrite, SourceRegister: register, Base: expr.PayloadBaseTransportHeader,
		Offset: offset, Len: length, CsumType: expr.CsumTypeNone,
	}
}

// prefixNAT keeps the host bits of an address, and replaces its network by that of the range in the
// registers.
func prefixNAT(t expr.NATType) *expr.NAT {
	return &expr.NAT{Type: t, Family: unix.NFPROTO_IPV4, RegAddrMin: register, RegAddrMax: registerMax, Prefix: true}
}

func sourceNAT() *expr.NAT {
	return &expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register}
}

func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}
