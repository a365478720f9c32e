package trial_test

import (
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// The words are those of containerd 1.6 and 2.1, and of CRI-O.
func TestWhyAnImageCantBePulled(t *testing.T) {
	for words, want := range map[string]struct{ name, fix string }{
		`ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "r/g:v9": failed to resolve reference "r/g:v9": r/g:v9: not found`: {
			"the registry has no such image or tag", "push it, or correct the name",
		},
		`ErrImagePull: pulling from host r failed with status code [manifests v1]: 401 Unauthorized`: {
			"the registry needs a password, or refuses the given one", "imagePullSecrets",
		},
		`ErrImagePull: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope`: {
			"the registry needs a password, or refuses the given one", "imagePullSecrets",
		},
		`ErrImagePull: failed to do request: Head "https://r/v2/g/manifests/v1": dial tcp: lookup r: no such host`: {
			"the node can't reach the registry", "open the way",
		},
		`ErrImagePull: failed to do request: Head "https://r/v2/": net/http: TLS handshake timeout`:               {"the node can't reach the registry", "open the way"},
		`ErrImagePull: failed to do request: Head "https://r/v2/": x509: certificate signed by unknown authority`: {"the node doesn't trust the registry's certificate", "hosts.toml"},
		`ErrImagePull: failed to pull: no match for platform in manifest: not found`:                              {"the image is for another architecture", "nodeSelector"},
		`it ended at once: exit status 255: exec /liqo-gateway: exec format error`:                                {"the image is for another architecture", "nodeSelector"},
		`InvalidImageName: couldn't parse`: {"", "push the image to where the nodes can pull it"},
	} {
		got := trial.Image{Image: "r/g:v9", Node: "rome-1", Failed: words}
		text := "node rome-1 can't run r/g:v9: " + words
		if want.name != "" {
			text = "node rome-1 can't run r/g:v9, " + want.name + ": " + words
		}
		if got.Text() != text {
			t.Errorf("\ngot  %s\nwant %s", got.Text(), text)
		}
		if fix := command.Join(got.Fix(command.Cluster{}), "; ").String(); !strings.Contains(fix, want.fix) {
			t.Errorf("%s: got %q as what helps, want %q", words, fix, want.fix)
		}
	}
}
