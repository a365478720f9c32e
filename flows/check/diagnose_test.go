package check_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// says changes the report of a side's gateway.
func says(c *flows.ClusterFacts, at time.Time, edit func(*wire.Report)) {
	conn := &c.Connections[0]
	conn.Status.Value = networkingv1beta1.Connecting
	r := wire.Report{At: at, Interval: 10, Reason: wire.ReasonNoHandshake, Message: "no handshake with the peer's gateway"}
	edit(&r)
	if r.Reason == wire.ReasonPinged {
		conn.Status.Value = networkingv1beta1.Connected
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	conn.Annotations = map[string]string{wire.AnnotationStatus: string(text)}
}

// counts makes both gateways report no handshake, with these numbers of bytes.
func counts(f *flows.Facts, sentA, receivedA, sentB, receivedB uint64) {
	says(&f.Sides[flows.A], f.At, func(r *wire.Report) { r.SentBytes, r.ReceivedBytes = sentA, receivedA })
	says(&f.Sides[flows.B], f.At, func(r *wire.Report) { r.SentBytes, r.ReceivedBytes = sentB, receivedB })
}

// before returns facts from 10 s earlier, when the gateways had counted nothing yet.
func before(f flows.Facts) flows.Facts {
	f.At = f.At.Add(-10 * time.Second)
	for side := range f.Sides {
		c := &f.Sides[side]
		c.Connections = slices.Clone(c.Connections)
		for i := range c.Connections {
			r, ok, err := wire.ParseReport(c.Connections[i].Annotations)
			if err != nil {
				panic(err)
			}
			if !ok {
				continue
			}
			r.At, r.SentBytes, r.ReceivedBytes = r.At.Add(-10*time.Second), 0, 0
			text, err := json.Marshal(r)
			if err != nil {
				panic(err)
			}
			c.Connections[i].Annotations = map[string]string{wire.AnnotationStatus: string(text)}
		}
	}
	return f
}

func TestDiagnose(t *testing.T) {
	for name, tc := range map[string]struct {
		facts func(f *flows.Facts)
		roots []string // "ID where", in order
	}{
		"healthy": {facts: func(*flows.Facts) {}},
		"one-does-not-answer": {
			facts: func(f *flows.Facts) {
				f.Sides[flows.B].Problem = &flows.Problem{Message: "milan does not answer", Fix: command.Text("check the VPN")}
			},
			roots: []string{"LT-D001 B"},
		},
		"one-has-never-answered": {
			facts: func(f *flows.Facts) {
				f.Sides[flows.B] = flows.ClusterFacts{Context: f.Sides[flows.B].Context, Problem: &flows.Problem{Message: "milan does not answer", Fix: command.Text("check the VPN")}}
			},
			roots: []string{"LT-D001 B"},
		},
		"way-there-closed": {
			facts: func(f *flows.Facts) { counts(f, 21504, 0, 0, 0) },
			roots: []string{"LT-D020 A→B"},
		},
		"way-there-closed-later": { // the server knows the client's address from an earlier packet, so the firewall's rule has this address
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 0, 0)
				says(&f.Sides[flows.B], f.At, func(r *wire.Report) { r.Endpoint = "198.51.100.7:40123" })
			},
			roots: []string{"LT-D020 A→B"},
		},
		"way-back-closed": {
			facts: func(f *flows.Facts) { counts(f, 21504, 0, 9200, 21504) },
			roots: []string{"LT-D020 B→A"},
		},
		"both-ways-closed": {
			facts: func(f *flows.Facts) { counts(f, 21504, 0, 9200, 0) },
			roots: []string{"LT-D020 A→B"},
		},
		"server-is-not-dialled": {
			facts: func(f *flows.Facts) { counts(f, 0, 0, 9200, 0) },
			roots: []string{"LT-D030 A", "LT-D030 B"},
		},
		"handshake-but-no-ping": {
			facts: func(f *flows.Facts) {
				for side := range f.Sides {
					c := &f.Sides[side]
					says(c, f.At, func(r *wire.Report) {
						r.Reason, r.Message, r.SentBytes, r.ReceivedBytes = wire.ReasonNoPing, "a handshake, but no ping is answered", 900, 900
						r.Handshake = new(f.At.Add(-20 * time.Second))
					})
				}
			},
			roots: []string{"LT-D030 A", "LT-D030 B"},
		},
		"relay-does-not-run": {
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 9200, 0)
				relayed(f, "relay.example.org")
			},
			roots: []string{"LT-D020 A→B", "LT-D020 B→A"},
		},
		"client-dials-another-relay": {
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 9200, 0)
				relayed(f, "198.51.100.9")
			},
			roots: []string{"LT-D011 A,B"},
		},
		"endpoint-moved": {
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 0, 0)
				f.Sides[flows.B].Servers[0].Status.Endpoint.Addresses[0] = "192.0.2.51"
			},
			roots: []string{"LT-D011 A,B"},
		},
		"pending": {
			facts: func(f *flows.Facts) {
				f.Sides[flows.B].Servers[0].Status.Endpoint = nil
				f.Sides[flows.B].Events = []flows.EventFacts{{
					Object: "Service " + f.Sides[flows.B].Servers[0].Namespace + "/gw-rome", Reason: "SyncLoadBalancerFailed", Message: "no quota left", Count: 14, At: f.At.Add(-20 * time.Second),
				}}
			},
			roots: []string{"LT-D011 A,B"},
		},
		"wrong-key": {
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 0, 0)
				f.Sides[flows.B].PublicKeys[0].Spec.PublicKey[0] ^= 1
			},
			roots: []string{"LT-D013 B"},
		},
		"pod-waits": {
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 0, 0)
				f.Sides[flows.B].Pods[0].Waiting = "ImagePullBackOff: not found"
			},
			roots: []string{"LT-D012 B"},
		},
		"pod-not-made": {
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 0, 0)
				rome := &f.Sides[flows.B]
				rome.Events = append(rome.Events, flows.EventFacts{
					Object: "ReplicaSet " + rome.Pods[0].Namespace + "/gw-" + rome.Pods[0].Gateway + "-7c9d", Reason: flows.FailedCreate,
					Message: `Error creating: Pod "gw-rome-7c9d-x" is invalid: spec.containers[0].resources.requests: Invalid value: "32Mi": must be less than or equal to memory limit of 16Mi`,
				})
				rome.Pods = nil
			},
			roots: []string{"LT-D012 B"},
		},
		"pod-restarted": {facts: func(f *flows.Facts) {
			f.Sides[flows.B].Pods[0].Restarts, f.Sides[flows.B].Pods[0].Restarted = 2, f.At.Add(-3*time.Minute)
		}},
		"node-without-agent": {facts: func(f *flows.Facts) {
			f.Sides[flows.A].Nodes, f.Sides[flows.A].Agents = []flows.NodeFacts{{Name: "rome-1", Ready: true}}, []string{"rome-1"}
			f.Sides[flows.B].Nodes, f.Sides[flows.B].Agents = []flows.NodeFacts{
				{Name: "milan-1", Ready: true},
				{Name: "milan-2", Ready: true},
				{Name: "naples", Ready: true, Excluded: "virtual, type=virtual-kubelet"},
			}, []string{"milan-1"}
			f.Sides[flows.A].AgentStatus = map[string]wire.NodeStatus{"rome-1": {Level: 1}}
			f.Sides[flows.B].AgentStatus = map[string]wire.NodeStatus{"milan-1": {Level: 1}}
			says(&f.Sides[flows.A], f.At, func(r *wire.Report) { r.Refused = new(uint64(7)) })
		}},
		"node-whose-agent-does-not-run": {facts: func(f *flows.Facts) {
			f.Sides[flows.A].Nodes, f.Sides[flows.A].Agents = []flows.NodeFacts{{Name: "rome-1", Ready: true}}, []string{"rome-1"}
			f.Sides[flows.A].AgentStatus, f.Sides[flows.A].AttendanceUnknown = map[string]wire.NodeStatus{"rome-1": {Level: 1, Refused: map[string]uint64{}}}, true
			f.Sides[flows.B].Nodes, f.Sides[flows.B].Agents = []flows.NodeFacts{{Name: "milan-1", Ready: true}, {Name: "milan-2", Ready: true}}, []string{"milan-1", "milan-2"}
			f.Sides[flows.B].AgentStatus = map[string]wire.NodeStatus{"milan-1": {Level: 1, Refused: map[string]uint64{}}, "milan-2": {Level: 1, Refused: map[string]uint64{}}}
			f.Sides[flows.B].Unattended = []string{"milan-2"}
			for side := range f.Sides {
				c := &f.Sides[side]
				says(c, f.At, func(r *wire.Report) {
					r.Reason, r.Since, r.PodTraffic, r.Refused = wire.ReasonPinged, new(f.At.Add(-time.Minute)), new(f.At.Add(-4*time.Second)), new(uint64(0))
				})
			}
		}},
		"node-with-older-agent": {facts: func(f *flows.Facts) {
			f.Sides[flows.B].Nodes, f.Sides[flows.B].Agents = []flows.NodeFacts{{Name: "milan-1", Ready: true}, {Name: "milan-2", Ready: true}}, []string{"milan-1", "milan-2"}
			f.Sides[flows.B].AgentStatus = map[string]wire.NodeStatus{"milan-1": {Level: 1, Refused: map[string]uint64{}}, "milan-2": {}}
		}},
		"node-does-not-lead": {
			facts: func(f *flows.Facts) {
				gateway := f.Sides[flows.B].Servers[0].Namespace + "/" + f.Sides[flows.B].Servers[0].Name
				f.Sides[flows.B].Nodes, f.Sides[flows.B].Agents = []flows.NodeFacts{{Name: "milan-1", Ready: true}, {Name: "milan-2", Ready: true}, {Name: "milan-3", Ready: true}}, []string{"milan-1", "milan-2", "milan-3"}
				f.Sides[flows.B].AgentStatus = map[string]wire.NodeStatus{
					"milan-1": {Level: 1, Refused: map[string]uint64{}},
					"milan-2": {Level: 1, Refused: map[string]uint64{}, Unfit: map[string]string{
						gateway:                   "does not lead to the peer: remote CIDR overlaps",
						"liqo-tenant-turin/turin": "does not lead to the peer: not of this one",
					}},
					"milan-3": {Problem: "set route: invalid argument"},
				}
			},
			roots: []string{"LT-D016 B"},
		},
		"nodes-refuse": {facts: func(f *flows.Facts) {
			gateway := f.Sides[flows.A].Clients[0].Namespace + "/" + f.Sides[flows.A].Clients[0].Name
			f.Sides[flows.A].Nodes, f.Sides[flows.A].Agents = []flows.NodeFacts{{Name: "rome-1", Ready: true}, {Name: "rome-2", Ready: true}}, []string{"rome-1", "rome-2"}
			f.Sides[flows.A].AgentStatus = map[string]wire.NodeStatus{
				"rome-1": {Level: 1, Refused: map[string]uint64{gateway: 5, "liqo-tenant-turin/turin": 100}},
				"rome-2": {Level: wire.NodeLevel + 1, Refused: map[string]uint64{}},
			}
			f.Sides[flows.B].Nodes, f.Sides[flows.B].Agents = []flows.NodeFacts{{Name: "milan-1", Ready: true}}, []string{"milan-1"}
			f.Sides[flows.B].AgentStatus = map[string]wire.NodeStatus{"milan-1": {Level: 1, Refused: map[string]uint64{"a/b": 1}, More: true}}
			for side := range f.Sides {
				c := &f.Sides[side]
				says(c, f.At, func(r *wire.Report) {
					r.Reason, r.Since, r.PodTraffic = wire.ReasonPinged, new(f.At.Add(-time.Minute)), new(f.At.Add(-4*time.Second))
					r.Refused = new(uint64(7 - 7*side))
				})
			}
		}},
		"node-cut-off": {
			facts: func(f *flows.Facts) {
				gateway := f.Sides[flows.B].Servers[0].Namespace + "/" + f.Sides[flows.B].Servers[0].Name
				f.Sides[flows.B].Agents = []string{"milan-1", "milan-2", "milan-3", "milan-4", "milan-5", "milan-6"}
				for _, node := range []string{"milan-2", "milan-3", "milan-4", "milan-6"} {
					f.Sides[flows.B].Unreached = append(f.Sides[flows.B].Unreached, flows.UnreachedFacts{Node: node, Gateways: []string{"liqo-tenant-turin/turin", gateway}})
				}
				for side := range f.Sides {
					c := &f.Sides[side]
					says(c, f.At, func(r *wire.Report) {
						r.Reason, r.Since, r.PodTraffic = wire.ReasonPinged, new(f.At.Add(-time.Minute)), new(f.At.Add(-4*time.Second))
					})
				}
			},
			roots: []string{"LT-D016 B"},
		},
		"policies-close": {facts: func(f *flows.Facts) {
			policies := []networkingv1.NetworkPolicy{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default-deny"}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "rome-only"}, Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
					From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "240.160.0.0/16"}}},
				}}}},
			}
			found := policy.Facts{Policies: policies, Others: []string{"Calico"}}
			for range 12 {
				found.Count(policy.Pod{Namespace: "shop"})
				found.Count(policy.Pod{Namespace: "bank"})
			}
			flows.Read(flows.AskPolicies{Side: flows.B}, found).Store(f, f.At)
			flows.Read(flows.AskPolicies{Side: flows.A}, policy.Facts{Unknown: "you may not list networkpolicies"}).Store(f, f.At)
		}},
		"policies-of-cilium-close": {facts: func(f *flows.Facts) {
			cilium := func(namespace, spec string) policy.Cilium {
				p, err := policy.ParseCilium(fmt.Appendf(nil, `{"kind":"CiliumNetworkPolicy","metadata":{"namespace":%q,"name":"p"},"spec":{"endpointSelector":{},%s}}`, namespace, spec))
				if err != nil {
					panic(err)
				}
				return p
			}
			found := policy.Facts{Cilium: []policy.Cilium{cilium("shop", `"egress":[{"toEntities":["cluster"]}]`), cilium("bank", `"ingressDeny":[{"fromEntities":["world"]}]`)}}
			found.Count(policy.Pod{Namespace: "shop"})
			found.Count(policy.Pod{Namespace: "bank"})
			flows.Read(flows.AskPolicies{Side: flows.B}, found).Store(f, f.At)
			found = policy.Facts{Cilium: []policy.Cilium{cilium("shop", `"egress":[{"toFQDNs":[{"matchName":"milan.example"}]}]`)}}
			found.Count(policy.Pod{Namespace: "shop"})
			flows.Read(flows.AskPolicies{Side: flows.A}, found).Store(f, f.At)
		}},
		"cilium-isolates-gateway": {
			facts: func(f *flows.Facts) {
				counts(f, 0, 0, 0, 0)
				for side, spec := range [2]string{`"egress":[{"toEntities":["cluster"]}]`, `"ingress":[{}],"egress":[{}]`} {
					p, err := policy.ParseCilium(fmt.Appendf(nil, `{"kind":"CiliumClusterwideNetworkPolicy","metadata":{"name":"default-deny"},"spec":{"endpointSelector":{},%s}}`, spec))
					if err != nil {
						panic(err)
					}
					found := policy.Facts{Cilium: []policy.Cilium{p}}
					found.Count(policy.Pod{Namespace: f.Sides[side].Pods[0].Namespace})
					flows.Read(flows.AskPolicies{Side: flows.Side(side)}, found).Store(f, f.At)
				}
			},
			roots: []string{"LT-D012 A", "LT-D012 B"},
		},
		"policy-isolates-gateway": {
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 0, 0)
				deny := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: f.Sides[flows.B].Pods[0].Namespace, Name: "default-deny"}}
				found := policy.Facts{Policies: []networkingv1.NetworkPolicy{deny}}
				found.Count(policy.Pod{Namespace: deny.Namespace})
				flows.Read(flows.AskPolicies{Side: flows.B}, found).Store(f, f.At)
			},
			roots: []string{"LT-D012 B"},
		},
		"pods-outside": {
			facts: func(f *flows.Facts) {
				in := func(inside bool, outside ...string) wire.NodeStatus {
					p := &wire.PodRanges{Inside: inside}
					for _, o := range outside {
						p.Outside = append(p.Outside, netip.MustParsePrefix(o))
					}
					return wire.NodeStatus{Level: 1, Refused: map[string]uint64{}, Pods: p}
				}
				a, b := &f.Sides[flows.A], &f.Sides[flows.B]
				a.Agents, a.AgentStatus = []string{"rome-1", "rome-2"}, map[string]wire.NodeStatus{"rome-1": in(false, "10.50.0.0/27"), "rome-2": in(false, "10.50.0.32/27", "10.50.0.0/27")}
				b.Agents, b.AgentStatus = []string{"milan-1", "milan-2"}, map[string]wire.NodeStatus{"milan-1": in(true), "milan-2": in(true, "10.9.4.7/32")}
			},
			roots: []string{"LT-D019 A"},
		},
		"stale": {
			facts: func(f *flows.Facts) {
				says(&f.Sides[flows.B], f.At.Add(-3*time.Minute), func(r *wire.Report) { r.Reason = wire.ReasonPinged })
			},
			roots: []string{"LT-D014 B"},
		},
		"installed-again": {
			facts: func(f *flows.Facts) { f.Sides[flows.B].Networks.Pod = cidrs("10.200.0.0/16") },
			roots: []string{"LT-D004 A→B"},
		},
		"gateway-missing": {
			facts: func(f *flows.Facts) { f.Sides[flows.A].Clients = nil },
			roots: []string{"LT-D010 A,B"},
		},
		"unknown-key": {
			facts: func(f *flows.Facts) {
				counts(f, 21504, 0, 0, 0)
				says(&f.Sides[flows.B], f.At, func(r *wire.Report) {
					r.Reason, r.Message = wire.ReasonKeyMismatch, "packets come in, and none is encrypted with a known key"
				})
			},
			roots: []string{"LT-D013 B"},
		},
		"unresolvable": {
			facts: func(f *flows.Facts) {
				says(&f.Sides[flows.A], f.At, func(r *wire.Report) {
					r.Reason, r.Message = wire.ReasonUnresolvable, "lookup gw.example.org: no such host"
				})
			},
			roots: []string{"LT-D011 A,B"},
		},
		"narrow-path": {facts: func(f *flows.Facts) {
			for side := range f.Sides {
				c := &f.Sides[side]
				says(c, f.At, func(r *wire.Report) {
					r.Reason, r.MTU, r.PathMTU, r.LatencyMicros = wire.ReasonPinged, 1340, 1280, 900
				})
			}
		}},
		"mtu-left-to-gateways": {facts: func(f *flows.Facts) {
			for i := range f.Sides {
				c := &f.Sides[i]
				for j := range c.Servers {
					c.Servers[j].Spec.MTU = wire.MaxMTU
				}
				for j := range c.Clients {
					c.Clients[j].Spec.MTU = wire.MaxMTU
				}
				says(c, f.At, func(r *wire.Report) {
					r.Reason, r.MTU, r.PathMTU, r.LatencyMicros = wire.ReasonPinged, []int{8941, 1440}[i], 1428, 900
				})
			}
		}},
		"liqo": {
			facts: func(f *flows.Facts) {
				for side := range f.Sides {
					c := &f.Sides[side]
					c.Software, c.Connections[0].Annotations = flows.Liqo, nil
					c.Connections[0].Status.Value = networkingv1beta1.ConnectionError
				}
			},
			roots: []string{"LT-D030 A", "LT-D030 B"},
		},
		"liqo-connected": {facts: func(f *flows.Facts) {
			for side := range f.Sides {
				c := &f.Sides[side]
				c.Software, c.Connections[0].Annotations = flows.Liqo, nil
			}
		}},
		"liqo-without-pings": {facts: func(f *flows.Facts) {
			for side := range f.Sides {
				c := &f.Sides[side]
				c.Software, c.Connections[0].Annotations = flows.Liqo, nil
				c.Connections[0].Status.Latency = networkingv1beta1.ConnectionLatency{}
			}
		}},
		// rome's operator reports overlaps. Liqo on milan does not.
		"ranges-overlap": {facts: func(f *flows.Facts) {
			conf := &f.Sides[flows.A].Configurations[0]
			seen := netip.MustParsePrefix(string(conf.Status.Remote.CIDR.Pod[0]))
			conf.Status.Conditions = append(conf.Status.Conditions, metav1.Condition{
				Type: wire.ConditionOverlap, Status: metav1.ConditionTrue, Reason: wire.ReasonNeeded,
				Message: wire.JoinOverlaps([]wire.Overlap{
					{Range: seen, With: ipam.Reservation{Prefix: netip.PrefixFrom(seen.Addr(), 20), Reason: "a route of node r1"}},
					{Range: seen, With: ipam.Host(seen.Addr().Next(), "load balancer of Service shop/web")},
				}),
			})
			f.Sides[flows.B].Software, f.Sides[flows.B].Connections[0].Annotations = flows.Liqo, nil
			external := netip.MustParsePrefix(string(f.Sides[flows.B].Configurations[0].Status.Remote.CIDR.External[0]))
			f.Sides[flows.B].Nodes = append(f.Sides[flows.B].Nodes, node("late", external.Addr().Next().String(), ""))
		}},
		"lossy": {roots: []string{"LT-D032 A"}, facts: func(f *flows.Facts) {
			says(&f.Sides[flows.A], f.At, func(r *wire.Report) {
				r.Reason, r.Loss, r.LatencyMicros, r.MTU = wire.ReasonPinged, 0.12, 1200, 1340
			})
			says(&f.Sides[flows.B], f.At, func(r *wire.Report) { r.Reason, r.LatencyMicros, r.MTU = wire.ReasonPinged, 1300, 1400 })
		}},
		"recovering": {facts: func(f *flows.Facts) { // the links work again
			says(&f.Sides[flows.A], f.At, func(r *wire.Report) {
				r.Reason, r.Loss, r.LatencyMicros, r.MTU, r.Since = wire.ReasonPinged, 0.4, 1200, 1340, new(f.At.Add(-20*time.Second))
			})
			says(&f.Sides[flows.B], f.At, func(r *wire.Report) { r.Reason, r.LatencyMicros, r.MTU = wire.ReasonPinged, 1300, 1340 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			diagnose := func(pair *flowtest.Pair) []check.Result {
				f := factsOf(pair)
				nodes := []flows.NodeFacts{node("r1", "172.18.0.10", "198.51.100.9")}
				f.Sides[flows.A].Nodes = nodes
				if f.Sides[flows.A].Software == flows.Operator {
					f.Sides[flows.A].Agents = append(f.Sides[flows.A].Agents, nodes[0].Name)
					f.Sides[flows.A].AgentStatus[nodes[0].Name] = wire.NodeStatus{
						Level: wire.NodeLevel, Refused: map[string]uint64{}, Pods: &wire.PodRanges{Inside: true}, KubeProxy: wire.KubeProxyAnswers,
					}
				}
				tc.facts(&f)
				return check.Diagnose(f, new(before(f)))
			}
			pair := flowtest.NewPair()
			connectPair(t, pair)
			results := diagnose(pair)
			golden.Compare(t, "diagnose-"+name+".txt", text(results))
			want := strings.NewReplacer("liqo-tenant-milan", elsewhere[flows.A], "liqo-tenant-rome", elsewhere[flows.B]).Replace(text(results))
			if diff := cmp.Diff(want, text(diagnose(connectedElsewhere(t)))); diff != "" {
				t.Errorf("in other namespaces (-want +got):\n%s", diff)
			}
			var roots []string
			for _, r := range results {
				testPlan(t, factsOf(pair), r)
				if r.Root {
					roots = append(roots, string(r.ID)+" "+sideOf(r))
				}
			}
			if got, want := strings.Join(roots, "; "), strings.Join(tc.roots, "; "); got != want {
				t.Errorf("root causes: got %s, want %s\n%s", got, want, text(results))
			}
		})
	}
}

