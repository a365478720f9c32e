//go:build unix

package credentials

import (
	"os/exec"
	"syscall"
)

// detach keeps a program away from our terminal, where it could otherwise ask
// after opening it by name. It also makes the program's children end together
// with it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
