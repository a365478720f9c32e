package accessible

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/liqo-tui/liqo-tui/internal/lines"
)

// ErrNoAnswer is the error if the input ends before a question was answered.
// The end never counts as a yes, nor as the suggested answer.
var ErrNoAnswer = errors.New("the input ended before the question was answered")

// ErrLeft is the error if the admin decides not to continue.
var ErrLeft = errors.New("left")

// prompter writes sentences and asks questions, one line at a time. It draws
// nothing and never goes back.
type prompter struct {
	in  *lines.Reader
	out io.Writer
}

// say writes one line. It removes control characters, so texts of a cluster
// can't draw on the terminal.
func (p *prompter) say(format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, fmt.Sprintf(format, args...))
	fmt.Fprintln(p.out, text)
}

// ask writes a question and waits for its answer, or for the end of ctx.
func (p *prompter) ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(p.out, question+" ")
	text, err := p.in.Line(ctx)
	switch {
	case err == nil:
		return strings.TrimSpace(text), nil
	case ctx.Err() != nil:
		err = ctx.Err()
	default: // input that ends without a newline is no answer
		err = ErrNoAnswer
	}
	fmt.Fprintln(p.out)
	return "", err
}

// choose asks for one of n numbered choices, or for one of words; "q" leaves.
func (p *prompter) choose(ctx context.Context, what string, n int, words ...string) (number int, word string, err error) {
	for {
		choices := []string{fmt.Sprintf("number 1 to %d", n)}
		for _, w := range words {
			choices = append(choices, strconv.Quote(w))
		}
		question := fmt.Sprintf("%s, %s, or %q to quit:", what, strings.Join(choices, ", "), leave)
		text, err := p.ask(ctx, question)
		switch i, number := strconv.Atoi(text); {
		case err != nil:
			return 0, "", err
		case text == leave:
			return 0, "", ErrLeft
		case number == nil && i >= 1 && i <= n:
			return i, "", nil
		case slices.Contains(words, text):
			return 0, text, nil
		}
		p.say("%q is not one of these.", text)
	}
}

// leave is the answer to any question that ends the conversation.
const leave = "q"

// pick asks for one of a few words; "q" leaves.
func (p *prompter) pick(ctx context.Context, what string, words ...string) (string, error) {
	return p.pickOr(ctx, what, "", words...)
}

// pickOr is pick, but an empty line is an answer, too: it returns "".
func (p *prompter) pickOr(ctx context.Context, what, empty string, words ...string) (string, error) {
	var choices []string
	for _, word := range words {
		choices = append(choices, strconv.Quote(word))
	}
	question := fmt.Sprintf("%s Type %s, or %q to quit:", what, strings.Join(choices, ", "), leave)
	if empty != "" {
		question = fmt.Sprintf("%s Type %s, an empty line to %s, or %q to quit:", what, strings.Join(choices, ", "), empty, leave)
	}
	for {
		text, err := p.ask(ctx, question)
		switch {
		case err != nil:
			return "", err
		case text == leave:
			return "", ErrLeft
		case slices.Contains(words, text), text == "" && empty != "":
			return text, nil
		}
		p.say("%q is not one of these.", text)
	}
}

// value asks for a value. An empty line keeps the present value.
func (p *prompter) value(ctx context.Context, what, present, explain string, set func(string) error) error {
	for {
		text, err := p.ask(ctx, fmt.Sprintf("%s: %s. Type another value, an empty line to keep it, or ? for help:", what, present))
		switch {
		case err != nil:
			return err
		case text == "":
			return nil
		case text == leave:
			return ErrLeft
		case text == "?":
			p.say("%s", explain)
			continue
		}
		problem := set(text)
		if problem == nil {
			return nil
		}
		p.say("%q can't be used: %v.", text, problem)
	}
}
