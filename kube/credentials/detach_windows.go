package credentials

import (
	"context"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// detach keeps a program away from our console, which the program could otherwise open by its name. The program
// has a console of its own, without a window. detach also makes the program's child processes end with the
// program.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW}
	cmd.Cancel = func() error {
		tree := exec.CommandContext(context.Background(), "taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid))
		if tree.Run() != nil {
			return cmd.Process.Kill()
		}
		return nil
	}
}
