package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/files"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// checkTemplate returns the command that checks gateway templates in a file.
func checkTemplate(io streams, pair *pairFlags) *cobra.Command {
	var file, namespace string
	cmd := &cobra.Command{
		Use: "template --check FILE", Short: "Check a file of gateway templates, and apply nothing", Args: noArguments,
		Long: `Fill the gateway templates of a file in with sample values, and have the API
server judge what comes out. What is wrong is named with its line and field.
"kubectl apply -f FILE" creates the templates.`,
		Example: "  liqo-tui create template --check wireguard-server.yaml --context rome",
	}
	f := cmd.Flags()
	f.StringVar(&file, "check", "", "the file")
	f.StringVarP(&namespace, "namespace", "n", "default", "a namespace like that of gateways, whose policies also apply")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		text, err := os.ReadFile(file)
		if file == "" {
			err = errors.New("--check: want the name of a file")
		}
		if err != nil {
			return exit.UsageError{Err: err}
		}
		all, err := files.ReadTemplates(file, text, namespace)
		if err != nil {
			return exit.UsageError{Err: err}
		}
		a, _, closeAll, err := pair.openFor(true)
		if err != nil {
			return err
		}
		defer closeAll()
		runner, ok := a.(engine.DryRunner)
		if !ok {
			return errors.New("the cluster has no dry run")
		}
		var refused []error
		for _, t := range all {
			answers, err := runner.DryRun(cmd.Context(), t.Objects, true)
			if err != nil {
				return stopped(cmd.Context(), err)
			}
			var names []string
			before := len(refused)
			for i, answer := range answers {
				if answer.Err != nil {
					refused = append(refused, t.Locate(t.Objects[i], answer.Err))
				}
				names = append(names, apply.Name(t.Objects[i]))
			}
			if before < len(refused) {
				continue
			}
			fmt.Fprintf(io.out, "%s:%d: %s renders to what the API server accepts: %s\n", file, t.Line, t.Name, strings.Join(names, ", "))
			for _, part := range t.Unused {
				fmt.Fprintf(io.out, "%s:%d: spec.%s is not used: liqo-tui's operator makes nothing of it\n", file, t.Line, part)
			}
		}
		if len(refused) > 0 {
			return exit.UsageError{Err: errors.Join(refused...)}
		}
		return nil
	}
	return cmd
}
