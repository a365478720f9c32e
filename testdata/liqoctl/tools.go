//go:build tools

// Package liqoctl pins the released liqoctl.
package liqoctl

import _ "github.com/liqotech/liqo/cmd/liqoctl"
