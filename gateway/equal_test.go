package gateway

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// A comparison includes each field of a KernelState, also fields that are added later.
func TestStatesThatDifferInAnythingAreNotEqual(t *testing.T) {
	sample := func() KernelState {
		return KernelState{
			Links: make([]Link, 1), Tunnels: make([]Tunnel, 1), Settings: make([]Setting, 1), Neighbors: make([]Neighbor, 1),
			Forwards: make([]Forward, 1), Rules: make([]Rule, 1), Routes: make([]Route, 1),
			Firewall: Table{
				Counters: make([]string, 1), Sets: []Set{{Elements: make([]Element, 1)}},
				Chains: []Chain{{Rules: []FirewallRule{{Statements: make([]Statement, 1)}}}},
			},
		}
	}
	if !sample().Equal(sample()) {
		t.Fatal("a state does not equal itself")
	}
	changed := 0
	for change := range changes(t, reflect.TypeFor[KernelState](), nil) {
		s := sample()
		change.apply(reflect.ValueOf(&s).Elem())
		if s.Equal(sample()) || sample().Equal(s) {
			t.Errorf("%s makes no difference", change.path)
		}
		changed++
	}
	if changed < 50 {
		t.Errorf("changed %d fields, want all", changed)
	}
}

// fieldChange gives one field of a KernelState another value.
type fieldChange struct {
	path  string
	apply func(reflect.Value)
}

// changes yields a change for every field of a type. steps is the path to the field.
func changes(t *testing.T, kind reflect.Type, steps []int) func(func(fieldChange) bool) {
	return func(yield func(fieldChange) bool) {
		for i := range kind.NumField() {
			f, to := kind.Field(i), append(append([]int(nil), steps...), i)
			switch {
			case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct, f.Type == reflect.TypeFor[Table]():
				inner := f.Type
				if inner.Kind() == reflect.Slice {
					inner = inner.Elem()
				}
				for c := range changes(t, inner, to) {
					if c.path = f.Name + "." + c.path; !yield(c) {
						return
					}
				}
			default:
				if !yield(fieldChange{f.Name, func(v reflect.Value) { setOther(t, follow(v, to)) }}) {
					return
				}
			}
		}
	}
}

// follow returns the field at the end of steps. In a list it uses the first item.
func follow(v reflect.Value, steps []int) reflect.Value {
	for _, i := range steps {
		if v.Kind() == reflect.Slice {
			v = v.Index(0)
		}
		v = v.Field(i)
	}
	return v
}

func setOther(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.MustParseAddr("192.0.2.1")))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.MustParsePrefix("192.0.2.0/24")))
		return
	case netip.AddrPort:
		v.Set(reflect.ValueOf(netip.MustParseAddrPort("192.0.2.1:1")))
		return
	case wgtypes.Key, PrivateKey, MAC:
		v.Index(0).SetUint(1)
		return
	case []string:
		v.Index(0).SetString("other")
		return
	}
	switch {
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.String:
		v.SetString("other")
	default:
		t.Fatalf("this test does not know how to change a %s", v.Type())
	}
}

// The result is compared with the plain definition: any pair of ranges.
func TestEveryOverlapIsFound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	found := 0
	for range 2000 {
		list := make([]named, 1+random.IntN(6))
		for i := range list {
			a := netip.AddrFrom4([4]byte{10, byte(random.IntN(4)), byte(random.IntN(4)), 0})
			p, err := a.Prefix(14 + random.IntN(12))
			if err != nil {
				t.Fatal(err)
			}
			list[i] = named{"network", p}
		}
		overlap := false
		for i, a := range list {
			for _, b := range list[:i] {
				overlap = overlap || a.prefix.Overlaps(b.prefix)
			}
		}
		err := checkApart(list)
		if errors.Is(err, ErrOverlap) != overlap {
			t.Fatalf("%v: got %v, want overlap %v", list, err, overlap)
		}
		if overlap {
			found++
			a, b, _ := strings.Cut(strings.ReplaceAll(strings.TrimSuffix(err.Error(), ": "+ErrOverlap.Error()), "network ", ""), " and ")
			if !netip.MustParsePrefix(a).Overlaps(netip.MustParsePrefix(b)) {
				t.Fatalf("%v: names a pair that does not overlap", err)
			}
		}
	}
	if found < 200 || found > 1800 {
		t.Errorf("%d of 2000 lists overlap: the test sees one case only", found)
	}
}
