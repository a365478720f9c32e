package tui

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// settingsScreen asks how the clusters are to be connected. What was typed
// stays, also in fields that do not apply now, and texts that are no values.
type settingsScreen struct {
	focus    settingID
	draft    flows.Params // of the choices; texts are not in it yet
	texts    [settingCount]line
	problems [settingCount]string
	chosen   flows.Fields // that differ from what was offered
	explain  bool
}

type settingID uint8

const (
	settingIDA settingID = iota
	settingIDB
	settingServer
	settingService
	settingPort
	settingNodePort
	settingLoadBalancerIP
	settingClientAddress
	settingClientPort
	settingMTU
	settingWait
	settingCount
)

// setting is one field of the form.
type setting struct {
	id    settingID
	label string
	field flows.Fields // that it sets
	// empty is what no text stands for; a choice has none.
	empty   string
	explain string
	// options are the choices; choose takes one, and choice is the present one.
	options []string
	choose  func(p *flows.Params, option int)
	choice  func(p flows.Params) int
	// get writes the value as a text, and set reads it.
	get func(p flows.Params) string
	set func(p *flows.Params, text string) error
	// applies reports whether the field means anything with the choices so far.
	applies func(p flows.Params) bool
}

var serviceTypes = []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP}

// waitLevels are in the order of how much they wait for.
var waitLevels = []flows.WaitLevel{flows.WaitConnected, flows.WaitVerified, flows.WaitNone}

func always(flows.Params) bool { return true }

func offered(service corev1.ServiceType) func(flows.Params) bool {
	return func(p flows.Params) bool { return p.ServiceType == service }
}

// settings are the fields in their order. The names are those of the clusters.
func (m Model) settings() []setting {
	name := func(s flows.Side) string {
		return s.String() + " " + cmp.Or(string(m.id(s)), m.contextName(m.on(s)))
	}
	return append(m.idSettings(), []setting{
		{
			id: settingServer, label: "Gateway server on", field: flows.FieldServer, applies: always,
			options: []string{name(flows.A), name(flows.B)},
			choose:  func(p *flows.Params, i int) { p.Server = flows.Side(i) },
			choice:  func(p flows.Params) int { return int(p.Server) },
			explain: "The server waits for the other cluster's gateway to dial it. Choose the cluster that the other one can reach: one with a public address, or without a firewall in front. Traffic flows both ways in either case.",
		},
		{
			id: settingService, label: "Reached through", field: flows.FieldServiceType, applies: always,
			options: []string{"LoadBalancer", "NodePort", "ClusterIP"},
			choose:  func(p *flows.Params, i int) { p.ServiceType = serviceTypes[i] },
			choice:  func(p flows.Params) int { return max(0, slices.Index(serviceTypes, p.ServiceType)) },
			explain: "The type of the Service in front of the gateway server. LoadBalancer needs a provider of load balancers and survives the loss of a node. NodePort needs nothing, but the client dials one node's address: if that node goes, the tunnel does. ClusterIP is for clusters that reach each other's Service addresses, or an address that you forward yourself.",
		},
		{
			id: settingPort, label: "UDP port", field: flows.FieldPort, applies: always,
			get:     func(p flows.Params) string { return strconv.Itoa(int(p.Port)) },
			set:     func(p *flows.Params, text string) (err error) { p.Port, err = parsePort(text); return err },
			explain: "The port of the gateway server's Service. With a NodePort the client dials the node port instead.",
		},
		{
			id: settingNodePort, label: "Node port", field: flows.FieldNodePort, applies: offered(corev1.ServiceTypeNodePort), empty: "Kubernetes chooses",
			get:     func(p flows.Params) string { return numberOr(int(p.NodePort), "") },
			set:     func(p *flows.Params, text string) (err error) { p.NodePort, err = parseOptionalPort(text); return err },
			explain: "The UDP port on the node that the client dials. Kubernetes gives out 30000 to 32767, unless the cluster says otherwise. Fix it if a firewall has to be opened for it.",
		},
		{
			id: settingLoadBalancerIP, label: "Load balancer IP", field: flows.FieldLoadBalancerIP, applies: offered(corev1.ServiceTypeLoadBalancer), empty: "the provider chooses",
			get: func(p flows.Params) string { return p.LoadBalancerIP },
			set: func(p *flows.Params, text string) (err error) {
				p.LoadBalancerIP, err = parseOptionalIP(text)
				return err
			},
			explain: "The address to ask the load balancer's provider for. Not every provider listens.",
		},
		{
			id: settingClientAddress, label: "Client dials", field: flows.FieldClientAddress, applies: always, empty: "the server's own address",
			get: func(p flows.Params) string { return p.ClientAddress },
			set: func(p *flows.Params, text string) (err error) {
				p.ClientAddress, err = parseOptionalHost(text)
				return err
			},
			explain: "Another address or DNS name for the server, if the client can't use the server's own: behind a NAT, or a name that stays when nodes come and go.",
		},
		{
			id: settingClientPort, label: "at UDP port", field: flows.FieldClientPort, applies: always, empty: "the server's own port",
			get: func(p flows.Params) string { return numberOr(int(p.ClientPort), "") },
			set: func(p *flows.Params, text string) (err error) {
				p.ClientPort, err = parseOptionalPort(text)
				return err
			},
			explain: "Another port for the server, if a NAT in front of it has one of its own.",
		},
		{
			id: settingMTU, label: "MTU", field: flows.FieldMTU, applies: always,
			get:     func(p flows.Params) string { return strconv.Itoa(p.MTU) },
			set:     func(p *flows.Params, text string) (err error) { p.MTU, err = parseMTU(text); return err },
			explain: "The largest packet in the tunnel, in bytes. WireGuard adds 60 on IPv4, so it is at most the MTU of the network between the clusters less 60. Too large a value shows as connections that open and then hang. The gateways look for the largest packet that comes through, and never send more.",
		},
		{
			id: settingWait, label: "Done when", applies: always,
			options: []string{"connected", "verified", "applied"},
			choose:  func(p *flows.Params, i int) { p.Wait = waitLevels[i] },
			choice:  func(p flows.Params) int { return max(0, slices.Index(waitLevels, p.Wait)) },
			explain: "Connected: each gateway answers the other's pings. Verified: besides, a packet was measured from a pod of one cluster to a pod of the other. Applied: don't wait for anything.",
		},
	}...)
}

