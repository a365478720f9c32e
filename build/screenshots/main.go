// Command screenshots runs a program on a pseudo-terminal, presses the keys of
// a script, and draws the screen: single screens, or the whole run as an
// animation. The pictures are SVG with text in them, so that they are sharp and
// small, and screen readers can read them.
//
//	screenshots -size 100x30 -script wizard.keys -out docs -- liqo-tui wizard
//
// A script has one command a line:
//
//	wait SECONDS TEXT   until the text is on the screen
//	press KEY...        enter, up, down, esc, tab, ctrl+c, or characters
//	pause SECONDS
//	snap NAME           draws the screen as NAME.svg
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run() error {
	size := flag.String("size", "100x30", "of the terminal, columns x lines")
	script := flag.String("script", "", "file with what to do")
	out := flag.String("out", ".", "folder of the pictures")
	animation := flag.String("animation", "", "name of the animation of the whole run; none if empty")
	flag.Parse()
	var width, height int
	if _, err := fmt.Sscanf(*size, "%dx%d", &width, &height); err != nil || flag.NArg() == 0 {
		flag.Usage()
		return errors.New("want -size WxH and a program")
	}
	t, err := start(width, height, flag.Args())
	if err != nil {
		return err
	}
	defer t.close()
	if err := play(t, *script, *out); err != nil {
		return fmt.Errorf("%w; the screen is:\n%s", err, t.text())
	}
	if *animation == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(*out, *animation+".svg"), []byte(animate(t.recorded())), 0o644)
}

func play(t *terminal, script, out string) error {
	f, err := os.Open(script)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := do(t, words, out); err != nil {
			return fmt.Errorf("%s:%d: %w", script, n, err)
		}
	}
	return lines.Err()
}

func do(t *terminal, words []string, out string) error {
	switch {
	case words[0] == "wait" && len(words) > 2:
		seconds, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		return t.wait(time.Duration(seconds)*time.Second, strings.Join(words[2:], " "))
	case words[0] == "press":
		for _, key := range words[1:] {
			if err := t.press(key); err != nil {
				return err
			}
			time.Sleep(keyGap)
		}
		return nil
	case words[0] == "pause" && len(words) == 2:
		seconds, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		return nil
	case words[0] == "snap" && len(words) == 2:
		time.Sleep(settle)
		return os.WriteFile(filepath.Join(out, words[1]+".svg"), []byte(draw(t.screen())), 0o644)
	}
	return fmt.Errorf("what is %q?", strings.Join(words, " "))
}
