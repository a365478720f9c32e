package kube

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// nodeless is a cluster in which no pod runs, because a wait for pods would take a minute.
type nodeless struct{ *Cluster }

func (n nodeless) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	if q, ok := q.(flows.AskImage); ok {
		return flows.Unknown(q, "there is no node"), nil
	}
	return n.Cluster.Ask(ctx, q)
}

// installed runs install on a cluster in which nothing runs. All objects are applied, and the wait for the
// operator fails.
func installed(t *testing.T, c *Cluster, p render.InstallParams, force bool) (flows.Plan, error) {
	t.Helper()
	if p.ClusterID == "" {
		p.ClusterID, p.Image = "rome", "example.org/gateway:v1"
	}
	plan := func(f flows.Facts) flows.Plan { return install.Plan(p, f) }
	return planned(t, c, plan, engine.Options{Timeout: 15 * time.Second, Force: force})
}

// applied is [installed] on a cluster without conflicts. A busy machine may need several tries to come to the
// operator.
func applied(t *testing.T, c *Cluster) flows.Plan {
	t.Helper()
	for turn := 0; ; turn++ {
		plan, err := installed(t, c, render.InstallParams{}, false)
		failed, ok := errors.AsType[*flows.StepError](err)
		if !ok || failed.Step.Kind != flows.FailedTimeout || failed.Step.Action != flows.Wait {
			t.Fatalf("got %v, want all to be applied, and the operator waited for", err)
		}
		if operator, _ := plan.Step(flows.IDOf(flows.A, "operator")); operator.Status == flows.Done {
			return plan
		}
		if turn == 4 {
			t.Fatalf("the operator was not applied: %v", err)
		}
	}
}

func planned(t *testing.T, c *Cluster, plan flows.Planner, o engine.Options) (flows.Plan, error) {
	t.Helper()
	var last flows.Plan
	err := engine.Run(t.Context(), plan, nodeless{c}, engine.Absent{}, func(e engine.Event) { last = e.Plan }, o)
	return last, err
}

func TestInstallAndUninstall(t *testing.T) {
	env := startAPI(t)
	c := open(t, env.Config)
	applied(t, c)
	t.Run("what is installed is not installed again", func(t *testing.T) { testInstallAgain(t, c) })
	t.Run("an older definition is brought up to date", func(t *testing.T) { testOlderDefinition(t, c) })
	t.Run("images that a webhook has rewritten are installed", func(t *testing.T) { testRewrittenImages(t, env.Config, c) })
	t.Run("who may not see the installation does not remove it", func(t *testing.T) { testBlindUninstall(t, env) })
	t.Run("uninstall takes what the programs made", func(t *testing.T) { testUninstall(t, c) })
	t.Run("what was there before is neither changed nor deleted", func(t *testing.T) { testOthersNamespaces(t, env, c) })
}