// testPlan compares the plan of a result with the command in its advice, and with the existing flags.
func testPlan(t *testing.T, f flows.Facts, r check.Result) {
	t.Helper()
	if r.Plan == nil {
		return
	}
	run, p := r.Plan.Command(f), flows.Defaults()
	if !slices.ContainsFunc(r.Fix, func(fix command.Hint) bool { return slices.ContainsFunc(fix.Commands(), run.Equal) }) || r.Plan.Means == "" {
		t.Errorf("%s: the plan is that of %q, which none of the fixes says: %q", r.ID, run, r.Fix)
	}
	settings := flows.Settings()
	i := slices.IndexFunc(settings, func(s flows.ConnectionSetting) bool { return s.Name == r.Plan.Setting })
	switch {
	case r.Plan.Setting == "":
	case i < 0:
		t.Errorf("%s: there is no setting %q", r.ID, r.Plan.Setting)
	default:
		if err := settings[i].Set(&p, r.Plan.Value); err != nil || settings[i].Write(p) != r.Plan.Value {
			t.Errorf("%s: got %q of %+v, %v", r.ID, settings[i].Write(p), r.Plan, err)
		}
	}
}

// elsewhere are namespaces that existed before the connection, and have no label of a peer.
var elsewhere = [2]string{"default", "network-team"}

