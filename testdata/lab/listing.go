package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// listing is the content of a lab: by section, such as "rome-1 links", and by name in the section.
// The value describes the state in lines. Objects that change by themselves are left out, so two
// listings are equal unless somebody has left something behind.
type listing map[string]map[string]string

// diff lists new, missing and changed things in lines. It is empty if the listings are equal.
func diff(before, now listing) []string {
	var lines []string
	for _, section := range keysOf(before, now) {
		was, is := before[section], now[section]
		var changed []string
		for _, key := range keysOf(was, is) {
			old, had := was[key]
			present, has := is[key]
			switch {
			case !had:
				changed = append(changed, "  there, but was not: "+withDetail(key, present))
			case !has:
				changed = append(changed, "  missing: "+withDetail(key, old))
			case old != present:
				changed = append(changed, "  otherwise: "+key)
				changed = append(changed, differingLines(old, present)...)
			}
		}
		if len(changed) > 0 {
			lines = append(append(lines, section), changed...)
		}
	}
	return lines
}

func differingSections(before, now listing) []string {
	return slices.DeleteFunc(keysOf(before, now), func(section string) bool { return maps.Equal(before[section], now[section]) })
}

func keysOf[V any](a, b map[string]V) []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, m := range []map[string]V{a, b} {
			for key := range maps.Keys(m) {
				if !yield(key) {
					return
				}
			}
		}
	}))
}

// maxDetail is the largest number of lines of a value in a diff, because an object has hundreds.
const maxDetail = 6

func withDetail(key, value string) string {
	lines := strings.Split(value, "\n")
	switch {
	case value == "":
		return key
	case len(lines) == 1:
		return key + ": " + value
	}
	more := ""
	if len(lines) > maxDetail {
		more = fmt.Sprintf("\n      … %d lines more", len(lines)-maxDetail)
		lines = lines[:maxDetail]
	}
	return key + "\n      " + strings.Join(lines, "\n      ") + more
}

// differingLines returns the lines that only one of two values has, or has more often. If the two
// values have the same lines, it says that their order differs.
func differingLines(old, present string) []string {
	count := map[string]int{}
	for line := range strings.SplitSeq(present, "\n") {
		count[line]++
	}
	for line := range strings.SplitSeq(old, "\n") {
		count[line]--
	}
	var gone, come []string
	for _, line := range slices.Sorted(maps.Keys(count)) {
		for range -count[line] {
			gone = append(gone, "    - "+line)
		}
		for range count[line] {
			come = append(come, "    + "+line)
		}
	}
	if len(gone)+len(come) == 0 {
		return []string{"    the lines are the same, in another order"}
	}
	return append(gone, come...)
}

// add records one object. It counts objects with the same name and value.
func (l listing) add(section, key, value string) {
	if l[section] == nil {
		l[section] = map[string]string{}
	}
	known := l[section]
	name := key
	for n := 2; ; n++ {
		if _, taken := known[name]; !taken {
			known[name] = value
			return
		}
		name = fmt.Sprintf("%s (%d)", key, n)
	}
}

// passing has patterns of the random names that runtimes give to the objects of each pod, with
// their replacements.
var passing = []struct {
	name *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "CONTAINER"},
	{regexp.MustCompile(`\bveth[0-9a-f]{8}\b`), "veth*"},
	{regexp.MustCompile(`\bcali[0-9a-f]{11}\b`), "cali*"},
	{regexp.MustCompile(`\bcni-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "cni-*"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\bCNI-[0-9a-f]{24}\b`), "CNI-*"},
}

func withoutPassingNames(text string) string {
	for _, p := range passing {
		text = p.name.ReplaceAllString(text, p.as)
	}
	return text
}
