// Package mdns implements multicast DNS (RFC 6762): it announces a cluster in a LAN, and finds clusters in a
// LAN.
package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/liqo-tui/liqo-tui/internal/discovery"
)

// group is the address at which all machines of a LAN receive questions.
var group = netip.AddrPortFrom(netip.AddrFrom4([4]byte{224, 0, 0, 251}), 5353)

const (
	// most is the largest size of a packet of mDNS: RFC 6762, section 17.
	most = 9000
	// hops of packets: RFC 6762, section 11.
	hops = 255
)

// lansOf returns the IPv4 addresses of an interface, each with its range.
func lansOf(i net.Interface) (lans []netip.Prefix) {
	addresses, _ := i.Addrs() // an interface that has disappeared has no addresses
	for _, a := range addresses {
		if lan, err := netip.ParsePrefix(a.String()); err == nil && lan.Addr().Is4() {
			lans = append(lans, lan)
		}
	}
	return lans
}

// lead makes multicast packets of conn leave through an interface.
func lead(conn *net.UDPConn, i *net.Interface) error {
	p := ipv4.NewPacketConn(conn)
	return errors.Join(p.SetMulticastInterface(i), p.SetMulticastTTL(hops), p.SetTTL(hops))
}

// Found is a cluster that was found in a LAN.
type Found struct {
	discovery.Cluster
	Interface string // of this machine
}

// Answers contains the answers from the LANs of this machine.
type Answers struct {
	Found []Found
	Asked []string // the interfaces
	Unfit int      // announcements that can't be a cluster, and announcements above the limit
}

// Browse asks the LANs of this machine for clusters, and collects answers until wait has passed. name selects
// one interface; "" means all. If the question can't be sent on an interface, Browse returns an error
// together with the results of the other interfaces.
func Browse(ctx context.Context, name string, wait time.Duration) (Answers, error) {
	all, err := net.Interfaces()
	if err != nil {
		return Answers{}, fmt.Errorf("list interfaces: %w", err)
	}
	all = slices.DeleteFunc(all, func(i net.Interface) bool {
		return name != i.Name && (name != "" || i.Flags&net.FlagUp == 0 || i.Flags&net.FlagMulticast == 0 || i.Flags&net.FlagLoopback != 0 || len(lansOf(i)) == 0)
	})
	if name != "" && len(all) == 0 {
		return Answers{}, fmt.Errorf("this machine has no interface %s", name)
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	var answers Answers
	var errs []error
	for _, i := range all {
		answers.Asked = append(answers.Asked, i.Name)
		group.Go(func() {
			found, unfit, err := browse(ctx, &i, wait)
			mu.Lock()
			defer mu.Unlock()
			answers.Unfit += unfit
			for _, c := range found {
				answers.Found = append(answers.Found, Found{Cluster: c, Interface: i.Name})
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("ask on %s: %w", i.Name, err))
			}
		})
	}
	group.Wait()
	return answers, errors.Join(errs...)
}

const (
	// again is the number of repetitions of a question, because packets get lost: RFC 6762, section 5.2.
	again = 4
	// MostClusters is more than the number of clusters in any LAN.
	MostClusters = 256
)

func browse(ctx context.Context, i *net.Interface, wait time.Duration) (found []discovery.Cluster, unfit int, err error) {
	question, err := discovery.Question()
	if err != nil {
		return nil, 0, err
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{})
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := lead(conn, i); err != nil {
		return nil, 0, err
	}
	if _, err := conn.WriteToUDPAddrPort(question, group); err != nil {
		return nil, 0, err
	}
	repeat := time.AfterFunc(wait/again, func() { _, _ = conn.WriteToUDPAddrPort(question, group) })
	defer repeat.Stop()
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, 0, err
	}
	buf := make([]byte, most)
	lans := lansOf(*i)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return found, unfit, nil
		case ctx.Err() != nil:
			return found, unfit, ctx.Err()
		case err != nil:
			return found, unfit, err
		}
		// RFC 6762, sections 6 and 11: other answers don't count.
		if from.Port() != group.Port() || !slices.ContainsFunc(lans, func(lan netip.Prefix) bool { return lan.Contains(from.Addr().Unmap()) }) {
			continue
		}
		more, wrong := discovery.Read(buf[:n])
		unfit += wrong
		for _, c := range more {
			switch {
			case slices.Contains(found, c):
			case len(found) == MostClusters:
				unfit++
			default:
				found = append(found, c)
			}
		}
	}
}
