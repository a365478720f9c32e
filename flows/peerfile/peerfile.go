// Package peerfile has the two files that the admins of two clusters send each other
// if nobody has access to both clusters: an invitation and an answer.
package peerfile

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Kind is the kind of a [File].
type Kind string

// The kinds of files.
const (
	Invitation Kind = "Invitation" // from the cluster that hosts the gateway server
	Answer     Kind = "Answer"     // answers an invitation
)

// version is the apiVersion of a file. Later versions may only add fields.
const version = "liqo-tui.dev/v1"

// File has the facts that the admin of one cluster sends to the admin of another, so
// that both can make their own end of a connection. It has no secrets.
type File struct {
	APIVersion string         `json:"apiVersion"`
	Kind       Kind           `json:"kind"`
	For        wire.ClusterID `json:"for"`
	From       Description    `json:"from"`
	Created    time.Time      `json:"created"`
	Expires    time.Time      `json:"expires"`
	// Nonce identifies an invitation: each gateway server has its own. Files of
	// earlier versions have none.
	Nonce string `json:"nonce,omitempty"`
	// Answers, in an answer, identifies the invitation.
	Answers *Reference `json:"answers,omitempty"`
	// Fingerprint is the [Fingerprint] of the text that was parsed.
	Fingerprint string `json:"-"`
}

// Reference identifies an invitation by what its receiver has read.
type Reference struct {
	Nonce  string `json:"nonce"`
	Digest string `json:"digest"` // see [File.Digest]
}

// Description has the facts about a cluster that its peer needs.
type Description struct {
	ClusterID     wire.ClusterID           `json:"clusterID"`
	UID           string                   `json:"uid"` // of its namespace kube-system; it identifies the cluster
	PodCIDRs      []networkingv1beta1.CIDR `json:"podCIDRs"`
	ExternalCIDRs []networkingv1beta1.CIDR `json:"externalCIDRs"`
	PublicKey     string                   `json:"publicKey"` // of the gateway, base64
	MTU           int                      `json:"mtu"`       // of the tunnel, in bytes
	// Endpoint is the gateway server's endpoint; nil in an answer.
	Endpoint *Dial `json:"endpoint,omitempty"`
}

// Dial is the address of a gateway server.
type Dial struct {
	Addresses []string `json:"addresses"` // IP addresses or DNS names
	Port      uint16   `json:"port"`      // UDP
}

const head = `# Written by liqo-tui for the admin of the other cluster. It contains no secrets.
# Whoever can change it in transit can intercept the connection: send it over a
# channel that you both trust, or compare its fingerprint over another one.
`

// Text returns the content of the file.
func (l File) Text() ([]byte, error) {
	l.APIVersion = version
	text, err := yaml.Marshal(l)
	return append([]byte(head), text...), err
}

// Parse reads a file and checks everything that can be checked without a cluster.
// Fields of newer versions are ignored.
func Parse(text []byte) (File, error) {
	var l File
	if err := yaml.Unmarshal(text, &l); err != nil {
		return l, err
	}
	var err error
	if l.Fingerprint, err = Fingerprint(text); err != nil {
		return l, err
	}
	if l.APIVersion != version || l.Kind != Invitation && l.Kind != Answer {
		return l, errors.New("not a file of liqo-tui network invite or join")
	}
	var errs []error
	for what, id := range map[string]wire.ClusterID{"for": l.For, "from.clusterID": l.From.ClusterID} {
		if err := id.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	for what, cidrs := range map[string][]networkingv1beta1.CIDR{"podCIDRs": l.From.PodCIDRs, "externalCIDRs": l.From.ExternalCIDRs} {
		if len(cidrs) == 0 {
			errs = append(errs, fmt.Errorf("from.%s: missing", what))
		}
		for _, c := range cidrs {
			if p, err := netip.ParsePrefix(string(c)); err != nil || p != p.Masked() {
				errs = append(errs, fmt.Errorf("from.%s: %q is no address range", what, c))
			}
		}
	}
	if _, err := wgtypes.ParseKey(l.From.PublicKey); err != nil {
		errs = append(errs, fmt.Errorf("from.publicKey: %w", err))
	}
	if l.From.MTU < wire.MinMTU || l.From.MTU > wire.MaxMTU {
		errs = append(errs, fmt.Errorf("from.mtu: %d, want %d to %d bytes", l.From.MTU, wire.MinMTU, wire.MaxMTU))
	}
	switch e := l.From.Endpoint; {
	case l.Kind == Invitation && (e == nil || len(e.Addresses) == 0 || e.Port == 0):
		errs = append(errs, errors.New("from.endpoint: missing: there is no address to dial"))
	case l.Kind == Invitation && setting.Hosts(strings.Join(e.Addresses, ",")) != nil:
		errs = append(errs, fmt.Errorf("from.endpoint.addresses: %w", setting.Hosts(strings.Join(e.Addresses, ","))))
	case l.Kind == Answer && e != nil:
		errs = append(errs, errors.New("from.endpoint: an answer has none: the inviting cluster is dialled"))
	}
	return l, errors.Join(errs...)
}

// Summary returns the facts that the reader of the file should compare with its
// writer, one sentence each.
func (l File) Summary() []string {
	kind, from := strings.ToLower(string(l.Kind)), l.From.ClusterID
	text := []string{
		fmt.Sprintf("%s of %s, made %s; its public key is %s", kind, from, l.Created.Format(time.RFC3339), l.From.PublicKey),
		fmt.Sprintf("its fingerprint is %s: compare it with the admin of %s, not by the way that the file came", l.Fingerprint, from),
	}
	if l.Kind == Invitation && l.Nonce == "" || l.Kind == Answer && l.Answers == nil {
		text = append(text, fmt.Sprintf("warning: an earlier liqo-tui has written the %s: it can't be distinguished from an old one", kind))
	}
	if l.From.UID == "" {
		text = append(text, fmt.Sprintf("warning: the %s does not say by a UID which cluster %s is: another cluster with this ID can't be distinguished from it", kind, from))
	}
	return text
}

// Fingerprint returns a text that two admins can compare by voice: 80 bits of the
// SHA-256 of the file's content. It covers fields of later versions, and is
// independent of line breaks that mail changes.
func Fingerprint(text []byte) (string, error) {
	var content any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(content) // keys are sorted
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	letters := spoken.EncodeToString(sum[:10])
	return strings.Join([]string{letters[:4], letters[4:8], letters[8:12], letters[12:]}, "-"), nil
}

// spoken is an alphabet in which no two characters sound or look alike.
var spoken = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// SameFingerprint compares fingerprints and ignores case and grouping, because an
// admin has typed one of them.
func SameFingerprint(a, b string) bool {
	plain := strings.NewReplacer("-", "", " ", "", ":", "")
	return strings.EqualFold(plain.Replace(a), plain.Replace(b))
}

// Digest identifies an invitation in its answer, and shows whether the invitation was
// changed on its way. The endpoint is not included, because it may change, and because
// WireGuard proves at any endpoint that the key is right. Later versions have to use
// the same fields.
func (l File) Digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %q %q %d",
		l.Nonce, l.For, l.From.ClusterID, l.From.UID, l.From.PodCIDRs, l.From.ExternalCIDRs, l.From.PublicKey, l.From.MTU))
	return base64.StdEncoding.EncodeToString(sum[:])
}
