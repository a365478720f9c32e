package peer

import (
	"fmt"
	"net/netip"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// chooseWay decides how the consumer reaches the provider's API server, if the admin has not decided.
// The answer is "through the tunnel" if a pod of the consumer gets no answer without the tunnel. The
// step is nil if there is nothing to decide.
func (p *pair) chooseWay() (step *flows.Step, notes []string) {
	tried, url := p.Facts.Sides[p.con].APITrial, ""
	if l := p.lending(p.pro); p.params.InBand == "" && p.params.ProxyURL == "" && len(l.Proxies) > 0 && (tried.Asked() || p.accepted() == nil) {
		url = p.apiServer()
	}
	if url == "" {
		return nil, nil
	}
	s := p.wait(p.con, "way", fmt.Sprintf("way to the API server of %s", p.id(p.pro)), check.Identity)
	switch {
	case !tried.Asked():
		s.Asks, s.Reason = flows.AskAPI{Side: p.con, URL: url}, "a pod asks it before anything is changed"
		return &s, []string{fmt.Sprintf("if pods of %s don't reach %s, access goes through the tunnel, as with --in-band", p.id(p.con), url)}
	case tried.Unknown() != "":
		s.Reason = trial.NotTried + tried.Unknown()
	case tried.Value().Problem != "":
		problem := tried.Value().Problem
		p.params.InBand = yes
		s.Reason = "through the tunnel: " + problem
		notes = append(notes, fmt.Sprintf("access goes through the tunnel, since pods of %s don't reach %s: %s", p.id(p.con), url, problem))
	default:
		s.Reason = "a pod was answered by " + url
	}
	s.Status, s.Code = flows.Done, ""
	return &s, notes
}

// apiServer returns the URL of the API server that the provider will give to the consumer; "" if it is
// unknown. If the provider's operator finds the URL itself, the URL is known only if an admin has set
// one.
func (p pair) apiServer() string {
	if p.can(p.pro).FindAPIServer {
		return p.Facts.Sides[p.pro].Operator.APIServer
	}
	l := p.lending(p.pro)
	return l.APIServer()
}

// unfitProxy returns the reason that access through the tunnel can't use the provider's proxy; "" if it
// can, or if it needs no proxy.
func (p pair) unfitProxy() (reason string, hint command.Hint) {
	if p.params.InBand != yes || p.params.ProxyURL != "" {
		return "", command.Hint{}
	}
	l, name := p.lending(p.pro), fmt.Sprintf("IP %s in namespace %s", peering.ProxyIPName, p.Facts.Sides[p.pro].Namespace)
	hint = command.Text("enable Liqo's proxy there (Helm value proxy.enabled), or name another proxy with --proxy-url")
	switch {
	case len(l.Proxies) > 0:
	case p.can(p.pro).MakeProxy:
		return "", command.Hint{} // the operator creates the proxy's IP shortly after the installation
	default:
		return fmt.Sprintf("%s has no proxy for --in-band: there is no %s, or it may not be read", p.id(p.pro), name), hint
	}
	for i := range l.Proxies {
		if ip := &l.Proxies[i]; ip.Status.IP != "" || p.age(p.pro, ip) < controllerTime {
			return "", command.Hint{}
		}
	}
	return fmt.Sprintf("the proxy of %s has no address in its external range: %s", p.id(p.pro), name), p.readLog(p.pro, manager)
}

// proxy returns the URL of the proxy through which the consumer reaches the provider's API server; ""
// if it uses none. missing names an object that has to exist before the URL is known.
func (p pair) proxy() (url, missing string) {
	live := p.accepted()
	switch {
	case p.params.ProxyURL != "":
		return p.params.ProxyURL, ""
	case p.params.InBand == "" && live != nil && live.Spec.ProxyURL != nil:
		return *live.Spec.ProxyURL, ""
	case p.params.InBand != yes:
		return "", ""
	}
	for _, ip := range p.lending(p.pro).Proxies {
		address, err := netip.ParseAddr(string(ip.Status.IP))
		if err != nil {
			continue
		}
		conf := p.Ends[p.con].Configuration
		if conf == nil || !flows.CIDRsConfigured(conf) {
			return "", fmt.Sprintf("needs %s's addresses on %s", p.id(p.pro), p.id(p.con))
		}
		for i, from := range conf.Spec.Remote.CIDR.External {
			f, ferr := netip.ParsePrefix(string(from))
			to, terr := netip.ParsePrefix(string(conf.Status.Remote.CIDR.External[i]))
			if ferr != nil || terr != nil || !f.Contains(address) {
				continue
			}
			if mapped, err := ipam.Remap(address, f, to); err == nil {
				return "http://" + mapped.String() + ":" + wire.ProxyPort, ""
			}
		}
		return "", fmt.Sprintf("%s's proxy %s is not in its external range", p.id(p.pro), address)
	}
	missing = fmt.Sprintf("needs the address of %s's proxy: IP %s in its namespace %s", p.id(p.pro), peering.ProxyIPName, p.Facts.Sides[p.pro].Namespace)
	if p.runsOurs(p.pro) {
		missing += fmt.Sprintf(", which the operator makes; if the operator is of an older release, upgrade it: %s", p.Facts.Sides[p.pro].Ours("install"))
	}
	return "", missing
}
