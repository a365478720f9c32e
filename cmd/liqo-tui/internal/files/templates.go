package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Template is a template in a file, with its rendered objects.
type Template struct {
	Name    string // with the kind
	Line    int
	Unused  []string // parts of the spec that our operator ignores
	Objects []wire.Object

	file string
	root *yamlv3.Node
}

// sample is the name of a gateway that does not exist. The templates are rendered for it.
const sample = "template-check"

// ReadTemplates renders all templates in a file for gateways in namespace. Errors name the
// line, as FILE:LINE.
func ReadTemplates(file string, text []byte, namespace string) (all []Template, err error) {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	for {
		var document yamlv3.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err) // the error has the line
		}
		if len(document.Content) == 0 {
			continue
		}
		t := Template{file: file, root: document.Content[0]}
		t.Line = t.root.Line
		if err := t.render(namespace); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: there is no template in it", file)
	}
	return all, nil
}

func (t *Template) render(namespace string) error {
	text, err := yamlv3.Marshal(t.root)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", t.file, t.Line, err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &u.Object); err != nil {
		return fmt.Errorf("%s:%d: %w", t.file, t.Line, err)
	}
	t.Name = u.GetKind() + " " + u.GetName()
	template, err := render.ReadTemplate(u)
	if err != nil {
		return t.locate(err, "")
	}
	spec := networkingv1beta1.GatewayServerSpec{MTU: wire.DefaultMTU, Endpoint: networkingv1beta1.Endpoint{Port: wire.DefaultPort}}
	owner := &networkingv1beta1.GatewayServer{}
	owner.Name, owner.Namespace, owner.UID = sample, namespace, sample
	g := render.Gateway{Tenant: render.Tenant{Namespace: namespace, Remote: sample}, Name: sample, Owner: owner}
	v := render.Values{Name: sample, Namespace: namespace, GatewayUID: sample, ClusterID: sample, SecretName: wire.GatewayObjectName(sample)}
	if u.GetKind() == networkingv1beta1.WgGatewayClientTemplateKind {
		v.Spec = networkingv1beta1.GatewayClientSpec{MTU: wire.DefaultMTU, Endpoint: networkingv1beta1.EndpointStatus{
			Addresses: []string{"192.0.2.7"}, Port: wire.DefaultPort, Protocol: new(corev1.ProtocolUDP),
		}}
		return t.fill(g, template, v, nil)
	}
	for _, kind := range []corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer} {
		spec.Endpoint.ServiceType = kind
		v.Spec = spec
		if err := t.fill(g, template, v, owner); err != nil {
			return err
		}
	}
	return nil
}

// fill adds the objects that the template renders with these values.
func (t *Template) fill(g render.Gateway, template render.GatewayTemplate, v render.Values, server *networkingv1beta1.GatewayServer) error {
	const at = ".spec.template"
	filled, err := g.Fill(template, v)
	if err != nil {
		return t.locate(err, at)
	}
	if !template.Ours() {
		t.add(filled.Object())
		return nil
	}
	t.Unused = filled.Unused()
	filled.Strictly()
	d, err := filled.Deployment()
	if err == nil {
		err = g.CheckPods(d, v.SecretName)
	}
	if err != nil {
		return t.locate(err, at)
	}
	t.add(d)
	if server == nil {
		return nil
	}
	s, err := filled.Service(server)
	if err == nil {
		err = g.CheckService(s)
	}
	if err != nil {
		return t.locate(err, at)
	}
	t.add(s)
	return nil
}

func (t *Template) add(o wire.Object) {
	o.SetOwnerReferences(nil) // the gateway does not exist
	t.Objects = append(t.Objects, o)
}

// locate adds the line to an error, or to each of several joined errors.
func (t *Template) locate(err error, at string) error {
	var fields []render.FieldError
	if refused, ok := errors.AsType[*render.RefusedError](err); ok {
		for _, f := range refused.Fields {
			fields = append(fields, render.FieldError{Field: f.Field, Problem: f.Problem + " is refused: no gateway needs it"})
		}
	} else if wrong, ok := errors.AsType[*render.FieldError](err); ok {
		fields = []render.FieldError{*wrong}
	} else {
		return fmt.Errorf("%s:%d: %w", t.file, t.Line, err)
	}
	var errs []error
	for _, f := range fields {
		errs = append(errs, fmt.Errorf("%s:%d: %s%s: %s", t.file, lineOf(t.root, at+f.Field), at, f.Field, f.Problem))
	}
	return errors.Join(errs...)
}

// Locate adds the line to the API server's error about one of the objects.
func (t *Template) Locate(o wire.Object, err error) error {
	part := map[string]string{"Deployment": ".spec.deployment", "Service": ".spec.service"}[o.GetObjectKind().GroupVersionKind().Kind]
	line := lineOf(t.root, ".spec.template"+part)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Field != "" {
				line = lineOf(t.root, ".spec.template"+part+"."+cause.Field)
				break
			}
		}
	}
	return fmt.Errorf("%s:%d: %s: %w", t.file, line, apply.Name(o), err)
}

// lineOf returns the line of a field such as .spec.list[0].name. If the field does not
// exist, it returns the line of the innermost existing parent.
func lineOf(n *yamlv3.Node, field string) int {
	line := n.Line
	for field != "" {
		var next *yamlv3.Node
		rest := ""
		switch n.Kind {
		case yamlv3.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				key := n.Content[i]
				for _, name := range []string{"." + key.Value, "." + strings.TrimPrefix(key.Value, "?")} { // the longest match counts, because keys may contain dots
					after, ok := strings.CutPrefix(field, name)
					if ok && (after == "" || after[0] == '.' || after[0] == '[') && (next == nil || len(after) < len(rest)) {
						next, rest, line = n.Content[i+1], after, key.Line
					}
				}
			}
		case yamlv3.SequenceNode:
			var i int
			if _, err := fmt.Sscanf(field, "[%d]", &i); err == nil && i < len(n.Content) {
				next, line = n.Content[i], n.Content[i].Line
				_, rest, _ = strings.Cut(field, "]")
			}
		case yamlv3.AliasNode:
			next, rest = n.Alias, field
		case yamlv3.DocumentNode, yamlv3.ScalarNode:
		}
		if next == nil {
			return line
		}
		n, field = next, rest
	}
	return line
}
