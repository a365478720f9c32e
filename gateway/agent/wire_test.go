package agent

import (
	"bytes"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/render"
)

// The tests of package gateway/linux contain the rest of the contract with a peer that runs Liqo. This line
// of the contract is not about packets.
func TestW7KeysAreExchangedAsRawBytesUnderTheClustersLabel(t *testing.T) {
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	// As the peer's admin program, or GitOps, writes it: only the label names the owner, and the name is
	// free.
	object := render.PublicKey(render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}, key.PublicKey(), nil)
	if got := object.Labels["liqo.io/remote-cluster-id"]; got != "rome" {
		t.Errorf("label: got %q, want rome", got)
	}
	public := key.PublicKey()
	if !bytes.Equal(object.Spec.PublicKey, public[:]) {
		t.Errorf("got key %x, want the 32 bytes %x", object.Spec.PublicKey, public)
	}
	object.Name = "whatever"
	other := object.DeepCopy()
	other.Name, other.Labels = "of-another-cluster", map[string]string{"liqo.io/remote-cluster-id": "oslo"}
	other.Spec.PublicKey = make([]byte, wgtypes.KeyLen)

	w := newWorld(t)
	w.keys = []*networkingv1beta1.PublicKey{other, object}
	peer, _, err := readIn(t, w, &bytes.Buffer{})
	if err != nil || peer.PublicKey != public {
		t.Errorf("got key %s, %v, want %s", peer.PublicKey, err, public)
	}

	// Our key, in the Secret where Liqo's controllers look for it.
	private := [32]byte(key)
	secret := render.Gateway{Tenant: render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}, Name: "rome", Owner: w.server}.KeySecret(private, public)
	if !bytes.Equal(secret.Data["publicKey"], public[:]) || !bytes.Equal(secret.Data["privateKey"], key[:]) || secret.Labels["liqo.io/remote-cluster-id"] != "rome" {
		t.Errorf("the gateway's Secret has labels %v and keys %d and %d bytes long", secret.Labels, len(secret.Data["privateKey"]), len(secret.Data["publicKey"]))
	}
}