// connectedElsewhere returns a connection in namespaces that the admins have chosen. Later, Liqo's
// authentication has labelled other namespaces for the peers.
func connectedElsewhere(t *testing.T) *flowtest.Pair {
	t.Helper()
	pair := flowtest.NewPair()
	for side, name := range elsewhere {
		pair.Side(flows.Side(side)).PutAs("others", &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		})
	}
	p := nodePort()
	p.Namespaces = elsewhere
	if err := engine.Run(t.Context(), connect.Goal{Params: p}, pair.A, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*flowtest.Cluster{pair.A, pair.B} {
		c.PutAs("liqo", render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-" + string(c.Tenant().Remote), Remote: c.Tenant().Remote}))
	}
	return pair
}

func TestAConnectionElsewhereIsNoLeftover(t *testing.T) {
	pair := connectedElsewhere(t)
	results := check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{})
	for _, r := range results {
		if r.ID == check.Leftovers && r.State != check.Pass || r.ID == check.Reachability && r.State != check.Pass {
			t.Errorf("got %s", text([]check.Result{r}))
		}
	}
	pair.A.PutAs("liqoctl", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "old"}},
		render.Configuration(render.Tenant{Namespace: "old", Remote: "milan"}, render.Networks{}))
	r := find(t, check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{}), check.Leftovers)
	if r.State != check.Warn || !slices.Equal(r.Evidence, []string{"Configuration old/milan: it is not in the peering's namespace default"}) {
		t.Errorf("a Configuration in a third namespace: got %s", text([]check.Result{r}))
	}
}

