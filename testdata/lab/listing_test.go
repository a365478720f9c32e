package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestDiffSaysWhatIsThereMissingAndOtherwise(t *testing.T) {
	before := listing{
		"rome-1 links": {"eth0": "veth mtu 1500\nup", "lost": "dummy mtu 1500"},
		"rome-1 rules": {"-4 0: from all lookup local": ""},
		"rome objects": {"nodes rome-1": "metadata.labels.a: b\nspec.podCIDR: 10.244.0.0/24"},
	}
	now := listing{
		"rome-1 links": {"eth0": "veth mtu 1400\nup", "left": "dummy mtu 1500\nup"},
		"rome-1 rules": {"-4 0: from all lookup local": ""},
		"rome objects": {"nodes rome-1": "spec.podCIDR: 10.244.0.0/24\nspec.unschedulable: true", "namespaces lent": "a\nb\nc\nd\ne\nf\ng\nh"},
	}
	want := `rome objects
  there, but was not: namespaces lent
      a
      b
      c
      d
      e
      f
      … 2 lines more
  otherwise: nodes rome-1
    - metadata.labels.a: b
    + spec.unschedulable: true
rome-1 links
  otherwise: eth0
    - veth mtu 1500
    + veth mtu 1400
  there, but was not: left
      dummy mtu 1500
      up
  missing: lost: dummy mtu 1500`
	if got := strings.Join(diff(before, now), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := diff(now, now); len(got) != 0 {
		t.Errorf("of equal listings: got %q, want nothing", got)
	}
	if got := strings.Join(diff(listing{"s": {"chain": "a\nb"}}, listing{"s": {"chain": "b\na"}}), "\n"); !strings.Contains(got, "another order") {
		t.Errorf("of another order: got %q", got)
	}
	if got, want := differingSections(before, now), []string{"rome objects", "rome-1 links"}; !slices.Equal(got, want) {
		t.Errorf("got sections %q, want %q", got, want)
	}
}

func TestTwoOfTheSameAreNotOne(t *testing.T) {
	once, twice := listing{}, listing{}
	once.add("processes", "sleep 1", "")
	twice.add("processes", "sleep 1", "")
	twice.add("processes", "sleep 1", "")
	if len(diff(once, twice)) == 0 {
		t.Error("a second process of the same command line is not seen")
	}
}

func TestLinksAreComparedByWhatAnAdminSets(t *testing.T) {
	const link = `{"ifname":"NAME","flags":["BROADCAST","UP","LOWER_UP"],"mtu":1500,"operstate":"UP","address":"02:1b:ac:1e:00:0b","master":"br",
		"linkinfo":{"info_kind":"veth"},"addr_info":[{"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"},
		{"family":"inet","local":"192.0.2.2","prefixlen":32,"scope":"global"},{"family":"inet","local":"192.0.2.1","prefixlen":24,"scope":"global"}]}`
	const want = "veth mtu 1500\nup\nport of br\naddress 192.0.2.1/24\naddress 192.0.2.2/32"
	read := func(text string) map[string]string {
		t.Helper()
		l := listing{}
		if err := readLinks(l, "links", []byte("["+text+"]")); err != nil {
			t.Fatal(err)
		}
		return l["links"]
	}
	got := read(strings.Replace(link, "NAME", "eth0", 1))
	if !maps.Equal(got, map[string]string{"eth0": want}) {
		t.Errorf("got %q, want %q", got, want)
	}
	// A bridge whose last port is gone, a moment before it has its IPv6 address.
	unplugged := strings.NewReplacer("NAME", "eth0", `,"LOWER_UP"`, "", `"operstate":"UP"`, `"operstate":"DOWN"`,
		`{"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"},`, "", "02:1b", "4a:1b").Replace(link)
	if got := read(unplugged); got["eth0"] != want {
		t.Errorf("unplugged: got %q, want %q", got, want)
	}
	for _, change := range [][2]string{{"1500", "1400"}, {`"UP",`, ""}, {"192.0.2.1", "192.0.2.3"}, {`"br"`, `""`}, {`"veth"`, `"dummy"`}} {
		changed := strings.Replace(strings.Replace(link, change[0], change[1], 1), "NAME", "eth0", 1)
		if got := read(changed); got["eth0"] == want {
			t.Errorf("%s for %s: not seen", change[1], change[0])
		}
	}
	if err := readLinks(listing{}, "links", []byte("Device does not exist")); err == nil {
		t.Error("what is no list of links is read as none")
	}
}

func TestRoutesAreComparedWithoutWhatLinksDoThemselves(t *testing.T) {
	got := readRoutes(`default via 172.30.0.254 dev eth0 
10.244.0.0/24 dev cni0 proto kernel scope link src 10.244.0.1 linkdown 
10.244.0.7 dev veth1234abcd scope host 
unreachable 10.70.0.0/16 table 1878365176 
fe80::/64 dev eth0 proto kernel metric 256 pref medium
multicast ff00::/8 dev eth0 table local proto kernel metric 256 pref medium
local fe80::1b:acff:fe1e:b dev eth0 table local proto kernel metric 0 pref medium
2001:db8::/64 dev eth0 metric 1024 pref medium
`)
	want := []string{
		"default via 172.30.0.254 dev eth0",
		"10.244.0.0/24 dev cni0 proto kernel scope link src 10.244.0.1",
		"10.244.0.7 dev veth* scope host",
		"unreachable 10.70.0.0/16 table 1878365176",
		"2001:db8::/64 dev eth0 metric 1024 pref medium",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const ruleset = `table ip kube-proxy {
	comment "rules for kube-proxy"
	map service-ips {
		type ipv4_addr . inet_proto . inet_service : verdict
		comment "IPs, ports"
		elements = { 10.96.0.1 . tcp . 443 : goto service-A,
			     10.96.0.2 . tcp . 80 : goto service-B }
	}

	set cluster-ips {
		type ipv4_addr
		elements = { 10.96.0.1 }
	}

	chain services {
		ip daddr . meta l4proto . th dport vmap @service-ips
		drop
	}

	chain service-A {
		goto endpoint-A
	}
}
# Warning: table ip nat is managed by iptables-nft, do not touch!
table ip nat {
	chain POSTROUTING {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr 10.0.0.0/8 counter accept
	}

	chain empty {
	}
}
`

func TestRulesetsAreComparedWithoutAnOrderThatMeansNothing(t *testing.T) {
	read := func(text string) listing {
		l := listing{}
		readRuleset(l, "nftables", text)
		return l
	}
	before := read(ruleset)
	for key, want := range map[string]string{
		"table ip kube-proxy": "",
		"table ip kube-proxy map service-ips": "comment \"IPs, ports\"\nelement 10.96.0.1 . tcp . 443 : goto service-A\n" +
			"element 10.96.0.2 . tcp . 80 : goto service-B\ntype ipv4_addr . inet_proto . inet_service : verdict",
		"table ip kube-proxy chain services": "ip daddr . meta l4proto . th dport vmap @service-ips\ndrop",
		"table ip nat chain empty":           "",
	} {
		if got, there := before["nftables"][key]; !there || got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	same := strings.NewReplacer(
		"10.96.0.1 . tcp . 443 : goto service-A,\n\t\t\t     10.96.0.2 . tcp . 80 : goto service-B", "10.96.0.2 . tcp . 80 : goto service-B,\n\t\t\t     10.96.0.1 . tcp . 443 : goto service-A",
		"\tchain services {", "\tchain service-gone {\n\t}\n\n\tchain services {",
		"\t\tdrop\n", "\t\tdrop\n\t\tip daddr 10.96.0.0/16 drop comment \"Drop traffic to unallocated ClusterIPs\"\n",
	).Replace(ruleset)
	if got := diff(before, read(same)); len(got) > 0 {
		t.Errorf("another order of elements, and an emptied chain of kube-proxy's, and a rule that it may have:\n%s", strings.Join(got, "\n"))
	}
	for what, change := range map[string][2]string{
		"an element less":   {",\n\t\t\t     10.96.0.2 . tcp . 80 : goto service-B", ""},
		"rules turned":      {"\t\tip daddr . meta l4proto . th dport vmap @service-ips\n\t\tdrop", "\t\tdrop\n\t\tip daddr . meta l4proto . th dport vmap @service-ips"},
		"a rule more":       {"\t\tdrop\n", "\t\tdrop\n\t\taccept\n"},
		"an empty table":    {"table ip nat {", "table inet left {\n}\ntable ip nat {"},
		"an empty chain":    {"\tchain empty {", "\tchain more {\n\t}\n\n\tchain empty {"},
		"a chain less":      {"\tchain empty {\n\t}\n", ""},
		"another hook":      {"hook postrouting", "hook input"},
		"a chain of CNI's":  {"\tchain empty {", "\tchain CNI-0123456789abcdef01234567 {\n\t}\n\n\tchain empty {"},
		"a second element":  {"{ 10.96.0.1 }", "{ 10.96.0.1, 10.96.0.9 }"},
		"a name of a table": {"table ip nat {", "table ip6 nat {"},
	} {
		changed := strings.Replace(ruleset, change[0], change[1], 1)
		if changed == ruleset {
			t.Fatalf("%s: nothing was changed", what)
		}
		if len(diff(before, read(changed))) == 0 {
			t.Errorf("%s: not seen", what)
		}
	}
}

func TestMountsAreReadWithTheirIDs(t *testing.T) {
	got := readMounts([]byte(`21 1 0:19 / / rw,relatime shared:1 - overlay overlay rw
33 21 0:44 / /mnt/left\040over rw - tmpfs tmpfs rw
`))
	want := []mount{{"21", "1", "/", "overlay"}, {"33", "21", `/mnt/left\040over`, "tmpfs"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func objectOf(t *testing.T, resource, text string) object {
	t.Helper()
	o := object{schema.GroupVersionResource{Version: "v1", Resource: resource}, &unstructured.Unstructured{}}
	if err := json.Unmarshal([]byte(text), o.Unstructured); err != nil {
		t.Fatal(err)
	}
	return o
}

const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"rome-1","uid":"1","resourceVersion":"5","labels":{"a":"b"}},
	"spec":{"podCIDR":"10.244.0.0/24"},"status":{"conditions":[{"type":"Ready","status":"True"}],"capacity":{"cpu":"2"}}}`

func TestObjectsAreComparedByWhatAnAdminSets(t *testing.T) {
	before := objectOf(t, "nodes", node)
	if got, want := before.lines(), "apiVersion: v1\nkind: Node\nmetadata.labels.a: b\nspec.podCIDR: 10.244.0.0/24"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for what, change := range map[string][2]string{
		"another version": {`"5"`, `"6"`},
		"status":          {`"cpu":"2"`, `"cpu":"4"`},
		"a taint that was there while it rebooted": {`"spec":{`, `"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}],`},
	} {
		if after := objectOf(t, "nodes", strings.Replace(node, change[0], change[1], 1)); after.lines() != before.lines() {
			t.Errorf("%s: got\n%s\nwant no difference to\n%s", what, after.lines(), before.lines())
		}
	}
	for what, change := range map[string][2]string{
		"a label":       {`"a":"b"`, `"a":"c"`},
		"cordoned":      {`"spec":{`, `"spec":{"unschedulable":true,`},
		"a taint":       {`"spec":{`, `"spec":{"taints":[{"key":"node-role.example/gateway","effect":"NoSchedule"}],`},
		"not ready":     {`"True"`, `"Unknown"`},
		"being deleted": {`"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["left.example/keep"],"uid"`},
	} {
		if after := objectOf(t, "nodes", strings.Replace(node, change[0], change[1], 1)); after.lines() == before.lines() {
			t.Errorf("%s: not seen", what)
		}
	}
	first := objectOf(t, "configmaps", `{"kind":"ConfigMap","data":{"ca.crt":"-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n"}}`)
	second := objectOf(t, "configmaps", `{"kind":"ConfigMap","data":{"ca.crt":"-----BEGIN CERTIFICATE-----\nBBB\n-----END CERTIFICATE-----\n"}}`)
	if first.lines() != second.lines() {
		t.Errorf("certificates of another start: got\n%s\nwant\n%s", second.lines(), first.lines())
	}
}

func TestWhatAControllerMakesIsListedByItsOwner(t *testing.T) {
	pod := objectOf(t, "pods", `{"kind":"Pod","metadata":{"namespace":"liqo","name":"ipam-7d4f9c8b6d-x2x4z",
		"ownerReferences":[{"kind":"ReplicaSet","name":"ipam-7d4f9c8b6d","controller":true}]},"spec":{"nodeName":"rome-1"}}`)
	if got, want := pod.listedAs(), "pods liqo/(of ReplicaSet ipam-*)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := pod.lines(); got != "" {
		t.Errorf("got lines %q, want none: the Deployment says how it is", got)
	}
}

// A namespace stands for what it holds, but for what holds the namespace.
func TestAStuckNamespaceNamesItsFinalizers(t *testing.T) {
	all := objects{
		"namespaces default":    objectOf(t, "namespaces", `{"kind":"Namespace","metadata":{"name":"default"}}`),
		"configmaps default/a":  objectOf(t, "configmaps", `{"kind":"ConfigMap","metadata":{"namespace":"default","name":"a"}}`),
		"namespaces lent":       objectOf(t, "namespaces", `{"kind":"Namespace","metadata":{"name":"lent","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"finalizers":["kubernetes"]}}`),
		"configmaps lent/a":     objectOf(t, "configmaps", `{"kind":"ConfigMap","metadata":{"namespace":"lent","name":"a"}}`),
		"tenants.liqo.io lent/": objectOf(t, "tenants", `{"kind":"Tenant","metadata":{"namespace":"lent","name":"b","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["left.example/keep"]}}`),
	}
	before := objects{"namespaces default": all["namespaces default"]}
	got := strings.Join(diff(before.listing("rome objects", before), all.listing("rome objects", before)), "\n")
	for _, want := range []string{"configmaps default/a", "namespaces lent: deleted, and kept by kubernetes", "tenants.liqo.io lent/: deleted, and kept by left.example/keep"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	if strings.Contains(got, "configmaps lent/a") {
		t.Errorf("got\n%s\nwant the namespace to stand for what it holds", got)
	}
}

// A mark is read back as what was written: numbers included.
func TestAMarkIsReadAsItWasWritten(t *testing.T) {
	o := objectOf(t, "services", `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"kubernetes"},"spec":{"ports":[{"port":443}]}}`)
	was := mark{Kernels: listing{"rome-1 links": {"lo": "mtu 65536"}}, Objects: map[string]objects{"rome": {o.listedAs(): o}}}
	text, err := json.Marshal(was)
	if err != nil {
		t.Fatal(err)
	}
	var is mark
	if err := json.Unmarshal(text, &is); err != nil {
		t.Fatal(err)
	}
	if got := diff(was.listing(was), is.listing(is)); len(got) > 0 {
		t.Errorf("got\n%s\nwant no difference", strings.Join(got, "\n"))
	}
	if got := is.Objects["rome"][o.listedAs()].Resource; got != o.Resource {
		t.Errorf("got resource %s, want %s", got, o.Resource)
	}
}
