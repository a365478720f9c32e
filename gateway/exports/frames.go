package exports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/services"
)

// Bounds for the data of a peer.
const (
	// maxSlice is the largest slice, in bytes of JSON. 1,000 endpoints, the most that Kubernetes allows, have
	// about 150 KiB.
	maxSlice = 256 << 10
	// maxSlices is the largest number of slices of a peer, including refused slices.
	maxSlices = services.MaxSlices
	// maxList is the largest list, in bytes.
	maxList      = 64 << 20
	maxEndpoints = 1000
	maxPorts     = 100
	maxAddresses = 100 // of an endpoint
	maxKeys      = 64  // of labels or annotations
	maxVersion   = 64  // bytes of a resource version
)

// Errors about the data of a peer.
var (
	errTooLong = fmt.Errorf("sends more than %d KiB for one slice", maxSlice>>10)
	errTooMany = fmt.Errorf("exports more than %d slices", maxSlices)
	errTooMuch = fmt.Errorf("sends a list of more than %d MiB", maxList>>20)
	errSlow    = errors.New("stopped in the middle of an answer")
	errNotJSON = errors.New("sends data that is not a list or watch of EndpointSlices")
)

// frames reads JSON values from a peer, and bounds the length of each, and the time for each.
type frames struct {
	body  io.Reader
	json  *json.Decoder
	left  int   // bytes that may still be read for the present value
	total int64 // bytes that may still be read in total; negative: no bound
	timer *time.Timer
	time  time.Duration
	ctx   context.Context //nolint:containedctx // of the request whose answer is read
}

// newFrames reads body. If a value takes longer than limit, end is called with errSlow.
func newFrames(ctx context.Context, body io.Reader, total int64, limit time.Duration, end context.CancelCauseFunc) *frames {
	f := &frames{body: body, left: maxSlice, total: total, time: limit, ctx: ctx}
	f.timer = time.AfterFunc(limit, func() { end(errSlow) })
	f.json = json.NewDecoder(f)
	return f
}

// stop stops the timer until the next value begins, because this cluster may need time for the present one.
func (f *frames) stop() { f.timer.Stop() }

// Read reads no more bytes than the bounds of the present value allow.
func (f *frames) Read(p []byte) (int, error) {
	switch {
	case f.left == 0:
		return 0, errTooLong
	case f.total == 0:
		return 0, errTooMuch
	case len(p) > f.left:
		p = p[:f.left]
	}
	if f.total > 0 && int64(len(p)) > f.total {
		p = p[:f.total]
	}
	n, err := f.body.Read(p)
	f.left -= n
	if f.total > 0 {
		f.total -= int64(n)
	}
	if cause := context.Cause(f.ctx); err != nil && cause != nil {
		err = cause
	}
	return n, err
}

func (f *frames) next() {
	f.left = maxSlice
	f.timer.Reset(f.time)
}

func (f *frames) decode(to any) error { return readable(f.json.Decode(to)) }

// readable replaces an error of the JSON package, because its text can repeat data of the peer.
func readable(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		return errNotJSON
	}
	return err
}

func (f *frames) delim(want json.Delim) error {
	token, err := f.json.Token()
	if err == nil && token != want {
		err = errNotJSON
	}
	return readable(err)
}

// list reads a list, calls take for each item, and returns the list's version.
func (f *frames) list(take func(raw []byte) error) (version string, err error) {
	if err := f.delim('{'); err != nil {
		return "", err
	}
	var kind string
	var listed bool
	for f.json.More() {
		key, err := f.json.Token()
		if err != nil {
			return "", readable(err)
		}
		switch key {
		case "kind":
			err = f.decode(&kind)
		case "metadata":
			var meta struct{ ResourceVersion string }
			err = f.decode(&meta)
			version = meta.ResourceVersion
		case "items":
			if listed || kind != "EndpointSliceList" {
				return "", errNotJSON
			}
			listed = true
			err = f.items(take)
		default:
			var skipped json.RawMessage
			err = f.decode(&skipped)
		}
		if err != nil {
			return "", err
		}
	}
	if err := f.delim('}'); err != nil {
		return "", err
	}
	if !listed || version == "" || len(version) > maxVersion {
		return "", errNotJSON
	}
	return version, nil
}

func (f *frames) items(take func(raw []byte) error) error {
	if err := f.delim('['); err != nil {
		return err
	}
	for n := 0; f.json.More(); n++ {
		if n == maxSlices {
			return errTooMany
		}
		f.next()
		var raw json.RawMessage
		if err := f.decode(&raw); err != nil {
			return err
		}
		f.stop()
		if err := take(raw); err != nil {
			return err
		}
	}
	f.next()
	return f.delim(']')
}

// parseSlice reads the fields of a slice that a peer may set. It returns errNotJSON if raw is no slice.
func parseSlice(raw []byte) (*discoveryv1.EndpointSlice, error) {
	var s struct {
		metav1.TypeMeta
		Metadata struct {
			Namespace, Name, ResourceVersion string
			Labels, Annotations              map[string]string
		}
		AddressType      discoveryv1.AddressType
		Endpoints, Ports json.RawMessage
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, errNotJSON
	}
	if s.Kind != "" && (s.Kind != sliceType.Kind || s.APIVersion != sliceType.APIVersion) {
		return nil, errNotJSON
	}
	m := s.Metadata
	out := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, ResourceVersion: m.ResourceVersion, Labels: m.Labels, Annotations: m.Annotations},
		AddressType: s.AddressType,
	}
	if len(m.Labels) > maxKeys || len(m.Annotations) > maxKeys {
		return out, errors.New("has too many labels or annotations")
	}
	type endpoint struct {
		Addresses  json.RawMessage
		Conditions discoveryv1.EndpointConditions
		Hostname   *string
		Zone       *string
	}
	endpoints, err := upTo[endpoint](s.Endpoints, maxEndpoints)
	if err != nil {
		return out, fmt.Errorf("endpoints: %w", err)
	}
	out.Endpoints = make([]discoveryv1.Endpoint, 0, len(endpoints))
	for _, e := range endpoints {
		addresses, err := upTo[string](e.Addresses, maxAddresses)
		if err != nil {
			return out, fmt.Errorf("addresses: %w", err)
		}
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{Addresses: addresses, Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone})
	}
	if out.Ports, err = upTo[discoveryv1.EndpointPort](s.Ports, maxPorts); err != nil {
		return out, fmt.Errorf("ports: %w", err)
	}
	return out, nil
}

// upTo reads an array of at most n elements. It counts the elements while it reads: an empty element has two
// bytes in the array, but needs much more memory as a value.
func upTo[T any](raw []byte, n int) ([]T, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, errNotJSON
	}
	var all []T
	for d.More() {
		if len(all) == n {
			return nil, fmt.Errorf("more than %d", n)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return nil, errNotJSON
		}
		all = append(all, one)
	}
	return all, nil
}