// relayed makes both gateways dial a relay. The client knows only this host of it.
func relayed(f *flows.Facts, clients string) {
	f.Sides[flows.B].Servers[0].Annotations = map[string]string{wire.AnnotationRelay: "relay.example.org:4500"}
	f.Sides[flows.A].Clients[0].Spec.Endpoint = networkingv1beta1.EndpointStatus{Addresses: []string{clients}, Port: 4500}
}

func TestDiagnoseSeesWhatMovesNow(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	at := factsOf(pair).At
	// look returns the facts some seconds after the start, with reports of silent gateways.
	look := func(after int, sentA, receivedA, sentB, receivedB uint64) flows.Facts {
		f := factsOf(pair)
		f.At = at.Add(time.Duration(after) * time.Second)
		counts(&f, sentA, receivedA, sentB, receivedB)
		return f
	}
	since := func(f flows.Facts, after int) flows.Facts {
		for side := range f.Sides {
			c := &f.Sides[side]
			r, _, err := wire.ParseReport(c.Connections[0].Annotations)
			if err != nil {
				t.Fatal(err)
			}
			says(c, f.At, func(edited *wire.Report) {
				*edited = r
				edited.Since = new(at.Add(time.Duration(after) * time.Second))
			})
		}
		return f
	}
	now := look(100, 9900, 8000, 8000, 9000)
	// Packets arrive, but pings are not answered, so no firewall is the cause.
	for _, r := range check.Diagnose(look(100, 9900, 9900, 9900, 9900), new(look(90, 100, 100, 100, 100))) {
		if r.ID == check.Ping && (!r.Root || strings.Contains(command.Join(r.Fix, "\n").String(), "firewall")) {
			t.Errorf("got %s", text([]check.Result{r}))
		}
	}
	for name, earlier := range map[string]*flows.Facts{
		"no earlier look":            nil,
		"the same reports":           new(look(100, 9900, 8000, 8000, 9000)),
		"a look of long ago":         new(look(10, 100, 100, 100, 100)),
		"another gateway counts now": new(look(90, 99_000, 8000, 8000, 9000)),
		"no reports":                 new(factsOf(flowtest.NewPair())),
	} {
		results := check.Diagnose(now, earlier)
		for _, r := range results {
			if r.ID == check.UDPPath && r.State != check.Measuring || r.Root || r.ID == check.Ping && len(r.Fix) > 0 {
				t.Errorf("%s: got %s", name, text([]check.Result{r}))
			}
		}
		if worst := check.Worst(results); worst != check.Fail { // no ping is answered, for any reason
			t.Errorf("%s: got %s as the worst", name, worst)
		}
	}
	wasWell := since(now, 95)
	if r := find(t, check.Diagnose(wasWell, new(look(89, 9000, 8000, 8000, 8000))), check.UDPPath); r.State != check.Measuring {
		t.Errorf("packets arrived while the tunnel worked: got %s", text([]check.Result{r}))
	}
	r := find(t, check.Diagnose(since(now, 80), new(look(89, 9000, 8000, 8000, 9000))), check.UDPPath)
	if r.State != check.Fail || sideOf(r) != "A→B" || !r.Root || !strings.Contains(r.Evidence[0], "in the last 11s rome sent 900 bytes, milan received 0") {
		t.Errorf("with an earlier look: got %s", text([]check.Result{r}))
	}
}

