package verdict

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

func key(name string) netinst.AdapterKey {
	return netinst.AdapterKey{AppUUID: uuid.NewSHA1(uuid.Nil, []byte(name))}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func adapter(name, ip string, acl ...netinst.ACLRule) netinst.Adapter {
	return netinst.Adapter{Config: netinst.AppAdapterConfig{AppUUID: key(name).AppUUID, Activate: true,
		Spec: netinst.AdapterSpec{ACL: acl}}, Lease: netinst.Lease{IP: addr(ip)}}
}

func port(label, own, gateway string) netinst.PortStatus {
	return netinst.PortStatus{
		PortConfig: netinst.PortConfig{Label: label, IfName: netinst.IfName(label), Uplink: true},
		Exists:     true, Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix(own)},
		DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(addr(gateway))},
	}
}

// rule is an allowing rule of both directions, changed by further words.
func rule(name string, change ...func(*netinst.ACLRule)) netinst.ACLRule {
	r := netinst.ACLRule{Name: name, Direction: netinst.Both, Action: netinst.Allow}
	for _, f := range change {
		f(&r)
	}
	return r
}

func to(prefix string) func(*netinst.ACLRule) {
	return func(r *netinst.ACLRule) { r.IP = netip.MustParsePrefix(prefix) }
}

func proto(p string, ports ...netinst.PortRange) func(*netinst.ACLRule) {
	return func(r *netinst.ACLRule) { r.Protocol, r.Ports = p, ports }
}

func local(ports ...netinst.PortRange) func(*netinst.ACLRule) {
	return func(r *netinst.ACLRule) { r.LocalPort = ports }
}

func label(l string) func(*netinst.ACLRule) { return func(r *netinst.ACLRule) { r.PortLabel = l } }
func drops(r *netinst.ACLRule)              { r.Action = netinst.Drop }
func egress(r *netinst.ACLRule)             { r.Direction = netinst.Egress }
func ingress(r *netinst.ACLRule)            { r.Direction = netinst.Ingress }

// testInputs are a local network with uplinks, another one, a switch, and networks that are not usable.
func testInputs() []netinst.Input {
	ports := []netinst.PortStatus{port("lan", "198.18.0.2/24", "198.18.0.1"), port("wan", "192.0.2.2/24", "192.0.2.1"),
		{PortConfig: netinst.PortConfig{Label: "bare", IfName: "bare", Labels: []string{"segment"}}, Exists: true, Up: true}}
	local4 := func(subnet, gateway string, port string) netinst.NetworkInstanceConfig {
		return netinst.NetworkInstanceConfig{Type: netinst.Local, SpoofGuard: true, Port: port, IPv4: netinst.IPv4Config{
			Subnet: netip.MustParsePrefix(subnet), Gateway: addr(gateway)}}
	}
	one := netinst.Input{Config: local4("10.1.0.0/24", "10.1.0.1", "uplink"),
		Uplinks: netinst.Uplinks{Chosen: map[string]string{"uplink": "wan"}, Failing: map[string]bool{"lan": true}},
		Adapters: []netinst.Adapter{
			adapter("web", "10.1.0.10", rule("tools", to("10.1.0.20/32"), egress, proto("tcp", netinst.PortRange{First: 22, Last: 23})),
				rule("no-ping", proto("icmp"), drops, egress), rule("far", egress, proto("udp"), label("lan")),
				rule("host", to("192.0.2.2/32")), rule("all", to("0.0.0.0/0"))),
			adapter("db", "10.1.0.20", rule("ssh", ingress, proto("tcp"), local(netinst.PortRange{First: 22, Last: 22})),
				rule("six", to("2001:db8::/32"), drops), rule("odd", proto("99"))),
			adapter("mute", "10.1.0.30")}}
	one.Config.Routes = []netinst.StaticRoute{
		{Name: "branch", Destination: netip.MustParsePrefix("203.0.113.0/24"), Gateway: addr("198.18.0.1"), Port: "lan"},
		{Name: "dear", Destination: netip.MustParsePrefix("203.0.113.0/24"), Gateway: addr("192.0.2.1"), Cost: 9},
		{Name: "bare", Destination: netip.MustParsePrefix("198.51.100.0/24"), Port: "bare"},
		{Name: "inside", Destination: netip.MustParsePrefix("172.16.0.0/16"), Gateway: addr("10.1.0.20")},
		{Name: "off", Destination: netip.MustParsePrefix("172.17.0.0/16"), Gateway: addr("192.0.9.9"), Port: "wan"}}
	air := netinst.Input{Config: local4("10.2.0.0/24", "10.2.0.1", ""),
		Adapters: []netinst.Adapter{adapter("air", "10.2.0.10", rule("all"))}}
	open := netinst.Input{Config: local4("10.5.0.0/24", "10.5.0.1", "lan"),
		Adapters: []netinst.Adapter{adapter("open", "10.5.0.10", rule("all"))}}
	open.Config.SpoofGuard = false
	off := netinst.Input{Config: local4("10.3.0.0/24", "10.3.0.1", "wan"),
		Adapters: []netinst.Adapter{adapter("off", "10.3.0.10", rule("all"))}}
	off.Config.Inactive = true
	clash := netinst.Input{Config: local4("10.4.0.0/24", "10.4.0.1", "wan"), Overlap: overlap.Overlap{Clash: "10.4.0.9/24"},
		Adapters: []netinst.Adapter{adapter("clash", "10.4.0.10", rule("all")), adapter("clash2", "10.4.0.20", rule("all"))}}
	sw := netinst.Input{Config: netinst.NetworkInstanceConfig{Type: netinst.Switch, SpoofGuard: true, Port: "segment"},
		Adapters: []netinst.Adapter{adapter("left", "0.0.0.0", rule("all", to("10.9.0.0/16"))),
			adapter("right", "0.0.0.0", rule("ssh", ingress, proto("tcp"), local(netinst.PortRange{First: 22, Last: 22})))}}
	sw.Adapters[0].ObservedAddresses = []netip.Addr{addr("10.9.0.7"), addr("10.9.0.1")}
	sw.Adapters[1].ObservedAddresses = []netip.Addr{addr("10.9.0.2")}
	list := []netinst.Input{one, air, open, off, clash, sw}
	for i := range list {
		list[i].Ports = ports
	}
	return list
}

