package flows

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// AskDNS asks for the objects that show which DNS a cluster has: those of package names that exist.
type AskDNS struct{ Side Side }

// On implements [Question].
func (q AskDNS) On() Side { return q.Side }

// Terms implements [Question].
func (q AskDNS) Terms() Terms { return Terms{} }

func (q AskDNS) slot(f *Facts) slot { return q.in(f) }

func (q AskDNS) in(f *Facts) *Answer[[]*unstructured.Unstructured] { return &f.Sides[q.Side].DNS }
