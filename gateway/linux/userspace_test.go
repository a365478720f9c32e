//go:build linux

package linux

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
)

// pickyBind refuses batches.
type pickyBind struct {
	conn.Bind
	refuse error
	sent   []string
}

func (b *pickyBind) Send(bufs [][]byte, _ conn.Endpoint) error {
	if len(bufs) > 1 {
		return b.refuse
	}
	b.sent = append(b.sent, string(bufs[0]))
	return nil
}

func TestRefusedBatchesAreSentOneByOne(t *testing.T) {
	batch := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	for _, c := range []struct {
		refuse, want error
		sent         []string
	}{
		{unix.EMSGSIZE, nil, []string{"a", "b", "c"}},
		{unix.EINVAL, nil, []string{"a", "b", "c"}},
		{unix.EPERM, unix.EPERM, nil},
	} {
		inner := &pickyBind{refuse: c.refuse}
		err := (&resilientBind{inner}).Send(batch, nil)
		if !errors.Is(err, c.want) || !slices.Equal(inner.sent, c.sent) {
			t.Errorf("refused with %v: got %v, %q, want %v, %q", c.refuse, err, inner.sent, c.want, c.sent)
		}
	}
}
