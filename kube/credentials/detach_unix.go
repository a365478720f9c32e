//go:build unix

package credentials

import (
	"os/exec"
	"syscall"
)

// detach keeps a program away from our terminal, which it could otherwise open
// by its name and ask on, and ends its children together with it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
