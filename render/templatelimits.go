package render

import (
	"errors"
	"fmt"
	"io"
	"text/template"
	"text/template/parse"
)

// limited is a writer for at most left bytes. Each write reduces left.
type limited struct {
	to   io.Writer
	left *int
}

func (l limited) Write(text []byte) (int, error) {
	if *l.left -= len(text); *l.left < 0 {
		return 0, fmt.Errorf("the template renders to more than %d bytes", maxRendered)
	}
	return l.to.Write(text)
}

// maxText is the longest result of a function, in bytes. Without a limit, a few lines that each double a text
// would need any amount of memory.
const maxText = 64 << 10

// bounded replaces the functions of text/template whose results can be longer than their arguments.
var bounded = template.FuncMap{
	"print":    func(args ...any) (string, error) { return short(fmt.Sprint(args...)) },
	"println":  func(args ...any) (string, error) { return short(fmt.Sprintln(args...)) },
	"printf":   func(format string, args ...any) (string, error) { return short(fmt.Sprintf(format, args...)) },
	"html":     func(args ...any) (string, error) { return short(template.HTMLEscaper(args...)) },
	"js":       func(args ...any) (string, error) { return short(template.JSEscaper(args...)) },
	"urlquery": func(args ...any) (string, error) { return short(template.URLQueryEscaper(args...)) },
}

func short(text string) (string, error) {
	if len(text) > maxText {
		return "", fmt.Errorf("a text of more than %d bytes", maxText)
	}
	return text, nil
}

// endless refuses templates that may run for ever: templates that use other templates, and loops over
// anything except a list of the gateway. known is the number of templates if t defines none.
func endless(t *template.Template, known int) error {
	if len(t.Templates()) > known {
		return errors.New("define, block and template are not for gateways' templates")
	}
	if t.Tree == nil {
		return nil
	}
	return loops(t.Root, false)
}

func loops(node parse.Node, inLoop bool) error {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, child := range n.Nodes {
			if err := loops(child, inLoop); err != nil {
				return err
			}
		}
	case *parse.TemplateNode:
		return errors.New("define, block and template are not for gateways' templates")
	case *parse.IfNode:
		return errors.Join(loops(n.List, inLoop), loops(n.ElseList, inLoop))
	case *parse.WithNode:
		return errors.Join(loops(n.List, inLoop), loops(n.ElseList, inLoop))
	case *parse.RangeNode:
		if inLoop {
			return errors.New("a range within a range may take too long")
		}
		if len(n.Pipe.Cmds) != 1 || len(n.Pipe.Cmds[0].Args) != 1 || n.Pipe.Cmds[0].Args[0].Type() != parse.NodeField {
			return errors.New("range is for a field of the gateway, like .Spec.Endpoint.Addresses")
		}
		return errors.Join(loops(n.List, true), loops(n.ElseList, true))
	}
	return nil
}
