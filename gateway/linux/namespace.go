//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// ErrNamespace says that a setting of the network namespace, or a capability
// of the machine, is missing. The error that wraps it names which.
var ErrNamespace = errors.New("network namespace is not prepared")

// setting is a file below /proc/sys/net/ipv4 and the value it must have.
type setting struct{ path, value, reason string }

// settings are all that a gateway pod needs. For each, "all" and the device
// are combined by the kernel (maximum for rp_filter, or for accept_local), and
// "default" is what the devices that Sync creates start with.
func settings() []setting {
	const filter = "the way back of a remote pod's address is not the way it came where CIDRs are equal"
	const local = "a remote pod may have the address of this pod"
	return []setting{
		{"ip_forward", "1", "the gateway forwards"},
		{"conf/all/rp_filter", "0", filter},
		{"conf/default/rp_filter", "0", filter},
		{"conf/all/accept_local", "1", local},
	}
}

func (s setting) file() string { return "/proc/sys/net/ipv4/" + s.path }

func (s setting) name() string {
	return "net.ipv4." + strings.ReplaceAll(s.path, "/", ".")
}

func (s setting) read() (string, error) {
	b, err := os.ReadFile(s.file())
	if err != nil {
		return "", fmt.Errorf("read %s: %w", s.name(), err)
	}
	return strings.TrimSpace(string(b)), nil
}

// PrepareNamespace writes the settings that a gateway pod needs and that its
// namespace lacks. Where /proc/sys is read-only, as in containers without
// privilege, the error satisfies errors.Is(err, unix.EROFS).
func PrepareNamespace() error {
	var errs []error
	for _, s := range settings() {
		value, err := s.read()
		if err == nil && value != s.value {
			err = os.WriteFile(s.file(), []byte(s.value), 0)
			if err != nil {
				err = fmt.Errorf("set %s = %s: %w", s.name(), s.value, err)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// CheckNamespace verifies what PrepareNamespace sets, that the kernel is new
// enough and that it has nftables. Its error satisfies ErrNamespace and names
// all that is missing.
func CheckNamespace() error {
	errs := []error{checkKernel(), checkNftables()}
	for _, s := range settings() {
		value, err := s.read()
		if err == nil && value != s.value {
			err = fmt.Errorf("%w: %s is %s and must be %s: %s", ErrNamespace, s.name(), value, s.value, s.reason)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkKernel asks for 5.10: prefix NAT and concatenated intervals are of 5.6
// and 5.8, and input interfaces in postrouting chains of 5.7.
func checkKernel() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("read kernel version: %w", err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	major, minor, err := parseRelease(release)
	if err != nil {
		return err
	}
	if major < 5 || major == 5 && minor < 10 {
		return fmt.Errorf("%w: kernel %s is older than 5.10", ErrNamespace, release)
	}
	return nil
}

func parseRelease(release string) (major, minor int, err error) {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) >= 2 {
		minorDigits, _, _ := strings.Cut(parts[1], "-")
		major, err = strconv.Atoi(parts[0])
		if err == nil {
			minor, err = strconv.Atoi(minorDigits)
		}
	}
	if len(parts) < 2 || err != nil {
		return 0, 0, fmt.Errorf("kernel version %q: not understood", release)
	}
	return major, minor, nil
}

func checkNftables() error {
	c, err := nftables.New()
	if err == nil {
		_, err = c.ListTablesOfFamily(nftables.TableFamilyIPv4)
	}
	if err != nil {
		return fmt.Errorf("%w: no nftables (kernel module nf_tables, or CAP_NET_ADMIN): %w", ErrNamespace, err)
	}
	return nil
}

// UnderlayMTU is the MTU in bytes of the way out: of the best IPv4 default
// route, or of its device. The error satisfies fs.ErrNotExist if there is none.
func UnderlayMTU() (int, error) {
	routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return 0, fmt.Errorf("list routes: %w", err)
	}
	var best *netlink.Route
	for i, r := range routes {
		// Ours are in tables of their own.
		if prefix(r.Dst).Bits() != 0 || r.Protocol == gateway.RouteProtocol || r.Type != unix.RTN_UNICAST {
			continue
		}
		if best == nil || r.Priority < best.Priority {
			best = &routes[i]
		}
	}
	if best == nil {
		return 0, fmt.Errorf("default route: %w", fs.ErrNotExist)
	}
	index := best.LinkIndex
	if index == 0 && len(best.MultiPath) > 0 {
		index = best.MultiPath[0].LinkIndex
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return 0, fmt.Errorf("device of the default route: %w", err)
	}
	if best.MTU != 0 {
		return min(best.MTU, link.Attrs().MTU), nil
	}
	return link.Attrs().MTU, nil
}
