// The userspace WireGuard of 2022, which Liqo v1.2.0 ships, to measure against.
// A module of its own, because a module has one version of another.
module github.com/liqo-tui/liqo-tui/testdata/wireguard2022

go 1.26.0

require golang.zx2c4.com/wireguard v0.0.0-20220904105730-b51010ba13f0

require (
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.zx2c4.com/wintun v0.0.0-20211104114900-415007cec224 // indirect
)
