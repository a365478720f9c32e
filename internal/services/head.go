package services

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Bounds of a head.
const (
	// maxHead is the largest length of the head that [Exported] writes, in bytes. Each EndpointSlice of the
	// Service repeats the head. A slice with 100 endpoints, which is what Kubernetes writes, has about 20 KiB.
	maxHead = 8 << 10
	// maxMergedHead is the largest length of a head that readers accept, in bytes: another exporter's names
	// for ports can be longer, by 63 bytes each.
	maxMergedHead = maxHead + 63*maxPorts
	// maxPorts is the largest number of a Service's ports: an EndpointSlice has at most 100.
	maxPorts = 100
	// maxAffinity is the longest session affinity, in seconds. A Service accepts no longer one.
	maxAffinity = 24 * 60 * 60
)

// A Head describes an exported Service, apart from its endpoints. The exporter writes it as JSON into
// the annotation [wire.AnnotationServiceHead] of each of the Service's multi-cluster EndpointSlices. So
// one write changes both the head and the endpoints.
type Head struct {
	// Type is what the Service becomes in importing clusters.
	Type mcsv1beta1.ServiceImportType `json:"type"`
	// Created is the time when the ServiceExport was created, by the exporter's clock. If exporters
	// disagree, the oldest ServiceExport decides (KEP, "Conflict resolution policies").
	Created metav1.Time `json:"created"`
	// Ports are the Service's ports in the Service's order. A headless Service may have none.
	Ports []Port `json:"ports,omitempty"`
	// IPFamilies are the families of the endpoints.
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`

	SessionAffinity          corev1.ServiceAffinity               `json:"sessionAffinity,omitempty"`
	SessionAffinityConfig    *corev1.SessionAffinityConfig        `json:"sessionAffinityConfig,omitempty"`
	InternalTrafficPolicy    *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`
	TrafficDistribution      *string                              `json:"trafficDistribution,omitempty"`
	PublishNotReadyAddresses bool                                 `json:"publishNotReadyAddresses,omitempty"`

	// Labels and Annotations are the ServiceExport's exportedLabels and exportedAnnotations. Those of the
	// Service itself stay in its cluster.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A Port is one port of an exported Service.
type Port struct {
	Name        string          `json:"name,omitempty"`
	Protocol    corev1.Protocol `json:"protocol"`
	Number      int32           `json:"port"` // the Service's port, not the pods'
	AppProtocol *string         `json:"appProtocol,omitempty"`
	// InSlices is the name of this port in the EndpointSlice that has the head. It differs from Name if
	// another exporter's name for the port has won. It is nil if the slice does not have the port, because
	// another exporter's port has won. kube-proxy joins a Service and its slices by these names.
	InSlices *string `json:"inSlices"`
}

// Encode returns the head as text for the annotation. Equal heads have equal texts. It fails if the
// text is longer than readers accept.
func (h *Head) Encode() (string, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return "", err
	}
	if len(text) > maxMergedHead {
		return "", tooLong(len(text), maxMergedHead)
	}
	return string(text), nil
}

func tooLong(length, most int) error {
	return fmt.Errorf("the description of the Service has %d bytes, at most %d are allowed: export fewer labels and annotations", length, most)
}

// ParseHead reads a head. The text may come from a hostile cluster, but the result can safely be written into
// a Service and a ServiceImport. ParseHead ignores unknown fields, unknown values of trafficDistribution, and
// labels and annotations that may not travel: see [Travels].
func ParseHead(text string) (Head, error) {
	var h Head
	if len(text) > maxMergedHead {
		return Head{}, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), maxMergedHead)
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		// The message of the JSON package can repeat a part of the text.
		return Head{}, errors.New("is not a description of a Service in JSON")
	}
	if err := h.validate(); err != nil {
		return Head{}, err
	}
	if h.TrafficDistribution != nil && !slices.Contains(distributions, *h.TrafficDistribution) {
		h.TrafficDistribution = nil
	}
	h.Labels, h.Annotations = travelling(h.Labels, true), travelling(h.Annotations, false)
	return h, nil
}

// distributions are the values of a Service's trafficDistribution that each supported Kubernetes accepts.
var distributions = []string{corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode}

