package main

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

// globals are the flags of every command.
type globals struct {
	color      string
	theme      string
	ascii      bool
	accessible bool
	logFile    string
	verbosity  int
}

func (g *globals) add(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&g.color, "color", "auto", "colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	f.StringVar(&g.theme, "theme", themes[0], "colours of screens: auto (the terminal's own) or high-contrast")
	f.BoolVar(&g.ascii, "ascii", false, "draw with ASCII characters only (default: as the locale says)")
	f.BoolVar(&g.accessible, "accessible", false, "ask and tell line by line instead of drawing screens")
	f.StringVar(&g.logFile, "log-file", "", "append a log of the run, and of the requests that -v asks for, to this file")
	f.IntVarP(&g.verbosity, "verbose", "v", 0, "detail of the log, as kubectl's -v: 6 shows requests, 8 bodies (needs --log-file)")
}

var themes = []string{"auto", "high-contrast"}

func (g *globals) validate() error {
	var errs []error
	switch g.color {
	case "auto", "always", "never":
	default:
		errs = append(errs, fmt.Errorf("--color %q: want auto, always or never", g.color))
	}
	if !slices.Contains(themes, g.theme) {
		errs = append(errs, fmt.Errorf("--theme %q: want %s", g.theme, strings.Join(themes, " or ")))
	}
	if g.verbosity < 0 || g.verbosity > 10 {
		errs = append(errs, fmt.Errorf("--verbose %d: want 0 to 10", g.verbosity))
	}
	if g.verbosity > 0 && g.logFile == "" {
		errs = append(errs, errors.New("--verbose: give --log-file too, for what it logs must not land among results"))
	}
	if len(errs) > 0 {
		return exit.UsageError{Err: errors.Join(errs...)}
	}
	return nil
}

// openLog sends the client libraries' logs to --log-file. Without one they are
// dropped: they would land in the middle of the screen, and what matters of
// them comes back as an error. The file is the reader's own: requests that a
// log shows may be confidential.
func (g *globals) openLog() (close func(), err error) {
	if g.logFile == "" {
		discardLogs()
		return func() {}, nil
	}
	file, err := os.OpenFile(g.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, exit.UsageError{Err: fmt.Errorf("--log-file: %w", err)}
	}
	handler := slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.Level(-g.verbosity)})
	slog.SetDefault(slog.New(handler))
	logger := logr.FromSlogHandler(handler)
	klog.SetLogger(logger)
	ctrllog.SetLogger(logger)
	var levels flag.FlagSet
	klog.InitFlags(&levels)
	if err := levels.Set("v", strconv.Itoa(g.verbosity)); err != nil {
		return nil, err
	}
	return func() { discardLogs(); _ = file.Close() }, nil
}

func discardLogs() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
}

// programName is how the admin calls the program: kubectl runs a plug-in
// kubectl-liqo_tui for `kubectl liqo-tui`, since it writes the dashes of a
// command as underscores in the name of the file.
func programName(arg0 string) string {
	name := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "liqo-tui"
}
