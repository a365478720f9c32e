package flows

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/render"
)

// PeerFileKind is what a [PeerFile] is.
type PeerFileKind string

// The kinds of files.
const (
	Invitation PeerFileKind = "Invitation" // from the cluster that hosts the gateway server
	Answer     PeerFileKind = "Answer"     // to an invitation
)

// peerFileVersion is the apiVersion of a file. Fields are only added to it.
const peerFileVersion = "liqo-tui.dev/v1"

// PeerFile is what the admin of one cluster sends to that of another, so that each
// can make their own end of a connection. Nothing in it is secret.
type PeerFile struct {
	APIVersion string           `json:"apiVersion"`
	Kind       PeerFileKind     `json:"kind"`
	For        render.ClusterID `json:"for"`
	From       Description      `json:"from"`
	Created    time.Time        `json:"created"`
	Expires    time.Time        `json:"expires"`
}

// Description is a cluster as its peer has to know it.
type Description struct {
	ClusterID     render.ClusterID         `json:"clusterID"`
	UID           string                   `json:"uid"` // of its namespace kube-system: which cluster it is
	PodCIDRs      []networkingv1beta1.CIDR `json:"podCIDRs"`
	ExternalCIDRs []networkingv1beta1.CIDR `json:"externalCIDRs"`
	PublicKey     string                   `json:"publicKey"` // of the gateway, base64
	MTU           int                      `json:"mtu"`       // bytes, of the tunnel
	// Endpoint of the gateway server; an answer has none.
	Endpoint *Dial `json:"endpoint,omitempty"`
}

// Dial is where a gateway server can be reached.
type Dial struct {
	Addresses []string `json:"addresses"` // IP addresses or DNS names
	Port      uint16   `json:"port"`      // UDP
}

const peerFileHead = `# Written by liqo-tui for the admin of the other cluster. It contains no secrets.
# Whoever can change it in transit can intercept the connection: send it over a
# channel that you both trust, or compare the public key over another one.
`

// Text is the content of the file.
func (l PeerFile) Text() ([]byte, error) {
	l.APIVersion = peerFileVersion
	text, err := yaml.Marshal(l)
	return append([]byte(peerFileHead), text...), err
}

// ParsePeerFile reads a file and checks all that can be checked without a
// cluster. One of a newer version may have fields that this program ignores.
func ParsePeerFile(text []byte) (PeerFile, error) {
	var l PeerFile
	if err := yaml.Unmarshal(text, &l); err != nil {
		return l, err
	}
	if l.APIVersion != peerFileVersion || l.Kind != Invitation && l.Kind != Answer {
		return l, errors.New("not a file of liqo-tui network invite or join")
	}
	var errs []error
	for what, id := range map[string]render.ClusterID{"for": l.For, "from.clusterID": l.From.ClusterID} {
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
	if l.From.MTU < minMTU || l.From.MTU > maxMTU {
		errs = append(errs, fmt.Errorf("from.mtu: %d, want %d to %d bytes", l.From.MTU, minMTU, maxMTU))
	}
	switch e := l.From.Endpoint; {
	case l.Kind == Invitation && (e == nil || len(e.Addresses) == 0 || e.Port == 0):
		errs = append(errs, errors.New("from.endpoint: missing: there is no address to dial"))
	case l.Kind == Answer && e != nil:
		errs = append(errs, errors.New("from.endpoint: an answer has none: the inviting cluster is dialled"))
	}
	return l, errors.Join(errs...)
}

// Expired says that a file is too old to be used, nil if not. Its endpoint and
// key may have changed since.
func (l PeerFile) Expired(now time.Time) error {
	if !now.After(l.Expires) {
		return nil
	}
	again := "ask the admin of " + string(l.From.ClusterID) + " for a new one: the same command writes it again"
	s := failure(A, CodeInvitation, strings.ToLower(string(l.Kind))+" is still valid", FailedPreflight,
		"it has expired at "+l.Expires.Format(time.RFC3339), again)
	return &StepError{Step: s, Cluster: l.For}
}

// misdirected says that the file is for another cluster, nil if it is not.
func (l PeerFile) misdirected(local ClusterFacts) *Step {
	if local.Problem != nil || local.ID == "" || local.ID == l.For {
		return nil // or another step says what is wrong with the cluster
	}
	s := failure(A, CodeInvitation, strings.ToLower(string(l.Kind))+" is for this cluster", FailedPreflight,
		fmt.Sprintf("%s wrote it for %s, and this is %s", l.From.ClusterID, l.For, local.ID), "choose the context of "+string(l.For))
	return &s
}

// summary is what the admin should compare with the other one.
func (l PeerFile) summary() string {
	return fmt.Sprintf("%s of %s, made %s; its public key is %s", strings.ToLower(string(l.Kind)), l.From.ClusterID, l.Created.Format(time.RFC3339), l.From.PublicKey)
}
