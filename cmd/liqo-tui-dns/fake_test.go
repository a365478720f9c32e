package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// apiServer answers list and watch for some resources, as an API server does. It answers 404 for
// resources that it does not have.
type apiServer struct {
	URL string

	mu        sync.Mutex
	version   int
	resources map[string]*resource // by their names
}

// lists has the kinds of lists, by resource.
var lists = map[string]string{
	"namespaces": "NamespaceList", "services": "ServiceList", "endpointslices": "EndpointSliceList", "serviceimports": "ServiceImportList",
}

type resource struct {
	objects map[string]runtime.Object // by namespace/name
	events  []event
	changed chan struct{} // closed by the next change
}

type event struct {
	version int
	kind    string
	object  runtime.Object
}

func startAPIServer(t *testing.T, resources ...string) *apiServer {
	s := &apiServer{resources: map[string]*resource{}}
	for _, r := range resources {
		s.define(r)
	}
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections() // ends the watches
		server.Close()
	})
	return s
}

func (s *apiServer) define(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[name] = &resource{objects: map[string]runtime.Object{}, changed: make(chan struct{})}
}

// withdraw ends the watches of a resource, as an API server does when its definition is deleted.
func (s *apiServer) withdraw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[name]
	delete(s.resources, name)
	close(r.changed)
}

func (s *apiServer) put(name string, o runtime.Object) { s.change(name, "ADDED", o) }

func (s *apiServer) remove(name string, o runtime.Object) { s.change(name, "DELETED", o) }

func (s *apiServer) change(name, kind string, o runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, m := s.resources[name], must(meta.Accessor(o))
	s.version++
	m.SetResourceVersion(strconv.Itoa(s.version))
	key := m.GetNamespace() + "/" + m.GetName()
	if r.objects[key] = o; kind == "DELETED" {
		delete(r.objects, key)
	}
	r.events = append(r.events, event{s.version, kind, o})
	close(r.changed)
	r.changed = make(chan struct{})
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	parts := strings.Split(req.URL.Path, "/") // as in /apis/GROUP/VERSION/RESOURCE
	name, version := parts[len(parts)-1], schema.GroupVersion{Version: parts[len(parts)-2]}
	if parts[1] == "apis" {
		version.Group = parts[2]
	}
	query := req.URL.Query()
	selector := must(labels.Parse(query.Get("labelSelector")))
	s.mu.Lock()
	r := s.resources[name]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r == nil:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case query.Get("sendInitialEvents") == "true": // a client has to do without this
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case query.Get("watch") != "":
		s.watch(w, req, r, selector)
	default:
		s.list(w, r, metav1.TypeMeta{APIVersion: version.String(), Kind: lists[name]}, selector)
	}
}

func (s *apiServer) list(w http.ResponseWriter, r *resource, kind metav1.TypeMeta, selector labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []runtime.Object{}
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		if selects(selector, r.objects[key]) {
			items = append(items, r.objects[key])
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": kind.Kind, "apiVersion": kind.APIVersion, "items": items,
		"metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
	})
}

func (s *apiServer) watch(w http.ResponseWriter, req *http.Request, r *resource, selector labels.Selector) {
	seen, _ := strconv.Atoi(req.URL.Query().Get("resourceVersion"))
	w.(http.Flusher).Flush()
	for {
		s.mu.Lock()
		for _, e := range r.events {
			if e.version > seen && selects(selector, e.object) {
				_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.object})
			}
		}
		seen = s.version
		changed, served := r.changed, slices.Contains(slices.Collect(maps.Values(s.resources)), r)
		s.mu.Unlock()
		w.(http.Flusher).Flush()
		if !served {
			return
		}
		select {
		case <-changed:
		case <-req.Context().Done():
			return
		}
	}
}

func selects(selector labels.Selector, o runtime.Object) bool {
	return selector.Matches(labels.Set(must(meta.Accessor(o)).GetLabels()))
}

func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
