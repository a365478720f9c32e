package relay

import "encoding/binary"

// kind is the type of a WireGuard message (section 5.4 of its paper).
type kind uint32

const (
	none       kind = 0
	initiation kind = 1 // begins a handshake
	response   kind = 2 // answers an initiation
	cookie     kind = 3 // sent instead of an answer: asks the sender to prove its address first
	transport  kind = 4
)

// Lengths in bytes. A transport message has a header of 16 and a tag of 16.
const (
	initiationLen, responseLen, cookieLen, transportMin = 148, 92, 64, 32
)

// message is the part of a WireGuard message that can be read without keys.
type message struct {
	kind kind
	// sender is the index that the message's sender has chosen for answers (initiation,
	// response).
	sender uint32
	// receiver is the index that the message's receiver has chosen (all but an
	// initiation).
	receiver uint32
	counter  uint64 // of a transport message, unique in its session
}

// read returns a message of kind none if the packet is no WireGuard message. The three bytes after the type
// are zero in all WireGuard messages.
func read(packet []byte) message {
	if len(packet) < transportMin {
		return message{}
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(packet[at:]) }
	m := message{kind: kind(word(0))}
	switch {
	case m.kind == initiation && len(packet) == initiationLen:
		m.sender = word(4)
	case m.kind == response && len(packet) == responseLen:
		m.sender, m.receiver = word(4), word(8)
	case m.kind == cookie && len(packet) == cookieLen:
		m.receiver = word(4)
	case m.kind == transport:
		m.receiver, m.counter = word(4), binary.LittleEndian.Uint64(packet[8:])
	default:
		return message{}
	}
	return m
}