// testInstallAgain compares the objects of the API server with the wanted objects.
func testInstallAgain(t *testing.T, c *Cluster) {
	dryRun := func(p render.InstallParams) engine.Event {
		t.Helper()
		p.Image = "example.org/gateway:" + p.Image
		e, err := engine.DryRun(t.Context(), flows.Planner(func(f flows.Facts) flows.Plan { return install.Plan(p, f) }), c, engine.Absent{}, true, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, s := range dryRun(render.InstallParams{Image: "v1"}).Plan.Steps {
		if s.Action.Changes() && s.Status != flows.Done {
			t.Errorf("%s is to be done again:\n%s", s.ID, s.Diff)
		}
	}
	var todo []flows.StepID
	newer := dryRun(render.InstallParams{Image: "v2", PodCIDRs: []string{"10.1.0.0/16"}})
	for _, s := range newer.Plan.Steps {
		if s.Action.Changes() && s.Status != flows.Done {
			todo = append(todo, s.ID)
		}
	}
	if want := []flows.StepID{"templates-a", "fabric-a", "operator-a"}; !slices.Equal(todo, want) || newer.Plan.Failure() != nil {
		t.Errorf("a newer image changes %q (%+v), want %q", todo, newer.Plan.Failure(), want)
	}
	fabric, _ := newer.Plan.Step("fabric-a")
	if !strings.Contains(fabric.Diff, "+        image: example.org/gateway:v2") {
		t.Errorf("got the diff\n%s", fabric.Diff)
	}
}

// In TestAConflictOfAnInstallationSaysWhatToDo, another program has written the cluster ID.
func TestAConflictOfAnInstallationSaysWhatToDo(t *testing.T) {
	env := startAPI(t)
	c := open(t, env.Config)
	theirs := &corev1.ConfigMap{}
	theirs.Namespace, theirs.Name = "liqo", wire.ClusterIDConfigMap
	theirs.Data = map[string]string{wire.ClusterIDKey: "turin"}
	ns := &corev1.Namespace{}
	ns.Name = "liqo"
	for _, o := range []client.Object{ns, theirs} {
		if err := c.client.Create(t.Context(), o, client.FieldOwner("argocd")); err != nil {
			t.Fatal(err)
		}
	}
	plan := func(f flows.Facts) flows.Plan {
		return install.Plan(render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v1"}, f)
	}
	_, err := planned(t, c, plan, engine.Options{Timeout: time.Minute}) // the run ends with the conflict
	if _, ok := errors.AsType[*flows.ConflictError](err); !ok {
		t.Fatalf("got %v, want a conflict", err)
	}
	if hint := flows.HintOf(err).String(); !strings.Contains(hint, "argocd") || !strings.Contains(hint, "--force-conflicts") {
		t.Errorf("got hint %q", hint)
	}
	if _, err := installed(t, c, render.InstallParams{}, true); err == nil || flows.HintOf(err).IsZero() || errors.As(err, new(*flows.ConflictError)) {
		t.Errorf("by force: got %v", err)
	}
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.Data[wire.ClusterIDKey] != "rome" {
		t.Errorf("by force: got %v, %v", theirs.Data, err)
	}
}

// testUninstall starts with Networks of the operator, and with the fabric's reports about nodes.
func testUninstall(t *testing.T, c *Cluster) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}
	ours := wire.InternalNode(node, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.1")})
	node.Name = "b"
	liqos := wire.InternalNode(node, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.2")})
	liqos.Labels = nil
	made := append(render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.1.0.0/16", "10.2.0.0/16"}, "Calico"), ours, liqos)
	for _, o := range made {
		if err := c.client.Create(t.Context(), o.(client.Object)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := planned(t, c, install.PlanRemoval, engine.Options{})
	if err != nil || !p.Done() {
		t.Fatalf("got %v, %+v", err, p.Steps)
	}
	if contents, err := c.Inspect(t.Context(), render.Tenant{Namespace: "liqo"}); err != nil || contents.Keeps() != "" {
		t.Errorf("left in the namespace: %+v, %v", contents, err)
	}
	left, err := c.Installation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range left.Objects {
		if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "CustomResourceDefinition" && o.GetDeletionTimestamp() == nil {
			t.Errorf("%s is left", apply.Name(o))
		}
	}
	var nodes networkingv1beta1.InternalNodeList
	if err := c.client.List(t.Context(), &nodes); err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "b" {
		t.Errorf("left are %v (%v), want only the one that is not ours", nodes.Items, err)
	}
}

// In testOlderDefinition, an admin applies an older definition over that of the installation. Then the API
// server drops the field without an error.
func testOlderDefinition(t *testing.T, c *Cluster) {
	ask := func() []flows.DefinitionFacts {
		t.Helper()
		reply, err := c.Ask(t.Context(), flows.AskDefinitions{})
		if err != nil {
			t.Fatal(err)
		}
		var f flows.Facts
		reply.Store(&f, time.Now())
		return *f.Sides[flows.A].Older.Value()
	}
	if older := ask(); len(older) > 0 {
		t.Errorf("got %v before anything was changed", older)
	}
	d := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "publickeies.networking.liqo.io"}
	if err := c.client.Get(t.Context(), key, d); err != nil {
		t.Fatal(err)
	}
	delete(d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "spec")
	if err := c.client.Update(t.Context(), d, client.FieldOwner("kubectl-replace")); err != nil {
		t.Fatal(err)
	}
	if older := ask(); len(older) != 1 || older[0].Kind != "PublicKey" || older[0].Manager != "kubectl-replace" || older[0].Unusable != "in its version v1beta1, field .spec is missing or different" {
		t.Errorf("got %+v", older)
	}
	if p := applied(t, c); p.Failure() != nil && p.Failure().Kind != flows.FailedTimeout {
		t.Errorf("got %+v", p.Failure())
	}
	if older := ask(); len(older) > 0 {
		t.Errorf("got %v after the installation", older)
	}
}

// testRewrittenImages uses a webhook that writes the images of a mirror into Deployments and DaemonSets.
func testRewrittenImages(t *testing.T, api *rest.Config, c *Cluster) {
	const asked, mirror = "example.org/gateway:v2", "mirror.local/gateway:v2"
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var o struct {
			Spec struct{ Template corev1.PodTemplateSpec }
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		var patches []string
		if err := json.Unmarshal(review.Request.Object.Raw, &o); err == nil {
			for i, container := range o.Spec.Template.Spec.Containers {
				if container.Image == asked {
					patches = append(patches, fmt.Sprintf(`{"op":"replace","path":"/spec/template/spec/containers/%d/image","value":%q}`, i, mirror))
				}
			}
		}
		if len(patches) > 0 {
			review.Response.PatchType = new(admissionv1.PatchTypeJSONPatch)
			review.Response.Patch = []byte("[" + strings.Join(patches, ",") + "]")
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(hook.Close)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mirror"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name: "mirror.example.org", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: new(hook.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
		},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "daemonsets"}},
		}},
	}}}
	admin, err := client.New(api, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.Background(), config); err != nil { //nolint:usetesting // the test's own context has ended
			t.Error(err)
		}
	})
	const says = "runs " + mirror + ", which a webhook or an admission policy of the cluster puts in place of " + asked
	for turn := 0; ; turn++ { // the API server follows the configuration within seconds
		plan, err := installed(t, c, render.InstallParams{ClusterID: "rome", Image: asked}, false)
		if failed, ok := errors.AsType[*flows.StepError](err); !ok || failed.Step.Kind != flows.FailedTimeout || failed.Step.Action != flows.Wait {
			t.Fatalf("got %v, want the operator to be waited for", err)
		}
		fabric, _ := plan.Step("fabric-a")
		operator, _ := plan.Step("operator-a")
		if fabric.Status == flows.Done && operator.Status == flows.Done && fabric.Reason == says && operator.Reason == says {
			break
		}
		if turn == 4 {
			t.Fatalf("got fabric %s, %q, operator %s, %q", fabric.Status, fabric.Reason, operator.Status, operator.Reason)
		}
	}
}