// The reason in a stale report is not a root cause.
func TestDiagnoseBelievesNoOldReason(t *testing.T) {
	for _, reason := range []wire.Reason{wire.ReasonKeyMismatch, wire.ReasonUnresolvable} {
		pair := flowtest.NewPair()
		connectPair(t, pair)
		f := factsOf(pair)
		for side := range f.Sides {
			c := &f.Sides[side]
			says(c, f.At.Add(-time.Hour), func(r *wire.Report) { r.Reason, r.Message = reason, "an hour ago" })
		}
		for _, r := range check.Diagnose(f, nil) {
			if r.Root != (r.ID == check.Fresh) {
				t.Errorf("%s: got %s", reason, text([]check.Result{r}))
			}
		}
	}
}

// If there is no connection, the check of its path is skipped.
func TestDiagnoseOfNothing(t *testing.T) {
	pair := flowtest.NewPair()
	results := check.Diagnose(factsOf(pair), nil)
	if r := find(t, results, check.UDPPath); r.State != check.Skipped {
		t.Errorf("got\n%s", text(results))
	}
}

func TestThePortOfTheFabricIsTheGateways(t *testing.T) {
	if flows.FabricPort != gateway.FabricPort {
		t.Errorf("advice names UDP port %d, gateways use %d", flows.FabricPort, gateway.FabricPort)
	}
}

