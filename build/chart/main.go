// Command chart writes the Helm chart: the objects of render.Install, with the
// settings of an installation as values.
//
//	chart -o DIR [-version VERSION] [-image IMAGE]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("chart", flag.ContinueOnError)
	out := flags.String("o", "", "folder to write")
	release := Release{Version: unreleased}
	flags.StringVar(&release.Version, "version", release.Version, "version of the chart and of the program")
	flags.StringVar(&release.Image, "image", "", "image that the chart installs by default")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || flags.NArg() > 0 {
		return fmt.Errorf("usage: chart -o DIR [-version VERSION] [-image IMAGE]")
	}
	files, err := Files(release)
	if err != nil {
		return err
	}
	return write(*out, files)
}

// write makes the folder contain exactly these files.
func write(dir string, files map[string]string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
