// Package ping measures whether the gateway at the other end of a tunnel
// answers, with Liqo's ping: one JSON object per UDP datagram.
//
//	{"clusterID":"rome","msgType":"PING","timeStamp":"2025-01-02T15:04:05.123456789Z"}
//
// The answer is the same object with msgType PONG. clusterID is the ID of the
// cluster that has to answer. timeStamp has a meaning only for the sender of the
// PING.
package ping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// maxMessage is Liqo's buffer size in bytes: a longer datagram is cut there.
const maxMessage = 1024

const (
	ping = "PING"
	pong = "PONG"
)

type message struct {
	ClusterID string    `json:"clusterID"`
	Type      string    `json:"msgType"`
	TimeStamp time.Time `json:"timeStamp"`
}

var errMessage = errors.New("not a ping message")

func newPing(clusterID string, now time.Time) ([]byte, error) {
	// The monotonic reading is removed, because it is not part of the time stamp in the answer.
	b, err := json.Marshal(message{ClusterID: clusterID, Type: ping, TimeStamp: now.Round(0)})
	if err != nil {
		return nil, fmt.Errorf("encode ping: %w", err)
	}
	return b, nil
}

func parse(datagram []byte) (message, error) {
	var m message
	if err := json.Unmarshal(datagram, &m); err != nil {
		return message{}, fmt.Errorf("%w: %w", errMessage, err)
	}
	return m, nil
}

// answer returns the PONG for a PING. It keeps every byte except the value of msgType, because another
// encoding could change the time stamp, by which the sender recognizes the answer. It returns false unless
// the datagram is exactly one PING.
func answer(datagram []byte) ([]byte, bool) {
	if !json.Valid(datagram) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(datagram))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	start, end := -1, -1
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		if key != "msgType" {
			continue
		}
		var s string
		if start >= 0 || json.Unmarshal(value, &s) != nil || s != ping {
			return nil, false
		}
		end = int(d.InputOffset())
		start = end - len(value)
	}
	if start < 0 {
		return nil, false
	}
	reply := append([]byte(nil), datagram[:start]...)
	reply = append(reply, `"`+pong+`"`...)
	return append(reply, datagram[end:]...), true
}
