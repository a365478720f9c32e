// Package setting describes the settings that an admin can choose. Flags, forms,
// files and their schemas are made from one table.
package setting

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Setting is one setting in parameters of type P. From it follow the flag with its
// help and completion, the key in files, the line in the wizard's form, and the
// question of the accessible wizard.
type Setting[P any] struct {
	Name    string // of the flag, and the key in files
	Letter  string // of the flag; "" for none
	Liqoctl string // liqoctl's name of the flag
	Help    string // one line
	Explain string // for readers who have never heard of it
	Label   string // in forms; "" means in no form
	Noun    string // in sentences, after "the"
	// Field is the field of an object that the setting changes, as Kind.path.
	Field string

	Kind    Kind
	Options []Option // of a Choice
	// Min and Max bound a Number.
	Min, Max int
	// Want describes a Number in errors.
	Want string
	// Valid returns the error of a Text, or of one text of a List. It may be nil for
	// a Text that accepts everything.
	Valid func(text string) error
	// Pattern is a regular expression for the part of Valid that a schema can
	// express; "" for none.
	Pattern string
	// Empty describes the effect of an empty value; "" if there must be a value.
	Empty string
	// Bare is the value if the flag is given without one.
	Bare string
	// Auto is set if facts can choose the value: see flows.Suggest.
	Auto bool
	Store[P]

	// Sets has the fields of the parameters that the setting sets.
	Sets Fields
	// Service is the only type of Service for which the setting has an effect; ""
	// for all.
	Service corev1.ServiceType
	// Peering is set if the setting has an effect only with lending.
	Peering bool
	// Inviter is set if only the inviting side, which has the gateway server,
	// decides it.
	Inviter bool
	// Words returns the options' texts in forms, given the names of two clusters. If
	// it is nil, the options' own texts are used.
	Words func(a, b string) []string
}

// Kind is the kind of a setting's values.
type Kind uint8

// The kinds.
const (
	Text Kind = iota
	Choice
	Number
	List // texts separated by commas
)

// Option is one value of a choice.
type Option struct {
	Value string
	Word  string   // in forms, if it differs
	Also  []string // other spellings, such as liqoctl's
}

func (o Option) String() string { return cmp.Or(o.Word, o.Value) }

// is reports whether text stands for the option. The first word of the option's name
// is enough.
func (o Option) is(text string) bool {
	first, _, _ := strings.Cut(o.Word, " ")
	return slices.ContainsFunc(append([]string{o.Value, o.Word, first}, o.Also...), func(name string) bool {
		return name != "" && strings.EqualFold(name, text)
	})
}

// Store reads and writes a setting's value as a text.
type Store[P any] struct {
	Write func(P) string
	Read  func(*P, string)
}

// TextAt returns the store for a text.
func TextAt[P any, S ~string](at func(*P) *S) Store[P] {
	return Store[P]{func(p P) string { return string(*at(&p)) }, func(p *P, text string) { *at(p) = S(text) }}
}

// NumberAt returns the store for a number; 0 means no value.
func NumberAt[P any, N int | uint16](at func(*P) *N) Store[P] {
	return Store[P]{
		func(p P) string { return strings.TrimPrefix(strconv.Itoa(int(*at(&p))), "0") },
		func(p *P, text string) { n, _ := strconv.Atoi(text); *at(p) = N(n) }, // Set has validated it
	}
}

// ListAt returns the store for a list of texts.
func ListAt[P any](at func(*P) *[]string) Store[P] {
	return Store[P]{func(p P) string { return strings.Join(*at(&p), ",") }, func(p *P, text string) {
		*at(p) = slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
	}}
}

// Key returns the setting's name in the files that Helm also reads, such as podCIDR
// for pod-cidr.
func (s Setting[P]) Key() string {
	words := strings.Split(s.Name, "-")
	for i, w := range words {
		switch {
		case i > 0 && (w == "cidr" || w == "id"):
			words[i] = strings.ToUpper(w)
		case i > 0:
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// Set parses a text and stores the value. All texts from admins pass through it. The
// error names the accepted values.
func (s Setting[P]) Set(p *P, text string) error {
	if text == "0" && s.Kind == Number {
		text = ""
	}
	if text == "" && s.Empty != "" {
		s.Read(p, "")
		return nil
	}
	switch s.Kind {
	case Choice:
		i := slices.IndexFunc(s.Options, func(o Option) bool { return o.is(text) })
		if i < 0 {
			return errors.New("want " + alternatives(s.Options))
		}
		text = s.Options[i].Value
	case Number:
		if n, err := strconv.Atoi(text); err != nil || n < s.Min || n > s.Max {
			return fmt.Errorf("want %s, %d to %d", s.Want, s.Min, s.Max)
		}
	case List:
		for part := range strings.SplitSeq(text, ",") {
			if err := s.Valid(part); err != nil {
				return err
			}
		}
	case Text:
		if s.Valid == nil {
			break
		}
		if err := s.Valid(text); err != nil {
			return err
		}
	}
	s.Read(p, text)
	return nil
}

// alternatives joins options with commas and a last "or".
func alternatives(options []Option) string {
	words := make([]string, len(options))
	for i, o := range options {
		words[i] = o.String()
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Option returns the index of the chosen option; 0 if the value is no option.
func (s Setting[P]) Option(p P) int {
	value := s.Write(p)
	return max(0, slices.IndexFunc(s.Options, func(o Option) bool { return o.Value == value }))
}

// Value returns the setting's value in words.
func (s Setting[P]) Value(p P) string {
	if s.Kind == Choice {
		return s.Options[s.Option(p)].String()
	}
	return cmp.Or(s.Write(p), s.Empty)
}

// Word returns the setting's value as an admin would type it. An empty number is 0.
func (s Setting[P]) Word(p P) string {
	if text := s.Write(p); text != "" || s.Kind != Number {
		return text
	}
	return "0"
}

// Check returns the errors of all invalid values of p, joined. Each error names the
// flag to change.
func Check[P any](settings []Setting[P], p P) error {
	var errs []error
	for _, s := range settings {
		if err := s.Set(&p, s.Write(p)); err != nil {
			errs = append(errs, fmt.Errorf("--%s %q: %w", s.Name, s.Word(p), err))
		}
	}
	return errors.Join(errs...)
}

// Fields is a set of the fields of parameters that settings set.
type Fields uint16

// Has reports whether all of fields are in the set.
func (f Fields) Has(fields Fields) bool { return f&fields == fields }
