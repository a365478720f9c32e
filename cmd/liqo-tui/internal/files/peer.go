package files

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows/invite"
	"github.com/liqo-tui/liqo-tui/flows/peerfile"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

const fileValid = 24 * time.Hour

// PeerFileOut has the output file of an invitation or answer, and its validity.
type PeerFileOut struct {
	File        string
	Valid       time.Duration
	fingerprint string // the file's fingerprint, after it is written
}

// Add adds the flags. standard is the default file.
func (l *PeerFileOut) Add(cmd *cobra.Command, standard string) {
	cmd.Flags().StringVar(&l.File, "file", "", "file to write (default: "+standard+")")
	cmd.Flags().DurationVar(&l.Valid, "valid", fileValid, "how long the file is valid")
}

// Validate returns the problems of the flags.
func (l *PeerFileOut) Validate() error {
	if l.Valid <= 0 {
		return exit.UsageError{Err: fmt.Errorf("--valid %s: want more than 0", l.Valid)}
	}
	return nil
}

// Write writes the file. Its content is not secret.
func (l *PeerFileOut) Write(content peerfile.File) error {
	text, err := content.Text()
	if err != nil {
		return err
	}
	if l.fingerprint, err = peerfile.Fingerprint(text); err != nil {
		return err
	}
	if err := os.WriteFile(l.File, text, 0o644); err != nil {
		return fmt.Errorf("write the %s: %w; the same command tries again", strings.ToLower(string(content.Kind)), err)
	}
	return nil
}

// AddFingerprint adds the flag for the fingerprint that the other admin has
// named.
func AddFingerprint(cmd *cobra.Command, fingerprint *string) {
	cmd.Flags().StringVar(fingerprint, "fingerprint", "", "fingerprint that the other admin has named; a file with another one is refused")
}

// ReadPeerFile reads a file of one kind. The file must still be valid, and must
// have the fingerprint; "" accepts any.
func ReadPeerFile(file string, want peerfile.Kind, fingerprint string) (peerfile.File, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return peerfile.File{}, exit.UsageError{Err: err}
	}
	l, err := peerfile.Parse(text)
	if err != nil {
		return l, exit.UsageError{Err: fmt.Errorf("%s: %w", file, err)}
	}
	if l.Kind != want {
		takes := command.Ours("network", map[peerfile.Kind]string{peerfile.Invitation: "join", peerfile.Answer: "accept"}[l.Kind], file)
		return l, exit.UsageError{Err: fmt.Errorf("%s is not the %s: %s takes it", file, strings.ToLower(string(want)), takes)}
	}
	return l, cmp.Or(invite.WrongFingerprint(l, fingerprint), invite.Expired(l, time.Now()))
}

// HandOver describes what to do with the written file.
func (l *PeerFileOut) HandOver(name, takes, to string) string {
	return fmt.Sprintf("The %s is in %s, and is valid for %s. Its fingerprint is %s.\nfor the admin of %s: %s",
		name, l.File, l.Valid, l.fingerprint, to, command.Ours("network", takes, l.File).For(to))
}