// Gateways report the traffic since the last answered ping. If both do, one observation is enough.
func TestDiagnoseBelievesBothGatewaysOfTheirSilence(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	f := factsOf(pair)
	silent := func(c *flows.ClusterFacts, lately wire.Movement) {
		says(c, f.At, func(r *wire.Report) {
			r.Reason, r.Message, r.Lately = wire.ReasonPeerSilent, "nothing comes back", lately
			r.SentBytes, r.ReceivedBytes, r.Since = 90_000, 90_000, &f.At
		})
		c.Connections[0].Status.Value = networkingv1beta1.ConnectionError
	}
	for name, c := range map[string]struct {
		a, b wire.Movement
		want map[string]check.Outcome // by the direction
		root bool
	}{
		"both ways are cut":            {wire.Movement{Over: 4, Sent: 592}, wire.Movement{Over: 5, Sent: 192}, map[string]check.Outcome{"A→B": check.Fail, "B→A": check.Inconclusive}, true},
		"one way is":                   {wire.Movement{Over: 4, Sent: 592}, wire.Movement{Over: 5, Sent: 192, Received: 592}, map[string]check.Outcome{"A→B": check.Pass, "B→A": check.Fail}, true},
		"one has not looked for long":  {wire.Movement{Over: 4, Sent: 592}, wire.Movement{Over: 2, Sent: 64}, map[string]check.Outcome{"A→B": check.Measuring, "B→A": check.Measuring}, false},
		"one is of an earlier release": {wire.Movement{Over: 4, Sent: 592}, wire.Movement{}, map[string]check.Outcome{"A→B": check.Measuring, "B→A": check.Measuring}, false},
	} {
		silent(&f.Sides[flows.A], c.a)
		silent(&f.Sides[flows.B], c.b)
		for _, r := range check.Diagnose(f, nil) {
			if want, ok := c.want[sideOf(r)]; r.ID == check.UDPPath && ok && r.State != want {
				t.Errorf("%s: want %s, got %s", name, want, text([]check.Result{r}))
			}
			if r.Root && (r.ID != check.UDPPath || !c.root) {
				t.Errorf("%s: got %s", name, text([]check.Result{r}))
			}
		}
	}
}