// idSettings name the clusters that have no ID yet, because nothing is
// installed there.
func (m Model) idSettings() []setting {
	var out []setting
	for _, s := range []flows.Side{flows.A, flows.B} {
		facts := m.on(s).good
		if m.options.Install == nil || !facts.Installable() || facts.ID != "" {
			continue
		}
		out = append(out, setting{
			id: settingIDA + settingID(s), label: "Cluster ID of " + s.String(), applies: always,
			get: func(p flows.Params) string {
				if p.Install[s] == nil {
					return ""
				}
				return string(p.Install[s].ClusterID())
			},
			set: func(p *flows.Params, text string) (err error) {
				if err := render.ClusterID(text).Validate(); err != nil {
					return err
				}
				p.Install[s], err = m.options.Install(facts, render.ClusterID(text))
				return err
			},
			explain: "The operator is installed there first. Other clusters will know it by this ID: lower case letters, digits and dashes. It can't be changed later without ending all its connections.",
		})
	}
	return out
}

func numberOr(n int, zero string) string {
	if n == 0 {
		return zero
	}
	return strconv.Itoa(n)
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("want a port, 1 to 65535")
	}
	return uint16(n), nil
}

func parseOptionalPort(text string) (uint16, error) {
	if text == "" {
		return 0, nil
	}
	return parsePort(text)
}

func parseOptionalIP(text string) (string, error) {
	if _, err := netip.ParseAddr(text); err != nil && text != "" {
		return "", errors.New("want an IP address, such as 192.0.2.7")
	}
	return text, nil
}

// hostName is what RFC 1123 calls one.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

