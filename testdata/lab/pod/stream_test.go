package main

import (
	"encoding/json"
	"io"
	"net"
	"testing"
	"time"
)

func TestStreamTellsWhenAnswersWereMissed(t *testing.T) {
	echo, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	const silence = 300 * time.Millisecond
	go func() {
		buffer := make([]byte, 2048)
		answers := 0
		for {
			n, from, err := echo.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if answers++; answers == 20 {
				time.Sleep(silence)
			}
			_, _ = echo.WriteToUDPAddrPort(buffer[:n], from)
		}
	}()
	in, end := io.Pipe()
	told, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- stream([]string{echo.LocalAddr().String(), "--size", "1200"}, in, out) }()
	var got stall
	if err := json.NewDecoder(told).Decode(&got); err != nil {
		t.Fatalf("want a stall: %v", err)
	}
	told.Close()
	end.Close()
	if err := <-ended; err != nil {
		t.Logf("after the first stall: %v", err) // a second one, of a busy machine, can't be told
	}
	if length := got.First.Sub(got.Last); length < silence || length > 10*silence {
		t.Errorf("got a stall of %s, want %s", length, silence)
	}
}

func TestStreamThatIsNotAnsweredAtTheEndIsAnError(t *testing.T) {
	deaf, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	in, end := io.Pipe()
	time.AfterFunc(2*stallIntervals*streamInterval, func() { end.Close() })
	if err := stream([]string{deaf.LocalAddr().String()}, in, io.Discard); err == nil {
		t.Error("got no error")
	}
}
