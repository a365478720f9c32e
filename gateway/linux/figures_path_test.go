//go:build linux

package linux_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// BenchmarkFigurePodToPod compares three paths between the same nodes of two clusters: from pod to pod
// through our gateways, from gateway to gateway through the tunnel, and from pod to pod by routes, as if the
// clusters were one.
func BenchmarkFigurePodToPod(b *testing.B) {
	for _, network := range networks() {
		b.Run(network.name, func(b *testing.B) {
			w := newWays(b, network.change)
			for _, streams := range []int{1, 16} {
				what := fmt.Sprintf("%s, %d streams", network.name, streams)
				speed, perByte := transfer.megabytesPerSecond, transfer.nanosecondsPerByte
				ours := func() transfer { return w.ours(b, streams) }
				a, alone := inTurn(ours, func() transfer { return w.tunnel(b, streams) })
				row(b, what+": throughput against the tunnel alone", "≥ 0.8", ratios(each(a, speed), each(alone, speed)))
				row(b, what+": work per CPU second against that", "≥ 0.8", ratios(each(alone, perByte), each(a, perByte)))
				a, routed := inTurn(ours, func() transfer { return w.routed(b, streams) })
				row(b, what+": throughput against routed", "", ratios(each(a, speed), each(routed, speed)))
				row(b, "  pod to pod, MB/s", "", each(a, speed))
				row(b, "  tunnel alone, MB/s", "", each(alone, speed))
				row(b, "  routed, MB/s", "", each(routed, speed))
				row(b, "  pod to pod, ns of CPU per byte", "", each(a, perByte))
				row(b, "  routed, ns of CPU per byte", "", each(routed, perByte))
			}
		})
	}
}

// BenchmarkFigureRoundTrip measures questions one after the other.
func BenchmarkFigureRoundTrip(b *testing.B) {
	for _, network := range networks() {
		b.Run(network.name, func(b *testing.B) { newWays(b, network.change).latencies(b, network.name) })
	}
}

// networkKind is the kind of the pod network of both clusters.
type networkKind struct {
	name   string
	change func(*linuxtest.Cluster)
}

func networks() []networkKind {
	return []networkKind{
		{"MTU 1500", func(c *linuxtest.Cluster) { c.MTU = 1440 }},
		{"MTU 9000", func(c *linuxtest.Cluster) {
			c.MTU = 8940
			c.Widen(9000)
		}},
		{"overlay", func(c *linuxtest.Cluster) {
			c.MTU, c.ByNode = 1390, true
			c.Overlay()
		}},
	}
}

// BenchmarkFigureByTheGatewaysNode compares two destinations for the nodes of an overlay: the gateway's node,
// and the gateway's pod, whose path is a tunnel in a tunnel.
func BenchmarkFigureByTheGatewaysNode(b *testing.B) {
	w := newWays(b, func(c *linuxtest.Cluster) {
		c.MTU = 1390
		c.Overlay()
	})
	for _, streams := range []int{1, 16} {
		measure := func(byNode bool) func() transfer {
			return func() transfer {
				w.x.ByNode = byNode
				w.x.SyncNodes()
				return w.ours(b, streams)
			}
		}
		byNode, toPod := inTurn(measure(true), measure(false))
		speed, perByte := transfer.megabytesPerSecond, transfer.nanosecondsPerByte
		what := fmt.Sprintf("overlay, %d streams, by the gateway's node: ", streams)
		row(b, what+"throughput", "≥ 1.2", ratios(each(byNode, speed), each(toPod, speed)))
		row(b, what+"work per CPU s", "≥ 1.2", ratios(each(toPod, perByte), each(byNode, perByte)))
	}
}

// ways are the paths between two clusters.
type ways struct {
	x, y       *linuxtest.Cluster
	podX, podY *netns.Namespace
}

// Addresses of the pods where no gateway is needed, and of what they are reached by.
const (
	routedX, routedY = "172.31.0.1", "172.31.0.2"
	remoteY          = "10.60.2.2"
)