// A server refuses the handshakes of a client whose clock was set back, without an answer.
func TestAClientsClockThatIsBehindIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		client, server time.Duration // how far the clocks are ahead of this machine's
		want           bool
	}{
		"the client's is behind": {-25 * time.Second, 5 * time.Second, true},
		"the server's is behind": {0, -25 * time.Second, false},
		"they agree":             {time.Second, 2 * time.Second, false},
	} {
		pair := flowtest.NewPair()
		connectPair(t, pair)
		f := factsOf(pair)
		counts(&f, 21504, 0, 0, 0)
		f.Sides[flows.A].ClockAhead, f.Sides[flows.B].ClockAhead = c.client, c.server
		for _, r := range check.Diagnose(f, new(before(f))) {
			if r.ID != check.UDPPath || r.State != check.Fail {
				continue
			}
			text := strings.Join(append(r.Evidence, command.Join(r.Fix, "\n").String()), "\n")
			if got := strings.Contains(text, "the clock of the client rome is 30s behind the clock of the server milan"); got != c.want || got != strings.Contains(text, "by NTP") {
				t.Errorf("%s: got %s", name, text)
			}
			c.want = false
		}
		if c.want {
			t.Errorf("%s: no failure was found: the test sees nothing", name)
		}
	}
}

// If no range is left for a peer, the operator gives the reason, and the check the advice. The message of an
// earlier release's operator, which contains both, is shown unchanged.
func TestARangeThatIsNotGivenSaysWhy(t *testing.T) {
	for _, message := range []string{"no free prefix", "no free prefix; give the operator more ranges: liqo-tui install --pools"} {
		pair := flowtest.NewPair()
		connectPair(t, pair)
		f := factsOf(pair)
		conf := &f.Sides[flows.A].Configurations[0]
		conf.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured, Status: metav1.ConditionFalse, Reason: wire.ReasonNoFreeRange, Message: message,
		}}
		r := find(t, check.Diagnose(f, nil), check.Configured)
		if want := "the operator has assigned no addresses to milan: " + message; r.State != check.Fail || r.Summary != want {
			t.Errorf("got %s %q, want %q", r.State, r.Summary, want)
		}
		if len(r.Fix) != 1 || !r.Fix[0].Equal(f.Sides[flows.A].MoreRoom()) {
			t.Errorf("got advice %q", command.Join(r.Fix, "; "))
		}
	}
}

