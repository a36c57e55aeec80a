package manager

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

func testNetwork(gen uint64) netinst.NetworkInstanceConfig {
	return netinst.NetworkInstanceConfig{
		UUID: niA, DisplayName: "lan", Type: netinst.Local, Port: "wan", SpoofGuard: true, Generation: gen,
		IPv4: netinst.IPv4Config{
			Subnet: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.1"),
			DHCPFirst: netip.MustParseAddr("10.1.0.128"), DHCPLast: netip.MustParseAddr("10.1.0.254"),
		},
	}
}

func inactive(c netinst.NetworkInstanceConfig) netinst.NetworkInstanceConfig {
	c.Inactive = true
	return c
}

func testAdapter(app uuid.UUID, version uint64, activate bool) netinst.AppAdapterConfig {
	return netinst.AppAdapterConfig{
		AppUUID: app, TargetVersion: version, Activate: activate,
		Spec: netinst.AdapterSpec{NetworkInstance: niA, Netns: "ns-" + app.String()[len(app.String())-1:],
			IfName: "eth0", Hostname: "web"},
	}
}

func testPort() []netinst.PortStatus {
	return []netinst.PortStatus{{
		PortConfig: netinst.PortConfig{Label: "wan", IfName: "eth0", Uplink: true,
			DNSServers: []netip.Addr{netip.MustParseAddr("192.0.2.53")}}, Exists: true, Up: true, LinkMTU: 1500,
		Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
		DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))},
	}}
}

func oneAddress(c netinst.NetworkInstanceConfig) netinst.NetworkInstanceConfig {
	c.IPv4.DHCPLast = c.IPv4.DHCPFirst
	return c
}

func withRoute(c netinst.NetworkInstanceConfig, gateway string) netinst.NetworkInstanceConfig {
	c.Routes = []netinst.StaticRoute{{Name: "lab", Destination: netip.MustParsePrefix("198.18.0.0/15"),
		Gateway: netip.MustParseAddr(gateway)}}
	return c
}

func alsoAt(ports []netinst.PortStatus, addr string) []netinst.PortStatus {
	ports[0].Addresses = append(ports[0].Addresses, netip.MustParsePrefix(addr))
	return ports
}

// text formats effects as a sentence. Timers and JournalLeases appear only when they are alone.
func text(effs []Effect) string {
	var out []string
	for _, e := range effs {
		switch e := e.(type) {
		case PublishNetwork:
			s := "ni " + string(e.Status.State)
			if e.Status.Error != "" {
				s += fmt.Sprintf(" (%s)", e.Status.Error)
			}
			if e.Status.Warning != "" {
				s += fmt.Sprintf(" [%s]", e.Status.Warning)
			}
			for _, p := range e.Status.Parts {
				s += fmt.Sprintf(" {%s %s}", strings.TrimSpace(p.Kind+" "+p.Name), strings.TrimSpace(string(p.State)+" "+p.Error))
			}
			out = append(out, s)
		case WithdrawNetwork:
			out = append(out, "ni withdrawn")
		case PublishAdapter:
			s := fmt.Sprintf("adapter %s v%d activated=%v", short(e.Status.Key()), e.Status.TargetVersion, e.Status.Activated)
			if e.Status.Error != "" {
				s += fmt.Sprintf(" (%s)", e.Status.Error)
			}
			if w := e.Status.Link.DroppedText(); w != "" {
				s += fmt.Sprintf(" [%s]", w)
			}
			out = append(out, s)
		case WithdrawAdapter:
			out = append(out, "adapter "+short(e.Key)+" withdrawn")
		case Apply:
			what := "something"
			if len(e.Want) == 0 {
				what = "nothing"
			}
			if e.Full {
				what += " full"
			}
			out = append(out, fmt.Sprintf("apply#%d %s", e.Seq.N, what))
		case Done:
			out = append(out, "done")
		}
	}
	return strings.Join(out, ", ")
}

func short(k netinst.AdapterKey) string {
	s := k.AppUUID.String()
	return fmt.Sprintf("app%s#%d", s[len(s)-1:], k.Index)
}

type managerStep struct {
	event Event
	want  string
}

func applied(n uint64, fs ...netstate.OpFailure) Applied {
	return Applied{Seq: ApplySeq{7, n}, Failures: fs}
}

func fail(kind netstate.Kind, name, err string) netstate.OpFailure {
	return netstate.OpFailure{ID: netstate.ID{Kind: kind, Name: name}, Err: err}
}

// at returns a time for events whose order matters.
func at(second int64) time.Time { return time.Unix(second, 0) }

// begun is a network that is Present with one apply behind it.
func begun(more ...managerStep) []managerStep {
	return append([]managerStep{
		{ApplierReady{}, ""},
		{PortsChanged{Ports: testPort()}, ""},
		{ConfigChanged{Config: testNetwork(1)}, ""},
		{AdaptersKnown{}, ""},
		{Synchronized{}, "ni Creating, apply#1 something full"},
		{applied(1), "ni Present"},
	}, more...)
}
