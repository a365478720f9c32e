// Package abuses is a test helper: it contains the table of attempts against the boundaries of SECURITY.md,
// and checks that the tests make them.
package abuses

import (
	_ "embed"
	"flag"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Row is one attempt that must be refused.
type Row struct {
	Boundary string // the name in SECURITY.md
	Test     string
	Actor    string
	Attempt  string
	Request  string // verb and resource, "-" if the attempt is no request to an API server; "apply" creates or patches
	Refusal  string // a part of the error; that of a policy begins with "policy NAME: "
	Nearest  string // a request of the same actor that is permitted
}

//go:embed abuses.txt
var table string

// All returns the rows of the table. A row without exactly seven columns is empty.
func All() []Row {
	var rows []Row
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if c := strings.Split(line, " | "); len(c) == 7 {
			rows = append(rows, Row{c[0], c[1], c[2], c[3], c[4], c[5], c[6]})
		} else {
			rows = append(rows, Row{})
		}
	}
	return rows
}

type tried struct {
	permitted, refused map[string]bool
	last               string // the last request of a watched client
}

var (
	mu    sync.Mutex
	tests = map[string]*tried{}
)

// Begin compares a test with the table. At its end, the test must have made all attempts in its rows.
func Begin(t *testing.T) {
	mu.Lock()
	defer mu.Unlock()
	tests[t.Name()] = &tried{permitted: map[string]bool{}, refused: map[string]bool{}}
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, row := range All() {
			if row.Test == t.Name() && !tests[t.Name()].refused[row.Actor+" | "+row.Attempt] {
				t.Errorf("internal/abuses/abuses.txt: %s does not try %q, %q", row.Test, row.Actor, row.Attempt)
			}
		}
	})
}

// of returns the attempts of the test. The caller holds the lock.
func of(t testing.TB) (string, *tried) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if tests[name] == nil {
		t.Fatalf("%s does not follow the table of abuses", name)
	}
	return name, tests[name]
}

// Permitted reports a request of an actor that must succeed.
func Permitted(t testing.TB, actor, request string, err error) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	_, done := of(t)
	if err != nil {
		t.Errorf("permitted request of %s, %s: %v", actor, request, err)
	}
	done.permitted[actor+" | "+request] = err == nil
}

// Refused compares the result of an attempt with its row.
func Refused(t testing.TB, actor, attempt string, err error) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	name, done := of(t)
	done.refused[actor+" | "+attempt] = true
	if err == nil {
		t.Errorf("%s, %s: it is not refused", actor, attempt)
		return
	}
	for _, row := range All() {
		if row.Test != name || row.Actor != actor || row.Attempt != attempt {
			continue
		}
		sentence := row.Refusal
		if policy, ok := strings.CutPrefix(sentence, "policy "); ok {
			policy, sentence, _ = strings.Cut(policy, ": ")
			if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'") {
				t.Errorf("%s, %s: got %v, want it refused by policy %s", actor, attempt, err, policy)
			}
		}
		if !strings.Contains(err.Error(), sentence) {
			t.Errorf("%s, %s: it was refused for another reason than %q: %v", actor, attempt, sentence, err)
		}
		if row.Request != "-" && row.Request != done.last {
			t.Errorf("%s, %s: got request %q, want %q", actor, attempt, done.last, row.Request)
		}
		if !done.permitted[actor+" | "+row.Nearest] {
			t.Errorf("%s, %s: before it, nobody has shown that it may %q", actor, attempt, row.Nearest)
		}
		return
	}
	t.Errorf("internal/abuses/abuses.txt has no row %s | %s | %s | %s | %v", name, actor, attempt, done.last, err)
}

// Watch records the requests of a client, so that Refused can compare them with a row.
func Watch(t testing.TB) func(http.RoundTripper) http.RoundTripper {
	name, _, _ := strings.Cut(t.Name(), "/")
	return func(next http.RoundTripper) http.RoundTripper {
		return watched(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			if done := tests[name]; done != nil {
				done.last = request(r)
			}
			mu.Unlock()
			return next.RoundTrip(r)
		})
	}
}

type watched func(*http.Request) (*http.Response, error)

func (w watched) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// request returns a request's verb and resource, as RBAC names them.
func request(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" && len(parts) > 3 {
		group, parts = "."+parts[1], parts[3:]
	} else if len(parts) > 2 {
		parts = parts[2:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	resource := parts[0] + group
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	verb := map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}[r.Method]
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch+") {
		verb = "apply"
	}
	if all := map[string]string{"delete": "deletecollection", "get": "list"}[verb]; all != "" && len(parts) < 2 {
		verb = all
	}
	return verb + " " + resource
}
