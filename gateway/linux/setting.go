//go:build linux

package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// inetConf is IFLA_INET_CONF of if_link.h: a device's IPv4 settings.
const inetConf = 1

// settingNumber is the setting's IPV4_DEVCONF_* of uapi/linux/ip.h.
func settingNumber(name string) (uint16, error) {
	switch name {
	case gateway.Forwarding:
		return 1, nil
	case gateway.ReversePath:
		return 8, nil
	case gateway.AnswerARP:
		return 19, nil
	case gateway.AcceptLocal:
		return 23, nil
	case gateway.ReversePathMark:
		return 24, nil
	}
	return 0, fmt.Errorf("setting %q: unknown", name)
}

// readSettings returns the present values of the wanted settings, for devices that exist.
func (s *session) readSettings(want gateway.KernelState) ([]gateway.Setting, error) {
	var found []gateway.Setting
	for _, w := range want.Settings {
		b, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + w.Device + "/" + w.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no such device
		}
		if err != nil {
			return nil, fmt.Errorf("read setting: %w", err)
		}
		if w.Value, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return nil, fmt.Errorf("read setting %s of %s: %w", w.Name, w.Device, err)
		}
		found = append(found, w)
	}
	return found, nil
}

func (s *session) syncSettings(want gateway.KernelState) ([]string, error) {
	have, err := s.readSettings(want)
	if err != nil {
		return nil, err
	}
	c := gateway.DiffSettings(have, want.Settings)
	var errs []error
	for _, w := range c.Add {
		if err := s.set(w); err != nil {
			errs = append(errs, fmt.Errorf("set %s: %w", w, err))
		}
	}
	return c.Lines, errors.Join(errs...)
}

// set writes a setting by netlink, because CAP_NET_ADMIN is enough for that. In an unprivileged container,
// /proc/sys is read-only.
func (s *session) set(w gateway.Setting) error {
	number, err := settingNumber(w.Name)
	if err != nil {
		return err
	}
	link, ok := s.links[w.Device]
	if !ok {
		return fmt.Errorf("no device %s", w.Device)
	}
	request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(link.Attrs().Index)
	request.AddData(message)
	spec := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	conf := spec.AddRtAttr(unix.AF_INET, nil).AddRtAttr(inetConf, nil)
	conf.AddRtAttr(int(number), binary.NativeEndian.AppendUint32(nil, uint32(w.Value)))
	request.AddData(spec)
	_, err = request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