// testBlindUninstall uses a user who sees no objects.
func testBlindUninstall(t *testing.T, env *envtest.Environment) {
	_, err := planned(t, restricted(t, env, "blind", "list", "watch"), install.PlanRemoval, engine.Options{})
	failed, ok := errors.AsType[*flows.StepError](err)
	if !ok || failed.Step.Kind != flows.FailedAccess {
		t.Errorf("got %v, want to be told what is missing", err)
	}
}

// Kubernetes before 1.30 has no admission policies. Its answer is the same as for any unknown path.
func TestAnOlderKubernetesIsInstalledWithoutPolicies(t *testing.T) {
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	old := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if kind := o.GetObjectKind().GroupVersionKind(); strings.HasPrefix(kind.Kind, "ValidatingAdmission") {
				return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Group: kind.Group}, key.Name, "404 page not found", 0, true)
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	c := &Cluster{client: old, namespace: "liqo"}
	installation, err := c.Installation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := flows.Facts{Sides: [2]flows.ClusterFacts{{Namespace: "liqo"}}}
	flows.Read(flows.AskInstallation{Side: flows.A}, installation).Store(&f, f.At)
	plan := install.Plan(render.InstallParams{ClusterID: "rome", Image: "none"}, f)
	rights, _ := plan.Step("rights-a")
	if len(rights.Want) == 0 || slices.ContainsFunc(rights.Want, render.Optional) {
		t.Errorf("got %v, want all but the policy", rights.Want)
	}
}
