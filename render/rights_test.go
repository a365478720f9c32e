package render_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// allRights returns all objects that give rights: those of an installation with all settings, of one peer's
// gateway, its delegate and its admin, and of one virtual node.
func allRights(t *testing.T) []wire.Object {
	t.Helper()
	pods := &render.ProgramSettings{PodSettings: render.PodSettings{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}}}
	objects, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "x", Peering: render.PeeringBoth, Pods: pods, Services: render.On, Names: render.On})
	if err != nil {
		t.Fatal(err)
	}
	tenant := render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}
	dials := &networkingv1beta1.GatewayClient{
		TypeMeta: metav1.TypeMeta{Kind: networkingv1beta1.GatewayClientKind}, ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "milan"},
	}
	g := render.Gateway{Tenant: tenant, Name: "milan", Owner: dials}
	role := g.Role()
	role.Rules = append(role.Rules, g.LeaderRules([]string{"gw-milan-0"})...)
	role.Rules = append(role.Rules, g.ServicesRules()...)
	node := peering.NodeProgram{VirtualNode: &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "milan"},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "k"}},
	}}
	return slices.Concat(objects, []wire.Object{role, node.Role()}, render.Delegate{Tenant: tenant, Gateway: dials, PublicKey: "milan"}.Identity(), peering.User(tenant, "liqo"))
}

// right is one verb of a role.
type right struct{ role, resource, verb string }

// rightsOf returns the rights in roles, each with its rule.
func rightsOf(objects []wire.Object) map[right][]rbacv1.PolicyRule {
	all := map[right][]rbacv1.PolicyRule{}
	for _, o := range objects {
		var rules []rbacv1.PolicyRule
		switch o := o.(type) {
		case *rbacv1.Role:
			rules = o.Rules
		case *rbacv1.ClusterRole:
			rules = o.Rules
		}
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					name, sub, _ := strings.Cut(resource, "/")
					if group != "" {
						name += "." + group
					}
					if sub != "" {
						name += "/" + sub
					}
					for _, verb := range rule.Verbs {
						one := rule
						one.APIGroups, one.Resources, one.Verbs = []string{group}, []string{resource}, []string{verb}
						r := right{o.GetName(), name, verb}
						all[r] = append(all[r], one)
					}
				}
			}
		}
	}
	return all
}

const rightsFile = "testdata/rights.txt"

// TestEveryRightIsBounded tests that each right has a reason: the policy that bounds it, or the damage that a
// thief of the token can do. Tests in gateway/operator try abuses of the policies on API servers.
func TestEveryRightIsBounded(t *testing.T) {
	objects := allRights(t)
	rights, policies := rightsOf(objects), policiesIn(objects)
	text, err := os.ReadFile(rightsFile)
	if err != nil {
		t.Fatal(err)
	}
	reasons, seen := map[string]string{}, map[right]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.SplitN(line, " | ", 4)
		if len(row) != 4 {
			t.Errorf("%s: want role | resources | verbs | reason: %s", rightsFile, line)
			continue
		}
		reason := row[3]
		if other := reasons[reason]; other != "" {
			t.Errorf("%s has the reason of %s, word for word: %s", row[:3], other, reason)
		}
		reasons[reason] = strings.Join(row[:3], " ")
		for resource := range strings.SplitSeq(row[1], ",") {
			for verb := range strings.SplitSeq(row[2], ",") {
				r := right{row[0], resource, verb}
				if seen[r] {
					t.Errorf("%v has two rows", r)
				}
				seen[r] = true
				rules, ok := rights[r]
				if !ok {
					t.Errorf("%v is no right any more", r)
				}
				for _, rule := range rules {
					if why := unbounded(rule, reason, policies); why != "" {
						t.Errorf("%v: %s", r, why)
					}
				}
			}
		}
	}
	for r := range rights {
		if !seen[r] {
			t.Errorf("%v has no row in %s", r, rightsFile)
		}
	}
	t.Logf("figure: %d rights, %d reasons", len(rights), len(reasons))
}

// policiesIn returns the policies with a binding that denies all that they refuse.
func policiesIn(objects []wire.Object) map[string]*admissionregistrationv1.ValidatingAdmissionPolicy {
	bound, all := map[string]bool{}, map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, o := range objects {
		switch o := o.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			bound[o.Spec.PolicyName] = slices.Contains(o.Spec.ValidationActions, admissionregistrationv1.Deny) && o.Spec.MatchResources == nil
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			all[o.Name] = o
		}
	}
	maps.DeleteFunc(all, func(name string, p *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
		return !bound[name] || p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionregistrationv1.Fail
	})
	return all
}

