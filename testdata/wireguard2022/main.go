// Command wireguard2022 runs one userspace WireGuard device until its standard
// input ends:
//
//	wireguard2022 DEVICE MTU CONFIG
//
// CONFIG is a request of WireGuard's cross-platform interface ("set=1"), with
// spaces instead of line ends.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wireguard2022:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("got %d arguments, want DEVICE MTU CONFIG", len(args))
	}
	mtu, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	t, err := tun.CreateTUN(args[0], mtu)
	if err != nil {
		return err
	}
	d := device.NewDevice(t, conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, args[0]+": "))
	defer d.Close()
	if err := d.IpcSet(strings.ReplaceAll(args[2], " ", "\n") + "\n"); err != nil {
		return err
	}
	if err := d.Up(); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