func parseOptionalHost(text string) (string, error) {
	if _, err := netip.ParseAddr(text); err != nil && text != "" && !hostName.MatchString(text) {
		return "", errors.New("want an IP address or a DNS name, without a port")
	}
	return text, nil
}

func parseMTU(text string) (int, error) {
	n, err := strconv.Atoi(text)
	p := flows.Defaults()
	if p.MTU = n; err != nil || p.Validate() != nil {
		return 0, errors.New("want a number of bytes, 576 to 9000")
	}
	return n, nil
}

// openSettings fills the form with what holds now.
func (m Model) openSettings() (Model, tea.Cmd) {
	s := settingsScreen{draft: m.params, explain: m.form.explain, focus: settingServer}
	for _, f := range m.settings() {
		if f.get != nil {
			s.texts[f.id] = line{}.insert(f.get(m.params))
		}
	}
	m.form, m.screen, m.goal = s, screenSettings, Connect
	return m, nil
}

// shownSettings are the fields that apply.
func (m Model) shownSettings() []setting {
	return slices.DeleteFunc(m.settings(), func(f setting) bool { return !f.applies(m.form.draft) })
}

// focused is the field that keys go to.
func (m Model) focused() setting {
	fields := m.shownSettings()
	return fields[max(0, slices.IndexFunc(fields, func(f setting) bool { return f.id == m.form.focus }))]
}

func (m Model) settingsCommands() []command {
	k := m.keys
	commands := []command{
		{Binding: named(k.enter, "see the plan"), do: Model.submitSettings},
		{Binding: k.back, do: Model.leaveSettings},
		{Binding: k.explain, do: func(m Model) (Model, tea.Cmd) { m.form.explain = !m.form.explain; return m, nil }},
		{Binding: k.previous, do: func(m Model) (Model, tea.Cmd) { return m.moveSetting(-1), nil }, quiet: true},
		{Binding: k.next, do: func(m Model) (Model, tea.Cmd) { return m.moveSetting(+1), nil }, quiet: true},
	}
	if m.focused().options != nil {
		commands = append(commands,
			command{Binding: k.left, do: func(m Model) (Model, tea.Cmd) { return m.chooseSetting(-1), nil }, quiet: true},
			command{Binding: k.right, do: func(m Model) (Model, tea.Cmd) { return m.chooseSetting(+1), nil }},
		)
	}
	return commands
}

// updateSettings takes a key that edits a text; ok is false for any other.
func (m Model) updateSettings(msg tea.KeyPressMsg) (_ Model, ok bool) {
	f := m.focused()
	if f.options != nil || msg.String() == "?" {
		return m, false // none of the texts can have one, and it asks for help
	}
	edited, ok := m.form.texts[f.id].update(msg)
	return m.typed(f, edited), ok
}

// typed puts a text into a field. A problem goes as soon as the text is a value.
func (m Model) typed(f setting, text line) Model {
	if text.String() != m.form.texts[f.id].String() {
		m.form.chosen |= f.field
	}
	m.form.texts[f.id] = text
	if m.form.problems[f.id] != "" {
		m.form = m.form.check(f)
	}
	return m
}

// check reads the text of a field.
func (s settingsScreen) check(f setting) settingsScreen {
	if f.set == nil {
		return s
	}
	s.problems[f.id] = ""
	if err := f.set(&s.draft, strings.TrimSpace(s.texts[f.id].String())); err != nil {
		s.problems[f.id] = err.Error()
	}
	return s
}

func (m Model) moveSetting(by int) Model {
	fields, f := m.shownSettings(), m.focused()
	m.form = m.form.check(f)
	i := slices.IndexFunc(fields, func(g setting) bool { return g.id == f.id })
	m.form.focus = fields[(i+by+len(fields))%len(fields)].id
	return m
}

func (m Model) chooseSetting(by int) Model {
	f := m.focused()
	i := f.choice(m.form.draft)
	if next := min(max(i+by, 0), len(f.options)-1); next != i {
		f.choose(&m.form.draft, next)
		m.form.chosen |= f.field
	}
	return m
}