func (h *Head) validate() error {
	switch h.Type {
	case mcsv1beta1.ClusterSetIP:
		if len(h.Ports) == 0 {
			return errors.New("has no ports")
		}
	case mcsv1beta1.Headless:
	default:
		return fmt.Errorf("has the type %q", Printable(string(h.Type)))
	}
	if h.Created.IsZero() {
		return errors.New("has no time of creation")
	}
	if len(h.Ports) > maxPorts {
		return fmt.Errorf("has %d ports, at most %d are allowed", len(h.Ports), maxPorts)
	}
	names, numbers, inSlices := map[string]bool{}, map[portKey]bool{}, map[string]bool{}
	for _, p := range h.Ports {
		if err := p.validate(len(h.Ports) == 1); err != nil {
			return err
		}
		if names[p.Name] {
			return fmt.Errorf("has two ports with the name %q", p.Name)
		}
		if numbers[p.key()] {
			return fmt.Errorf("has two ports %s", p.key())
		}
		names[p.Name], numbers[p.key()] = true, true
		if p.InSlices != nil {
			if inSlices[*p.InSlices] {
				return fmt.Errorf("has two ports that slices call %q", *p.InSlices)
			}
			inSlices[*p.InSlices] = true
		}
	}
	for _, f := range h.IPFamilies {
		if f != corev1.IPv4Protocol && f != corev1.IPv6Protocol {
			return fmt.Errorf("has the address family %q", Printable(string(f)))
		}
	}
	if len(h.IPFamilies) > 2 || len(h.IPFamilies) == 2 && h.IPFamilies[0] == h.IPFamilies[1] {
		return errors.New("repeats an address family")
	}
	switch h.SessionAffinity {
	case "", corev1.ServiceAffinityNone:
		if h.SessionAffinityConfig != nil {
			return errors.New("configures a session affinity that it does not have")
		}
	case corev1.ServiceAffinityClientIP:
		if c := h.SessionAffinityConfig; c != nil {
			if c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil || *c.ClientIP.TimeoutSeconds < 1 || *c.ClientIP.TimeoutSeconds > maxAffinity {
				return errors.New("has a session affinity without a valid timeout")
			}
		}
	default:
		return fmt.Errorf("has the session affinity %q", Printable(string(h.SessionAffinity)))
	}
	if p := h.InternalTrafficPolicy; p != nil && *p != corev1.ServiceInternalTrafficPolicyCluster && *p != corev1.ServiceInternalTrafficPolicyLocal {
		return fmt.Errorf("has the internalTrafficPolicy %q", Printable(string(*p)))
	}
	return nil
}

// validate checks a port as the API server checks it in a Service. Only a single port may have no name.
func (p *Port) validate(only bool) error {
	if (p.Name != "" || !only) && len(validation.IsDNS1123Label(p.Name)) > 0 {
		return fmt.Errorf("has a port with the name %q", Printable(p.Name))
	}
	if p.InSlices != nil && *p.InSlices != "" && len(validation.IsDNS1123Label(*p.InSlices)) > 0 {
		return fmt.Errorf("has a port that slices call %q", Printable(*p.InSlices))
	}
	if !slices.Contains(protocols, p.Protocol) {
		return fmt.Errorf("has a port of the protocol %q", Printable(string(p.Protocol)))
	}
	if p.Number < 1 || p.Number > 65535 {
		return fmt.Errorf("has the port %d", p.Number)
	}
	if p.AppProtocol != nil && len(validation.IsQualifiedName(*p.AppProtocol)) > 0 {
		return fmt.Errorf("has a port of the application protocol %q", Printable(*p.AppProtocol))
	}
	return nil
}

var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

// A portKey identifies a port of a Service for clients.
type portKey struct {
	number   int32
	protocol corev1.Protocol
}

func (p *Port) key() portKey { return portKey{p.Number, p.Protocol} }

func (k portKey) String() string { return fmt.Sprintf("%d/%s", k.number, k.protocol) }

// reservedDomains are the domains of label and annotation keys that control programs of a cluster: ours,
// Liqo's, the API's and kubectl's. Another cluster must not control these programs.
var reservedDomains = []string{"liqo-tui.dev", "liqo.io", "multicluster.kubernetes.io", "multicluster.x-k8s.io", "kubectl.kubernetes.io"}

// Travels returns the reason that an exported label or annotation stays in its cluster; "" if it travels.
func Travels(key, value string, label bool) string {
	domain, _, ok := strings.Cut(key, "/")
	switch {
	case len(validation.IsQualifiedName(strings.ToLower(key))) > 0:
		return "is not a key"
	case ok && slices.ContainsFunc(reservedDomains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) }):
		return "is reserved for programs"
	case key == "app.kubernetes.io/managed-by":
		return "says in each cluster which program manages the object"
	case label && len(validation.IsValidLabelValue(value)) > 0:
		return "has a value that no label can have"
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return "has control characters"
	}
	return ""
}

// travelling returns the labels or annotations that travel; nil if there are none.
func travelling(all map[string]string, labels bool) map[string]string {
	var out map[string]string
	for key, value := range all {
		if Travels(key, value, labels) == "" {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// longestQuote is how much of another cluster's text a message repeats, in bytes.
const longestQuote = 80

// Printable returns another cluster's text for use in a message: without control characters and other
// characters that a terminal acts on, and not longer than a line.
func Printable(text string) string { return printable(text, longestQuote) }

// longestSentence is how much a message repeats of a condition, in bytes. Our operator's conditions are shorter.
const longestSentence = 400

// sentence is [Printable] for a condition that this cluster's programs have written.
func sentence(text string) string { return printable(text, longestSentence) }

func printable(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
