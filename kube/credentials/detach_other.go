//go:build !unix

package credentials

import "os/exec"

// detach does nothing where a program can't open our terminal by a name.
func detach(*exec.Cmd) {}