// unbounded returns why a reason does not fit a rule; "" if it fits.
func unbounded(rule rbacv1.PolicyRule, reason string, policies map[string]*admissionregistrationv1.ValidatingAdmissionPolicy) string {
	named, ok := strings.CutPrefix(reason, "policy ")
	if !ok {
		if len(strings.Fields(reason)) < 4 || !strings.HasSuffix(reason, ".") {
			return "want a sentence: " + reason
		}
		return ""
	}
	name, message, _ := strings.Cut(named, ": ")
	p := policies[name]
	if p == nil {
		return "no policy " + name + " that denies"
	}
	if message == "" || !slices.ContainsFunc(p.Spec.Validations, func(v admissionregistrationv1.Validation) bool {
		return strings.Contains(v.Message+v.MessageExpression, message)
	}) {
		return "policy " + name + " does not say: " + message
	}
	operation, ok := map[string]admissionregistrationv1.OperationType{
		"create": admissionregistrationv1.Create, "update": admissionregistrationv1.Update, "patch": admissionregistrationv1.Update, "delete": admissionregistrationv1.Delete,
	}[rule.Verbs[0]]
	if !ok {
		return "no policy sees " + rule.Verbs[0]
	}
	if !slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(m admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.Contains(m.APIGroups, rule.APIGroups[0]) && slices.Contains(m.Resources, rule.Resources[0]) && slices.Contains(m.Operations, operation) &&
			(len(m.ResourceNames) == 0 || len(rule.ResourceNames) > 0 && !slices.ContainsFunc(rule.ResourceNames, func(n string) bool { return !slices.Contains(m.ResourceNames, n) }))
	}) {
		return "policy " + name + " does not look at it"
	}
	return ""
}

// TestReasonsAreRefused tests that unbounded refuses wrong reasons.
func TestReasonsAreRefused(t *testing.T) {
	policies := policiesIn(allRights(t))
	rule := func(verb, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{resource}, Verbs: []string{verb}, ResourceNames: names}
	}
	for _, c := range []struct {
		name, reason, want string
		rule               rbacv1.PolicyRule
	}{
		{"a policy that bounds it", "policy liqo-tui-operator-pods: may not use their host", "", rule("patch", "deployments")},
		{"no policy", "policy liqo-tui-x: nothing", "no policy liqo-tui-x that denies", rule("patch", "deployments")},
		{"another validation", "policy liqo-tui-operator-pods: everything", "does not say: everything", rule("patch", "deployments")},
		{"no validation", "policy liqo-tui-operator-pods", "does not say", rule("patch", "deployments")},
		{"another resource", "policy liqo-tui-operator-pods: may not use their host", "does not look at it", rule("patch", "daemonsets")},
		{"another verb", "policy liqo-tui-operator-pods: may not use their host", "does not look at it", rule("delete", "deployments")},
		{"a verb that no policy sees", "policy liqo-tui-operator-pods: may not use their host", "no policy sees get", rule("get", "deployments")},
		{"no sentence", "fine.", "want a sentence", rule("get", "deployments")},
	} {
		if got := unbounded(c.rule, c.reason, policies); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	all := policies["liqo-tui-offloaded"]
	named := rbacv1.PolicyRule{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"rolebindings"}, Verbs: []string{"patch"}}
	if got := unbounded(named, "policy "+all.Name+": in offloaded namespaces only", policies); !strings.Contains(got, "does not look at it") {
		t.Errorf("a right over all names, by a policy of one name: got %q", got)
	}
}

// TestPoliciesHaveNoExceptions tests that a match condition only selects whose requests a policy judges.
// Exceptions have to be validations, because readers of the refusals see validations.
func TestPoliciesHaveNoExceptions(t *testing.T) {
	policies := policiesIn(allRights(t))
	of := map[string]int{}
	for name, p := range policies {
		for _, c := range p.Spec.MatchConditions {
			about := strings.ReplaceAll(c.Expression, "request.namespace", "")
			if !strings.Contains(about, "request.userInfo.username") || strings.Contains(about, "!=") || strings.Contains(about, "request.name") || strings.Contains(about, "request.resource") {
				t.Errorf("policy %s has the condition %s, which is not about who asks: %s", name, c.Name, c.Expression)
			}
			of[c.Name]++
		}
		if len(p.Spec.MatchConditions) > 1 {
			t.Errorf("policy %s has %d conditions: one says who asks", name, len(p.Spec.MatchConditions))
		}
	}
	if of["of-the-operator"] < 10 {
		t.Errorf("got %v: the operator's policies were not found", of)
	}
}

// The operator looks for installed policies before it does anything for others.
func TestGuardsAreInstalled(t *testing.T) {
	for _, role := range []render.PeeringRole{render.PeeringConsumer, render.PeeringProvider, render.PeeringBoth} {
		objects, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "x", Peering: role})
		if err != nil {
			t.Fatal(err)
		}
		policies := policiesIn(objects)
		if len(role.Guards()) == 0 {
			t.Errorf("%s: no guards", role)
		}
		for _, name := range role.Guards() {
			if policies[name] == nil {
				t.Errorf("%s: there is no policy %s that denies", role, name)
			}
		}
		// Each policy of the role is a guard, except policies that bind the operator and on which nothing of
		// others depends.
		without, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "x"})
		if err != nil {
			t.Fatal(err)
		}
		for name := range policies {
			if policiesIn(without)[name] == nil && name != "liqo-tui-operator-ips" && !slices.Contains(role.Guards(), name) {
				t.Errorf("%s: policy %s comes with the role, and nobody looks whether it is there", role, name)
			}
		}
	}
	if got := render.PeeringNone.Guards(); len(got) > 0 {
		t.Errorf("without peerings: got %v", got)
	}
}