func app(name, dst string, proto uint8, ports ...uint16) Packet {
	p := Packet{From: App, Adapter: key(name), Dst: addr(dst), Proto: proto, SrcPort: 40000}
	if len(ports) > 0 {
		p.DstPort = ports[0]
	}
	if len(ports) > 1 {
		p.SrcPort = ports[1]
	}
	if proto == ICMP {
		p.ICMPType = EchoRequest
	}
	return p
}

func from(p Packet, src string) Packet { p.Src = addr(src); return p }

func outside(port, src, dst string, proto uint8, dport uint16) Packet {
	return Packet{From: Outside, Port: port, Src: addr(src), Dst: addr(dst), Proto: proto, SrcPort: 40000, DstPort: dport}
}

func node(src, dst string, proto uint8, ports ...uint16) Packet {
	p := app("", dst, proto, ports...)
	if p.From = Node; src != "" {
		p.Src = addr(src)
	}
	return p
}

func TestEvaluate(t *testing.T) {
	w := New(testInputs(), []netip.Addr{addr("192.168.7.7")})
	for what, x := range map[string]struct {
		p    Packet
		want string // verdict, what decided, where it arrives, from which address
	}{
		"a rule allows the way out":               {app("web", "8.8.8.8", TCP, 443), "translate all outside wan 192.0.2.2"},
		"the first rule that matches decides":     {app("web", "8.8.8.8", ICMP), "deny no-ping"},
		"a rule for another port does not match":  {app("web", "8.8.8.8", UDP, 5000), "translate all outside wan 192.0.2.2"},
		"a rule for the port of a route does":     {app("web", "198.51.100.9", UDP, 5000), "translate all outside bare -"},
		"a route whose port fails is the last":    {app("web", "203.0.113.9", TCP, 1), "translate all outside wan 192.0.2.2"},
		"a route without its gateway is left out": {app("web", "172.17.0.1", TCP, 1), "translate all outside wan 192.0.2.2"},
		"both ends must allow":                    {app("web", "10.1.0.20", TCP, 22), "allow ssh app db 10.1.0.10"},
		"the receiver denies":                     {app("web", "10.1.0.20", TCP, 23), "deny implicit-drop"},
		"a protocol by its number":                {app("db", "10.1.0.10", 99), "allow all app web 10.1.0.20"},
		"a rule for IPv6 matches no IPv4":         {app("db", "10.1.0.10", TCP, 1), "deny implicit-drop"},
		"no rule allows":                          {app("mute", "8.8.8.8", TCP, 443), "deny implicit-drop"},
		"the node must be named":                  {app("web", "192.168.7.7", TCP, 22), "deny implicit-drop"},
		"the node is named":                       {app("web", "192.0.2.2", TCP, 22), "allow host node 10.1.0.10"},
		"a drop need not name the node":           {app("web", "192.0.2.2", ICMP), "deny no-ping"},
		"a port's broadcast address is the node":  {app("web", "192.0.2.255", UDP, 9), "deny implicit-drop"},
		"DNS":                                     {app("mute", "10.1.0.1", UDP, 53), "allow essentials node 10.1.0.30"},
		"DNS over TCP":                            {app("mute", "10.1.0.1", TCP, 53), "allow essentials node 10.1.0.30"},
		"ping of the gateway":                     {app("mute", "10.1.0.1", ICMP), "allow essentials node 10.1.0.30"},
		"another service of the gateway":          {app("mute", "10.1.0.1", TCP, 80), "deny implicit-drop"},
		"another protocol to the gateway":         {app("mute", "10.1.0.1", 99), "deny implicit-drop"},
		"DHCP before an address": {from(app("mute", "255.255.255.255", UDP, 67, 68), "0.0.0.0"),
			"allow essentials node 0.0.0.0"},
		"DHCP to the gateway":            {app("mute", "10.1.0.1", UDP, 67, 68), "allow essentials node 10.1.0.30"},
		"DHCP from another port":         {app("web", "10.1.0.1", UDP, 67, 69), "deny dhcp-guard"},
		"an answer of a DHCP server":     {app("web", "10.1.0.20", UDP, 68, 67), "deny dhcp-guard"},
		"a forged source":                {from(app("web", "8.8.8.8", TCP, 443), "10.1.0.20"), "deny spoof-guard"},
		"itself":                         {app("web", "10.1.0.10", TCP, 1), "deny own-address"},
		"nobody's address":               {app("web", "10.1.0.40", TCP, 1), "deny no-adapter"},
		"a broadcast":                    {app("web", "10.1.0.255", UDP, 9), "allow all segment 10.1.0.10"},
		"a broadcast without a rule":     {app("mute", "255.255.255.255", UDP, 9), "deny implicit-drop"},
		"a multicast":                    {app("web", "224.0.0.251", UDP, 5353), "allow all segment 10.1.0.10"},
		"an app that routes":             {app("web", "172.16.5.5", 99), "allow odd app db 10.1.0.10"},
		"another network":                {app("web", "10.2.0.10", TCP, 1), "deny other-network"},
		"the gateway of another":         {app("air", "10.1.0.1", UDP, 53), "deny implicit-drop"},
		"an air-gapped network":          {app("air", "8.8.8.8", TCP, 1), "deny no-route"},
		"loopback":                       {app("web", "127.0.0.1", TCP, 1), "deny not-routable"},
		"the unspecified address":        {app("web", "0.0.0.1", TCP, 1), "deny not-routable"},
		"no spoof guard":                 {from(app("open", "8.8.8.8", TCP, 1), "10.5.0.99"), "translate all outside lan 198.18.0.2"},
		"no spoof guard, foreign source": {from(app("open", "8.8.8.8", TCP, 1), "10.2.0.99"), "deny untranslatable"},
		"no spoof guard, the node's":     {from(app("open", "8.8.8.8", TCP, 1), "10.5.0.1"), "deny forged-source"},
		"no spoof guard, to the node":    {from(app("open", "10.5.0.1", UDP, 53), "192.0.2.2"), "deny forged-source"},
		"an inactive network":            {app("off", "8.8.8.8", TCP, 1), "deny not-active"},
		"an unknown app":                 {app("nobody", "8.8.8.8", TCP, 1), "deny not-active"},
		"a withdrawn network":            {app("clash", "8.8.8.8", TCP, 1), "deny withdrawn"},
		"its gateway":                    {app("clash", "10.4.0.1", UDP, 53), "deny withdrawn"},
		"its apps reach each other":      {app("clash", "10.4.0.20", TCP, 1), "allow all app clash2 10.4.0.10"},
		"IPv6":                           {app("web", "2001:db8::1", TCP, 1), "deny no-ipv6"},

		"from outside":                {outside("wan", "8.8.8.8", "10.1.0.20", TCP, 22), "allow ssh app db 8.8.8.8"},
		"from outside, denied":        {outside("wan", "8.8.8.8", "10.1.0.20", TCP, 23), "deny implicit-drop"},
		"by the port of a route":      {outside("lan", "8.8.8.8", "10.1.0.20", TCP, 22), "allow ssh app db 8.8.8.8"},
		"by a port of others":         {outside("wan", "8.8.8.8", "10.5.0.10", TCP, 22), "deny port-not-used"},
		"by no port":                  {outside("dsl", "8.8.8.8", "10.5.0.10", TCP, 22), "deny port-not-used"},
		"to a gateway":                {outside("wan", "8.8.8.8", "10.1.0.1", UDP, 53), "deny hidden-gateway"},
		"to nobody":                   {outside("wan", "8.8.8.8", "10.1.0.40", UDP, 53), "deny no-adapter"},
		"to an inactive network":      {outside("wan", "8.8.8.8", "10.3.0.10", UDP, 53), "deny not-active"},
		"from a network's address":    {outside("wan", "10.2.0.10", "10.1.0.20", TCP, 22), "deny forged-source"},
		"from the node's address":     {outside("wan", "192.0.2.2", "10.1.0.20", TCP, 22), "deny forged-source"},
		"from loopback":               {outside("wan", "127.0.0.1", "10.1.0.20", TCP, 22), "deny not-routable"},
		"to the node":                 {outside("wan", "8.8.8.8", "192.0.2.2", TCP, 22), "allow host node 8.8.8.8"},
		"to others":                   {outside("wan", "8.8.8.8", "8.8.4.4", TCP, 22), "deny not-for-networks"},
		"into a switch":               {outside("bare", "10.9.0.99", "10.9.0.2", TCP, 22), "allow ssh app right 10.9.0.99"},
		"into a switch, denied":       {outside("bare", "10.9.0.99", "10.9.0.2", TCP, 23), "deny implicit-drop"},
		"into a switch, to nobody":    {outside("bare", "10.9.0.99", "10.9.0.3", TCP, 23), "deny no-adapter"},
		"on a switch":                 {app("left", "10.9.0.2", TCP, 22), "allow ssh app right 10.9.0.1"},
		"on a switch, denied":         {app("left", "10.9.0.2", TCP, 23), "deny implicit-drop"},
		"on a switch, away":           {app("left", "10.9.0.3", TCP, 22), "allow all segment 10.9.0.1"},
		"on a switch, no rule":        {app("right", "10.9.0.3", TCP, 22), "deny implicit-drop"},
		"on a switch, itself":         {app("left", "10.9.0.7", TCP, 22), "deny own-address"},
		"DHCP on a switch":            {app("right", "255.255.255.255", UDP, 67, 68), "allow essentials segment 10.9.0.2"},
		"DHCP on a switch, answered":  {outside("bare", "10.9.0.99", "10.9.0.2", UDP, 68), "deny implicit-drop"},
		"a DHCP server on a switch":   {app("left", "10.9.0.2", UDP, 68, 67), "deny dhcp-guard"},
		"the node to an app":          {node("", "10.1.0.20", TCP, 22), "deny implicit-drop"},
		"the node's DHCP":             {node("", "10.1.0.30", UDP, 68, 67), "allow essentials app mute 10.1.0.1"},
		"the node is named by a rule": {node("192.0.2.2", "10.1.0.10", TCP, 22), "allow host app web 192.0.2.2"},
		"the node to nobody":          {node("", "10.1.0.40", TCP, 22), "deny no-adapter"},
		"the node to others":          {node("192.0.2.2", "8.8.8.8", TCP, 22), "allow host outside 192.0.2.2"},
	} {
		a := w.Evaluate(x.p)
		if got := described(a); got != x.want {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
		if c := a.Decided(); c.BuiltIn != "" && c.BuiltIn.Text() == "" {
			t.Errorf("%s: %s has no text", what, c.BuiltIn)
		}
	}
}

// described is an answer in words of the test.
func described(a Answer) string {
	c := a.Decided()
	text := string(a.Verdict) + " " + c.Rule + string(c.BuiltIn)
	if !a.Allowed() {
		return text
	}
	text += " " + string(a.To)
	for _, name := range []string{"web", "db", "clash2", "left", "right", "mute"} {
		if a.To == App && a.Adapter == key(name) {
			text += " " + name
		}
	}
	if a.NATPort != "" {
		text += " " + a.NATPort
	}
	if !a.Src.IsValid() {
		return text + " -"
	}
	return text + " " + a.Src.String()
}

func TestTheAddressOfAnAdapter(t *testing.T) {
	w := New(testInputs(), nil)
	for name, want := range map[string]string{"web": "10.1.0.10", "left": "10.9.0.1", "off": "invalid IP", "x": "invalid IP"} {
		if got := w.AddressOf(key(name)).String(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// New flows of a network that shares its uplinks leave by any of them, and clients may come by each.
func TestSharedUplinks(t *testing.T) {
	list := testInputs()
	list[0].Config.Share = true
	list[0].Config.Routes = nil
	incoming := outside("lan", "8.8.8.8", "10.1.0.20", TCP, 22)
	for _, x := range []struct {
		equals   []string
		incoming string
		shared   string
	}{
		{[]string{"lan", "wan"}, "allow ssh app db 8.8.8.8", "[lan]"},
		{[]string{"wan"}, "deny port-not-used", "[]"},
		{nil, "deny port-not-used", "[]"},
	} {
		list[0].Equals = map[string][]string{"uplink": x.equals}
		w := New(list, nil)
		a := w.Evaluate(app("web", "8.8.8.8", TCP, 443))
		if got := described(w.Evaluate(incoming)); got != x.incoming || a.Route.Port != "wan" ||
			fmt.Sprint(a.Route.Shared) != x.shared {
			t.Errorf("%v: %s, %+v", x.equals, got, a.Route)
		}
	}
}

// An app with observe may do what its rules deny, but not what a guard does, nor with the node.
func TestAnObservedAppIsNotDeniedByItsRules(t *testing.T) {
	inputs := testInputs()
	for i := range inputs {
		for j := range inputs[i].Adapters {
			a := &inputs[i].Adapters[j]
			a.Config.Spec.Observe = slices.Contains([]netinst.AdapterKey{key("mute"), key("db"), key("right")}, a.Config.Key())
		}
	}
	inputs[0].Adapters[1].Config.Spec.ACL = append(inputs[0].Adapters[1].Config.Spec.ACL, rule("slow", proto("udp"),
		func(r *netinst.ACLRule) {
			r.Action, r.Limit = netinst.Limit, netinst.RateLimit{Packets: 1, Per: "hour", Burst: 1}
		}))
	w := New(inputs, []netip.Addr{addr("192.168.7.7")})
	for what, x := range map[string]struct {
		p        Packet
		want     string
		observed []bool // of each check
	}{
		"out":               {app("mute", "8.8.8.8", TCP, 443), "translate implicit-drop outside wan 192.0.2.2", []bool{true}},
		"a rule allows":     {app("db", "8.8.8.8", 99), "translate odd outside wan 192.0.2.2", []bool{false}},
		"a limit":           {app("db", "8.8.8.8", UDP, 9), "translate slow outside wan 192.0.2.2", []bool{true}},
		"in":                {outside("wan", "8.8.8.8", "10.1.0.20", TCP, 23), "allow implicit-drop app db 8.8.8.8", []bool{true}},
		"both ends":         {app("mute", "10.1.0.20", TCP, 23), "allow implicit-drop app db 10.1.0.30", []bool{true, true}},
		"the other end":     {app("db", "10.1.0.10", TCP, 1), "allow all app web 10.1.0.20", []bool{true, false}},
		"from one that may": {app("web", "10.1.0.20", TCP, 23), "allow implicit-drop app db 10.1.0.10", []bool{false, true}},
		"on a switch":       {app("right", "10.9.0.3", TCP, 22), "allow implicit-drop segment 10.9.0.2", []bool{true}},
		"the node":          {app("mute", "192.168.7.7", TCP, 22), "deny implicit-drop", []bool{false}},
		"the gateway":       {app("mute", "10.1.0.1", TCP, 22), "deny implicit-drop", []bool{false}},
		"from the node":     {node("", "10.1.0.30", TCP, 22), "deny implicit-drop", []bool{false}},
		"a forged source":   {from(app("mute", "8.8.8.8", TCP, 443), "10.1.0.20"), "deny spoof-guard", []bool{false}},
		"another network":   {app("mute", "10.2.0.10", TCP, 1), "deny other-network", []bool{false}},
		"a DHCP server":     {app("right", "10.9.0.1", UDP, 68, 67), "deny dhcp-guard", []bool{false}},
	} {
		a := w.Evaluate(x.p)
		var observed []bool
		for _, c := range a.Checks {
			observed = append(observed, c.Observed)
		}
		if got := described(a); got != x.want || !slices.Equal(observed, x.observed) {
			t.Errorf("%s: %s %v, want %s %v", what, got, observed, x.want, x.observed)
		}
	}
}
