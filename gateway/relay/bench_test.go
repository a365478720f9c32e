//go:build linux

package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"
)

// relayAt is the environment variable with which this test starts itself as a relay.
const relayAt = "RELAY_AT"

func TestMain(m *testing.M) {
	at := os.Getenv(relayAt)
	if at == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := Run(ctx, Config{Listen: netip.MustParseAddrPort(at), Log: slog.New(slog.DiscardHandler)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// BenchmarkRelay measures data from one gateway to the other. The relay is a separate process, so that its
// CPU time can be measured. The sender sends up to 44 packets at once, as WireGuard's program does.
func BenchmarkRelay(b *testing.B) {
	const size, atOnce, ahead = 1420, 44, 20
	first := freePorts(b)
	relay := exec.Command(os.Args[0])
	relay.Env = append(os.Environ(), relayAt+"="+first.String())
	relay.Stderr = os.Stderr
	if err := relay.Start(); err != nil {
		b.Fatal(err)
	}
	client, server := newSocket(listen(b, "127.0.0.1")), newSocket(listen(b, "127.0.0.1"))
	ports := [2]netip.AddrPort{first, netip.AddrPortFrom(first.Addr(), first.Port()+1)}
	shake(b, client.UDPConn, server.UDPConn, ports, 77)

	var arrived, lost, sent int
	begin, buffer, control := time.Now(), make([]byte, longest), make([]byte, 64)
	var data []byte
	for b.Loop() {
		data = data[:0]
		for range atOnce {
			data = append(data, dataFor(77, uint64(sent), size)...)
			sent++
		}
		if err := client.send(data, len(data)/atOnce, ports[0]); err != nil {
			b.Fatal(err)
		}
		for arrived+lost < sent-ahead*atOnce {
			_ = server.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			got, each, _, err := server.receive(buffer, control)
			if err != nil {
				lost = sent - arrived
				break
			}
			arrived += (len(got) + each - 1) / each
		}
	}
	took := time.Since(begin)
	_ = relay.Process.Signal(os.Interrupt)
	if err := relay.Wait(); err != nil {
		b.Error(err)
	}
	used := relay.ProcessState.UserTime() + relay.ProcessState.SystemTime()
	b.ReportMetric(float64(arrived)/used.Seconds(), "packets/CPU-s")
	b.ReportMetric(float64(lost)/float64(sent)*100, "%lost")
	b.ReportMetric(float64(arrived)/took.Seconds(), "packets/s")
}

// freePorts returns the first of two free UDP ports in a row.
func freePorts(b *testing.B) netip.AddrPort {
	b.Helper()
	for {
		c := listen(b, "127.0.0.1")
		first := c.LocalAddr().(*net.UDPAddr).AddrPort()
		_ = c.Close()
		next, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(first.Addr(), first.Port()+1)))
		if err != nil {
			continue
		}
		_ = next.Close()
		return first
	}
}