func newWays(b *testing.B, change func(*linuxtest.Cluster)) ways {
	b.Helper()
	x, y := linuxtest.NewClusters(b)
	for _, c := range []*linuxtest.Cluster{x, y} {
		change(c)
	}
	x.SyncAll(y)
	y.SyncAll(x)
	y.AwaitHandshake(0)
	w := ways{x, y, x.Pod(1, "podA", "10.244.2.2"), y.Pod(1, "podB", "10.244.2.2")}
	for _, s := range []struct {
		c, peer   *linuxtest.Cluster
		pod       *netns.Namespace
		own, gate string
	}{{x, y, w.podX, routedX, "198.51.100"}, {y, x, w.podY, routedY, "203.0.113"}} {
		s.pod.Run("ip", "addr", "add", s.own+"/32", "dev", "lo")
		s.c.Nodes[1].Run("ip", "route", "add", s.own+"/32", "dev", "v-"+s.pod.Name)
		s.c.WAN.Run("ip", "route", "add", s.own+"/32", "via", s.c.NodeIP(1))
		// Usually only the pings of gateways use the gateways' addresses in the tunnel.
		s.c.Gateway.Run("nft", "insert", "rule", "ip", gateway.TableName, "own-address", "iifname", gateway.TunnelDevice, "accept")
	}
	linuxtest.Echo(w.podY)
	return w
}

func (w ways) ours(b *testing.B, streams int) transfer {
	return rate(b, w.podX, w.podY, "", remoteY, streams)
}

func (w ways) tunnel(b *testing.B, streams int) transfer {
	return rate(b, w.x.Gateway, w.y.Gateway, "", gateway.TunnelAddr(w.y.Role, 0).Addr().String(), streams)
}

func (w ways) routed(b *testing.B, streams int) transfer {
	return rate(b, w.podX, w.podY, routedX, routedY, streams)
}

// latencies measures round trips, half of which are slower than p50.
func (w ways) latencies(b *testing.B, what string) {
	b.Helper()
	ours, routed := inTurn(func() [2]float64 { return roundTrips(b, w.podX, "10.244.2.2", remoteY) },
		func() [2]float64 { return roundTrips(b, w.podX, routedX, routedY) })
	for i, name := range []string{"p50", "p99"} {
		pick := func(v [2]float64) float64 { return v[i] }
		row(b, fmt.Sprintf("%s: round trip from pod to pod, %s in µs", what, name), "", each(ours, pick))
		row(b, "  routed, "+name+" in µs", "", each(routed, pick))
	}
}

func roundTrips(b *testing.B, from *netns.Namespace, source, to string) [2]float64 {
	b.Helper()
	const questions = 1000
	socket := from.ListenUDP(source + ":0")
	defer socket.Close()
	peer := netip.AddrPortFrom(netip.MustParseAddr(to), 7777)
	took := make([]time.Duration, 0, questions)
	buffer := make([]byte, 100)
	for range questions {
		start := time.Now()
		_, err := socket.WriteToUDPAddrPort(buffer, peer)
		if err == nil {
			err = socket.SetReadDeadline(start.Add(5 * time.Second))
		}
		if err == nil {
			_, _, err = socket.ReadFromUDPAddrPort(buffer)
		}
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return [2]float64{float64(took[questions/2].Nanoseconds()) / 1e3, float64(took[questions*99/100].Nanoseconds()) / 1e3}
}

// rate returns the data that several TCP connections carry together in one second.
func rate(b *testing.B, from, to *netns.Namespace, source, address string, streams int) transfer {
	b.Helper()
	listener := to.Listen(":0")
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	var senders, receivers []net.Conn
	for range streams {
		var c net.Conn
		var err error
		from.Do(func() { c, err = dialer.DialContext(b.Context(), "tcp4", net.JoinHostPort(address, port)) })
		if err != nil {
			b.Fatalf("%s to %s: %v", from.Name, address, err)
		}
		r, err := listener.Accept()
		if err != nil {
			b.Fatal(err)
		}
		senders, receivers = append(senders, c), append(receivers, r)
	}
	var wait sync.WaitGroup
	arrived := make([]int, streams)
	start, spent := time.Now(), ownTime()
	for i := range streams {
		wait.Go(func() {
			defer receivers[i].Close()
			for chunk := make([]byte, 1<<20); ; {
				n, err := receivers[i].Read(chunk)
				if arrived[i] += n; err != nil {
					return
				}
			}
		})
		wait.Go(func() {
			defer senders[i].Close()
			for chunk := make([]byte, 256<<10); time.Since(start) < time.Second; {
				if _, err := senders[i].Write(chunk); err != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	total := 0
	for _, n := range arrived {
		total += n
	}
	return transfer{bytes: float64(total), took: time.Since(start), cpu: ownTime() - spent}
}
