//go:build unix

package credentials

import (
	"os/exec"
	"syscall"
)

// detach keeps a program away from our terminal, which the program could otherwise open by its name. It also
// makes the program's child processes end with the program.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