// Without policies, pods may still be cut off, unless Cilium's mode is known to allow this traffic.
func TestAHiddenModeOfCiliumIsNotTheDefault(t *testing.T) {
	for mode, want := range map[string]check.Outcome{"": check.Pass, "default": check.Pass, "never": check.Pass, "always": check.Inconclusive, policy.HiddenMode: check.Inconclusive} {
		pair := flowtest.NewPair()
		connectPair(t, pair)
		f := factsOf(pair)
		flows.Read(flows.AskPolicies{Side: flows.A}, policy.Facts{CiliumMode: mode}).Store(&f, f.At)
		if r := find(t, check.Diagnose(f, nil), check.Policies); r.State != want {
			t.Errorf("mode %q: got %s: %s", mode, r.State, r.Summary)
		}
	}
}

// The operator reports the missing ranges, and the check gives the command for this cluster.
func TestRangesThatInstallHasToStateAreInTheAdvice(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	for want, operator := range map[string]flows.OperatorFacts{
		"install --context kind-rome --pod-cidr CIDR --service-cidr CIDR": {Unstated: struct{ Pods, Services bool }{true, true}},
		"network reset --context kind-rome":                               {KeepsRange: true},
		"get pods,events":                                                 {},
	} {
		f := factsOf(pair)
		operator.Problem = "no ranges"
		f.Sides[flows.A].Operator = operator
		r := find(t, check.Diagnose(f, nil), check.Operator)
		if r.Summary != "no ranges" || len(r.Fix) != 1 || !strings.Contains(r.Fix[0].String(), want) {
			t.Errorf("got %q, %q, want %q", r.Summary, command.Join(r.Fix, "; "), want)
		}
	}
}

// A node that forwards a packet to a node port may replace its source. So the gateway may see a node or a pod
// of its own cluster as its client, and no firewall rule is needed for that address.
func TestNoRuleCallsTheServersOwnAddressTheClients(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	for _, own := range []string{"172.18.0.20:61234", "10.244.1.9:61234"} {
		f := factsOf(pair)
		f.Sides[flows.B].Nodes = []flows.NodeFacts{node("milan-1", "172.18.0.20", "")}
		counts(&f, 21504, 0, 0, 0)
		says(&f.Sides[flows.B], f.At, func(r *wire.Report) { r.Endpoint = own })
		rules := 0
		for _, r := range check.Diagnose(f, new(before(f))) {
			for _, fix := range r.Fix {
				if text := fix.String(); strings.HasPrefix(text, "firewall: allow UDP") && r.ID == check.UDPPath {
					if rules++; strings.Contains(text, "heard from there") || strings.Contains(text, strings.Split(own, ":")[0]+" →") {
						t.Errorf("%s: got %q", own, text)
					}
				}
			}
		}
		if rules == 0 {
			t.Error("no rule is given")
		}
	}
}
