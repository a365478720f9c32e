package flags

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// Global has the flags of all commands, for screens and logs.
type Global struct {
	Color      string
	Theme      string
	ASCII      bool
	Accessible bool
	LogFile    string
	Verbosity  int
}

// Add adds the flags to a command and its subcommands.
func (g *Global) Add(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&g.Color, "color", "auto", "colours of screens: auto (on a terminal, unless NO_COLOR is set), always or never")
	f.StringVar(&g.Theme, "theme", Themes[0], "colours of screens: auto (the terminal's own) or high-contrast")
	f.BoolVar(&g.ASCII, "ascii", false, "draw with ASCII characters only (default: as the locale says)")
	f.BoolVar(&g.Accessible, "accessible", false, "ask and tell line by line instead of drawing screens")
	f.StringVar(&g.LogFile, "log-file", "", "append a log of the run, and of the requests that -v asks for, to this file")
	f.IntVarP(&g.Verbosity, "verbose", "v", 0, "detail of the log, as kubectl's -v: 6 shows requests, 8 bodies (needs --log-file)")
}

// Themes has the values of --theme.
var Themes = []string{"auto", "high-contrast"}

// Validate returns the problems of the flags.
func (g *Global) Validate() error {
	var errs []error
	switch g.Color {
	case "auto", "always", "never":
	default:
		errs = append(errs, fmt.Errorf("--color %q: want auto, always or never", g.Color))
	}
	if !slices.Contains(Themes, g.Theme) {
		errs = append(errs, fmt.Errorf("--theme %q: want %s", g.Theme, strings.Join(Themes, " or ")))
	}
	if g.Verbosity < 0 || g.Verbosity > 10 {
		errs = append(errs, fmt.Errorf("--verbose %d: want 0 to 10", g.Verbosity))
	}
	if g.Verbosity > 0 && g.LogFile == "" {
		errs = append(errs, errors.New("--verbose: also give --log-file, because log lines must not mix with results"))
	}
	if len(errs) > 0 {
		return exit.UsageError{Err: errors.Join(errs...)}
	}
	return nil
}

// OpenLog writes the client libraries' logs to --log-file. Without the flag it
// drops them, because they would appear in the middle of the screen. Important
// ones also come as errors. Only the user may read the file, because requests in
// a log may be confidential.
func (g *Global) OpenLog() (close func(), err error) {
	if g.LogFile == "" {
		DiscardLogs()
		return func() {}, nil
	}
	file, err := os.OpenFile(g.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, exit.UsageError{Err: fmt.Errorf("--log-file: %w", err)}
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(0o600); err != nil {
			_ = file.Close()
			return nil, exit.UsageError{Err: fmt.Errorf("--log-file: others may read it: %w", err)}
		}
	}
	handler := slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.Level(-g.Verbosity)})
	slog.SetDefault(slog.New(handler))
	logger := logr.FromSlogHandler(handler)
	klog.SetLogger(logger)
	ctrllog.SetLogger(logger)
	var levels flag.FlagSet
	klog.InitFlags(&levels)
	if err := levels.Set("v", strconv.Itoa(g.Verbosity)); err != nil {
		return nil, err
	}
	return func() { DiscardLogs(); _ = file.Close() }, nil
}

// DiscardLogs drops the client libraries' logs.
func DiscardLogs() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
}

// ProgramName returns the name by which the admin calls the program. For `kubectl
// liqo-tui`, kubectl runs the plug-in kubectl-liqo_tui: in the file's name, it
// replaces the dashes of a command with underscores.
func ProgramName(arg0 string) string {
	name := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "liqo-tui"
}
