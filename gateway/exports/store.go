// Package exports transfers a cluster's exported Services to the gateway of a peer through the tunnel. They
// are multi-cluster EndpointSlices. The protocol is a read-only list and watch, as in Kubernetes.
//
// [Server] answers from a [Store], so no byte of the peer reaches the API server of the exporting cluster.
// [Client] reads the exports from the peer's gateway, without trusting them. A [Writer] writes them into the
// namespace of that peer.
package exports

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// A watch can resume within the latest keptChanges changes, if they fit into keptBytes. Otherwise the peer
// lists again.
const (
	keptChanges = 1024
	keptBytes   = 4 << 20
)

// errGone means that the store does not know the changes after a version.
var errGone = errors.New("too old resource version: list again")

// Store has the slices that one peer may read, as JSON, and their latest changes. Its methods may
// be called concurrently.
type Store struct {
	mu      sync.Mutex
	synced  bool
	version uint64 // of the last change
	oldest  uint64 // a watch can resume at this version, or at a later one
	slices  map[types.NamespacedName]slice
	changes []change
	bytes   int           // of all changes
	changed chan struct{} // closed at the next change
}

type slice struct {
	json []byte
	sum  [sha256.Size]byte // of the slice without a resource version
}

type change struct {
	version uint64
	json    []byte // a line of the watch
}

// NewStore returns an empty store. Its first version is the present time in microseconds. So a peer with a
// version from another pod of the gateway has to list again.
func NewStore(now time.Time) *Store {
	begin := uint64(now.UnixMicro())
	return &Store{version: begin, oldest: begin, slices: map[types.NamespacedName]slice{}, changed: make(chan struct{})}
}

// Replace replaces all slices of the store. The store serves nothing before the first Replace, because a peer
// deletes the slices that a list does not contain.
func (s *Store) Replace(all []*discoveryv1.EndpointSlice) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := make(map[types.NamespacedName]bool, len(s.slices))
	for key := range s.slices {
		gone[key] = true
	}
	var errs []error
	for _, o := range all {
		delete(gone, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
		errs = append(errs, s.put(o))
	}
	for key := range gone {
		errs = append(errs, s.drop(key))
	}
	s.synced = true
	return errors.Join(errs...)
}

// Put adds a slice, or replaces the slice of the same namespace and name.
func (s *Store) Put(o *discoveryv1.EndpointSlice) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(o)
}

// Drop removes a slice, if the store has it.
func (s *Store) Drop(key types.NamespacedName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(key)
}

func (s *Store) put(o *discoveryv1.EndpointSlice) error {
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	o = o.DeepCopy()
	o.TypeMeta = sliceType
	o.ResourceVersion = ""
	content, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("write slice %s as JSON: %w", key, err)
	}
	sum := sha256.Sum256(content)
	before, had := s.slices[key]
	if had && before.sum == sum {
		return nil
	}
	o.ResourceVersion = strconv.FormatUint(s.version+1, 10)
	if content, err = json.Marshal(o); err != nil {
		return fmt.Errorf("write slice %s as JSON: %w", key, err)
	}
	s.slices[key] = slice{content, sum}
	kind := watch.Added
	if had {
		kind = watch.Modified
	}
	s.note(kind, content)
	return nil
}

func (s *Store) drop(key types.NamespacedName) error {
	if _, ok := s.slices[key]; !ok {
		return nil
	}
	content, err := json.Marshal(&discoveryv1.EndpointSlice{TypeMeta: sliceType, ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, ResourceVersion: strconv.FormatUint(s.version+1, 10),
	}})
	if err != nil {
		return fmt.Errorf("write slice %s as JSON: %w", key, err)
	}
	delete(s.slices, key)
	s.note(watch.Deleted, content)
	return nil
}

// note keeps a change for watches, wakes them, and forgets the oldest changes.
func (s *Store) note(kind watch.EventType, object []byte) {
	s.version++
	c := change{s.version, eventLine(kind, object)}
	s.changes = append(s.changes, c)
	s.bytes += len(c.json)
	for len(s.changes) > keptChanges || s.bytes > keptBytes {
		s.oldest = s.changes[0].version
		s.bytes -= len(s.changes[0].json)
		s.changes[0] = change{}
		s.changes = s.changes[1:]
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// list returns all slices, in a fixed order, and their version. ok is false before the first
// Replace.
func (s *Store) list() (all [][]byte, version uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(s.slices))
	for key := range s.slices {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, key := range keys {
		all = append(all, s.slices[key].json)
	}
	return all, s.version, s.synced
}

// since returns the changes after a version, and a channel that is closed at the next change. It returns
// errGone if the store does not know these changes.
func (s *Store) since(version uint64) ([]change, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.synced || version < s.oldest || version > s.version {
		return nil, nil, errGone
	}
	i, _ := slices.BinarySearchFunc(s.changes, version+1, func(c change, v uint64) int { return cmp.Compare(c.version, v) })
	return slices.Clone(s.changes[i:]), s.changed, nil
}

// Len returns the number of slices.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slices)
}

var sliceType = metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"}

// eventLine returns one event of a watch. object is JSON.
func eventLine(kind watch.EventType, object []byte) []byte {
	line := make([]byte, 0, len(object)+64)
	line = append(line, `{"type":"`...)
	line = append(line, kind...)
	line = append(line, `","object":`...)
	line = append(line, object...)
	return append(line, '}', '\n')
}
