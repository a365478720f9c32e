//go:build !unix

package credentials

import "os/exec"

// detach does nothing, because programs can't open our terminal by a name here.
func detach(*exec.Cmd) {}
