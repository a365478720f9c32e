package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"
)

const (
	// settle is how long a screen has to stay the same to count as a frame,
	// because a program writes one screen in several pieces.
	settle = 60 * time.Millisecond
	// keyGap is the time between keys of one press command, as if a person
	// pressed them.
	keyGap = 350 * time.Millisecond
)

// terminal is a pseudo-terminal with a program, and the screen that the program
// has drawn.
type terminal struct {
	control *os.File
	program *exec.Cmd
	done    chan struct{}

	mu      sync.Mutex
	screens *vt.Emulator
	frames  []frame
	drawn   time.Time // the time of the last output
	kept    bool      // the screen was recorded as a frame
}

// frame is a screen, and the time at which it appeared.
type frame struct {
	at     time.Time
	screen screen
}

func start(width, height int, args []string) (*terminal, error) {
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	if err := unix.IoctlSetWinsize(int(control.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)}); err != nil {
		return nil, err
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=truecolor", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "SSH_TTY=")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &terminal{control: control, program: cmd, done: make(chan struct{}), screens: vt.NewEmulator(width, height), kept: true}
	go func() { _, _ = io.Copy(control, t.screens) }() // answers to the program's questions to its terminal
	go t.read()
	return t, nil
}

func (t *terminal) read() {
	defer close(t.done)
	chunk := make([]byte, 64<<10)
	go t.record()
	for {
		n, err := t.control.Read(chunk)
		if err != nil {
			return
		}
		t.mu.Lock()
		_, _ = t.screens.Write(chunk[:n]) // writes to memory, so it can't fail
		t.drawn, t.kept = time.Now(), false
		t.mu.Unlock()
	}
}

// record records every screen that stays for a moment.
func (t *terminal) record() {
	ticker := time.NewTicker(settle / 3)
	defer ticker.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-ticker.C:
		}
		t.mu.Lock()
		if !t.kept && time.Since(t.drawn) > settle {
			t.frames, t.kept = append(t.frames, frame{t.drawn, screenOf(t.screens)}), true
		}
		t.mu.Unlock()
	}
}

func (t *terminal) recorded() []frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frames
}

func (t *terminal) screen() screen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return screenOf(t.screens)
}

func (t *terminal) text() string { return t.screen().text() }

func (t *terminal) wait(d time.Duration, text string) error {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(settle) {
		if strings.Contains(t.text(), text) {
			return nil
		}
	}
	return fmt.Errorf("%q did not come within %s", text, d)
}

var keys = map[string]string{
	"enter": "\r", "esc": "\x1b", "tab": "\t", "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
	"pgdown": "\x1b[6~", "pgup": "\x1b[5~", "ctrl+c": "\x03",
}

func (t *terminal) press(key string) error {
	if sequence, ok := keys[key]; ok {
		key = sequence
	}
	_, err := io.WriteString(t.control, key)
	return err
}

// close ends the program, as a closed terminal does. The pictures don't depend
// on how the program ends.
func (t *terminal) close() {
	_ = t.program.Process.Signal(syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		_ = t.program.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		_ = t.program.Process.Kill()
	}
	_ = t.control.Close()
}