// submitSettings shows the plan, unless a field has a problem.
func (m Model) submitSettings() (Model, tea.Cmd) {
	p := m.form.draft
	p.NodePort, p.LoadBalancerIP = 0, "" // unless their fields apply
	m.form.draft = p
	for _, f := range slices.Backward(m.shownSettings()) {
		if m.form = m.form.check(f); m.form.problems[f.id] != "" {
			m.form.focus = f.id
		}
	}
	for _, f := range m.shownSettings() {
		if m.form.problems[f.id] != "" {
			m.note = fmt.Sprintf("%s: %s.", f.label, m.form.problems[f.id])
			return m, nil
		}
	}
	m.form.draft.Given |= m.form.chosen
	m.wanted = m.form.draft
	m.screen, m.plan = screenPlan, planScreen{pinned: true}
	return m.replan(), nil
}

func (m Model) leaveSettings() (Model, tea.Cmd) {
	if m.fixed {
		return m.toLive()
	}
	m.screen = screenPreflight
	return m.judge(), nil
}

// suggestion says what the clusters make likely for a field, and why.
func (m Model) suggestion(id settingID) string {
	facts := m.facts()
	switch id {
	case settingServer:
		side, why := flows.SuggestServer(facts)
		return fmt.Sprintf("Suggested: %s, because %s.", side, why)
	case settingService:
		kind, why := flows.SuggestServiceType(facts.Side(m.form.draft.Server))
		return fmt.Sprintf("Suggested: %s, because %s.", kind, why)
	default:
		return ""
	}
}

const labelWidth = 20

func (m Model) settingsBody(height int) []string {
	t := m.theme
	var lines []string
	at := 0
	focus := m.focused()
	for _, f := range m.shownSettings() {
		if f.id == focus.id {
			at = len(lines)
		}
		lines = append(lines, m.settingLine(f, f.id == focus.id))
		if problem := m.form.problems[f.id]; problem != "" {
			for _, text := range t.wrap(t.glyphs[markFail]+" "+problem, m.width-labelWidth-2, 0) {
				lines = append(lines, pad("", labelWidth+2)+t.marks[markFail].Render(text))
			}
		}
	}
	foot := m.settingsFoot(focus)
	if len(lines)+len(foot) > height && !m.form.explain {
		foot = nil
	}
	lines = m.window(lines, at, max(1, height-len(foot)))
	for len(lines)+len(foot) < height {
		lines = append(lines, "")
	}
	return append(lines, foot...)
}

func (m Model) settingLine(f setting, focused bool) string {
	t := m.theme
	label := t.label.Render(pad(f.label, labelWidth))
	room := m.width - labelWidth - 2
	if f.options == nil {
		text := m.form.texts[f.id]
		value := text.view(t, room, focused)
		if text.String() == "" && f.empty != "" {
			value += t.faint.Render(t.fit(f.empty, room-2))
		}
		return m.cursor(focused, label+value)
	}
	chosen := f.choice(m.form.draft)
	words := make([]string, len(f.options))
	for i, option := range f.options {
		words[i] = t.radio[0] + " " + t.plain(option)
		if i == chosen {
			words[i] = t.radio[1] + " " + t.plain(option)
		}
	}
	value := strings.Join(words, "  ")
	if len([]rune(value)) > room {
		value = fmt.Sprintf("%s (%d of %d)", t.plain(f.options[chosen]), chosen+1, len(f.options))
	}
	return m.cursor(focused, label+value)
}

// settingsFoot explains the field, or says what the choices mean.
func (m Model) settingsFoot(f setting) []string {
	t := m.theme
	lines := []string{m.ruleLine(f.label)}
	if m.form.explain || m.height >= 20 {
		lines = append(lines, t.wrap(f.explain, m.width, 0)...)
		if why := m.suggestion(f.id); why != "" {
			lines = append(lines, t.wrap(why, m.width, 0)...)
		}
		return lines
	}
	return append(lines, t.faint.Render(called(m.keys.explain)+" explains this field"))
}
