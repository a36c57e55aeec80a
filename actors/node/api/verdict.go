package api

import (
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/verdict"
)

// PacketVerdict is an answer about a packet, with the names of apps.
func (n *Reader) PacketVerdict(p verdict.Packet, a verdict.Answer) nodeapi.PacketVerdict {
	out := nodeapi.PacketVerdict{From: addressText(p.Src), To: addressText(p.Dst), Protocol: nodeapi.ProtocolName(p.Proto),
		SourcePort: p.SrcPort, Name: string(p.Name),
		Port: p.DstPort, In: p.Port, Verdict: string(a.Verdict), Checks: []nodeapi.FlowCheck{}}
	for _, c := range a.Checks {
		x := nodeapi.FlowCheck{Direction: string(c.Direction), Rule: c.Rule, BuiltIn: string(c.BuiltIn),
			Text: c.BuiltIn.Text(), Allows: c.Allows, Limit: limitText(c.Limit),
			DependsOn: c.Depends, Observed: c.Observed}
		if c.Adapter.AppUUID != uuid.Nil {
			x.Adapter, x.Name = adapterText(c.Adapter), n.appName(c.Adapter.AppUUID)
		}
		out.Checks = append(out.Checks, x)
	}
	if r := a.Route; r != nil {
		out.Route = &nodeapi.PacketRoute{Name: r.Name, Destination: r.Destination.String(),
			Gateway: addressText(r.Gateway), Port: r.Port, Shared: r.Shared}
	}
	if !a.Allowed() {
		return out
	}
	out.Arrives, out.Source, out.NATPort = string(a.To), addressText(a.Src), a.NATPort
	out.Destination, out.DestinationPort = addressText(a.Dst), a.DstPort
	if a.To == verdict.App {
		out.Arrives = "adapter/" + adapterText(a.Adapter)
	}
	return out
}

func (n *Reader) appName(app uuid.UUID) string {
	c, _ := n.Topics.AppConfig.Get("", app.String())
	return c.DisplayName
}

func adapterText(k netinst.AdapterKey) string { return AdapterID(k.AppUUID.String(), k.Index) }

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// limitText is a limit as "10/s, burst 5"; "" for none.
func limitText(l netinst.RateLimit) string {
	if l.Packets == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%.1s, burst %d", l.Packets, l.Per, l.Burst)
}

// FlowChanges are classes of flows, with the names of apps: of those that a config has, else of the current ones.
func (n *Reader) FlowChanges(classes []verdict.FlowClass,
	apps map[uuid.UUID]appnet.AppNetworkConfig) nodeapi.FlowChanges {
	named := func(k netinst.AdapterKey) (string, string) {
		if name := apps[k.AppUUID].DisplayName; name != "" {
			return "adapter/" + adapterText(k), name
		}
		return "adapter/" + adapterText(k), n.appName(k.AppUUID)
	}
	out := nodeapi.FlowChanges{LeftOut: max(0, len(classes)-nodeapi.MaxFlowChanges)}
	for _, c := range classes[:len(classes)-out.LeftOut] {
		x := nodeapi.FlowChange{Verdict: string(verdict.Deny), From: string(c.From), To: string(c.To),
			Mapped: addressText(c.Mapped)}
		if c.Opens {
			x.Verdict = string(verdict.Allow)
		}
		switch {
		case c.From != verdict.App:
			x.To, x.ToName = named(c.Adapter)
		case c.ToAdapter.AppUUID != uuid.Nil:
			x.To, x.ToName = named(c.ToAdapter)
		}
		switch c.From {
		case verdict.App:
			x.From, x.FromName = named(c.Adapter)
		case verdict.Outside:
			x.From = "port/" + c.Port
		}
		if c.Host != "" {
			x.Remote = []string{string(c.Host)}
		}
		for i, r := range c.Remote {
			if i == nodeapi.MaxRemotes {
				x.Remote = append(x.Remote, fmt.Sprintf("and %d more", len(c.Remote)-i))
				break
			}
			x.Remote = append(x.Remote, r.String())
		}
		for _, f := range c.Flows {
			x.Flows = append(x.Flows, f.String())
		}
		out.List = append(out.List, x)
	}
	return out
}
