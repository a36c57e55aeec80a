package verdict

import (
	"fmt"
	"net/netip"
	"testing"

	"edgespan/netinst"
)

// oneSubnet are an ordinary network, two with mayOverlap and its subnet, and one that contains it, in any order.
func oneSubnet(order ...int) []netinst.Input {
	of := func(n int, subnet, port string, may bool) netinst.Input {
		in := netinst.Input{Config: netinst.NetworkInstanceConfig{Type: netinst.Local, Port: port,
			IPv4: netinst.IPv4Config{Subnet: netip.MustParsePrefix(subnet), Gateway: addr("10.1.0.1"), MayOverlap: may}}}
		in.Owner.Number = n
		for _, x := range []struct{ name, ip string }{{"a", "10.1.0.10"}, {"b", "10.1.0.20"}} {
			in.Adapters = append(in.Adapters, adapter(fmt.Sprint(x.name, n), x.ip, rule("all"),
				rule("node", to("10.1.0.1/32")), rule("answers", to("169.254.0.0/16")), rule("port", to("192.0.2.2/32"))))
		}
		return in
	}
	all := []netinst.Input{of(1, "10.1.0.0/24", "wan", false), of(2, "10.1.0.0/24", "", true),
		of(3, "10.1.0.0/24", "", true), of(4, "10.0.0.0/8", "", true)}
	// Each has one app of an address that no other network has.
	for i := range all {
		all[i].Adapters = append(all[i].Adapters, adapter(fmt.Sprint("c", i+1), fmt.Sprint("10.1.0.5", i+1), rule("all")))
		all[i].Ports = testInputs()[0].Ports
	}
	var list []netinst.Input
	for _, i := range order {
		list = append(list, all[i-1])
	}
	return append(list, testInputs()[1])
}

func TestPacketsOfNetworksOfOneSubnet(t *testing.T) {
	for _, order := range [][]int{{1, 2, 3, 4}, {4, 3, 2, 1}, {2, 1, 4, 3}} {
		w := New(oneSubnet(order...), nil)
		node := func(src, dst, to string) Packet {
			p := Packet{From: Node, Src: addr(src), Dst: addr(dst), Proto: TCP, SrcPort: 5, DstPort: 80}
			if to != "" {
				p.Adapter = key(to)
			}
			return p
		}
		outside := func(src, dst string) Packet {
			return Packet{From: Outside, Port: "wan", Src: addr(src), Dst: addr(dst), Proto: UDP}
		}
		spoofed := app("a2", "10.1.0.1", UDP, 53)
		spoofed.Src = addr("10.9.0.9")
		for what, x := range map[string]struct {
			p    Packet
			want string
		}{
			"to the neighbour of an ordinary one":          {app("a1", "10.1.0.20", TCP, 80), "allow b1"},
			"to the neighbour":                             {app("a2", "10.1.0.20", TCP, 80), "allow b2"},
			"to the neighbour, in another one":             {app("b3", "10.1.0.10", TCP, 80), "allow a3"},
			"to an address of another one":                 {app("a2", "10.1.0.53", TCP, 80), "deny no-adapter"},
			"to the world":                                 {app("a2", "8.8.8.8", TCP, 80), "deny no-route"},
			"to the world, of the ordinary one":            {app("a1", "8.8.8.8", TCP, 80), "translate "},
			"to another network":                           {app("a2", "10.2.0.10", TCP, 80), "deny other-network"},
			"from another network":                         {app("air", "10.1.0.10", TCP, 80), "deny other-network"},
			"DNS of the gateway":                           {app("a2", "10.1.0.1", UDP, 53), "allow "},
			"DNS, with a foreign address":                  {spoofed, "deny forged-source"},
			"another service of the gateway":               {app("a2", "10.1.0.1", TCP, 22), "deny may-overlap"},
			"another service of an ordinary gateway":       {app("a1", "10.1.0.1", TCP, 22), "allow "},
			"the node at a port's address":                 {app("a2", "192.0.2.2", TCP, 22), "deny may-overlap"},
			"the address behind the gateway":               {app("a2", "169.254.0.2", UDP, 53), "deny hidden-gateway"},
			"that of another one":                          {app("a2", "169.254.0.3", UDP, 53), "deny hidden-gateway"},
			"that of another one, from the ordinary one":   {app("a1", "169.254.0.3", UDP, 53), "deny hidden-gateway"},
			"what no network has there":                    {app("a2", "169.254.0.9", UDP, 53), "deny no-route"},
			"from the node to the ordinary one":            {node("192.0.2.2", "10.1.0.10", ""), "allow a1"},
			"from the gateway to the ordinary one":         {node("10.1.0.1", "10.1.0.10", ""), "allow a1"},
			"from the gateway to one of the others":        {node("10.1.0.1", "10.1.0.10", "a2"), "deny may-overlap"},
			"from the node to what only others have":       {node("10.1.0.1", "10.7.0.10", ""), "deny may-overlap"},
			"from outside to the address behind a gateway": {outside("9.9.9.9", "169.254.0.2"), "deny hidden-gateway"},
			"from outside in the name of an app":           {outside("10.1.0.10", "10.1.0.20"), "deny forged-source"},
			"from outside to what only others have":        {outside("9.9.9.9", "10.7.0.20"), "deny port-not-used"},
		} {
			a := w.Evaluate(x.p)
			got := string(a.Verdict) + " " + string(a.Decided().BuiltIn)
			if a.Allowed() {
				got = string(a.Verdict) + " "
				for _, name := range []string{"a1", "b1", "a2", "b2", "a3", "b3"} {
					if a.Adapter == key(name) {
						got += name
					}
				}
			}
			if got != x.want {
				t.Errorf("%v, %s: %s, want %s: %+v", order, what, got, x.want, a)
			}
		}
	}
}

func TestWhoSendsFromAnAddressThatSeveralHave(t *testing.T) {
	for _, order := range [][]int{{1, 2, 3, 4}, {4, 3, 2, 1}} {
		w := New(oneSubnet(order...), nil)
		for what, x := range map[string]struct {
			to, from string
			want     string
		}{
			"its neighbour":                     {"a2", "10.1.0.20", "app b2 allow"},
			"the neighbour in the ordinary one": {"a1", "10.1.0.20", "app b1 allow"},
			"an app of another network":         {"a2", "10.2.0.10", "app air deny"},
			"an app of an overlapping one":      {"a2", "10.1.0.53", "outside a2 deny"},
			"the gateway":                       {"a2", "10.1.0.1", "node a2 deny"},
			"the gateway, of the ordinary one":  {"a1", "10.1.0.1", "node  allow"},
			"a port's address":                  {"a3", "192.0.2.2", "node a3 deny"},
		} {
			ps, err := w.Packets(Query{Adapter: key(x.to), Remote: x.from, Incoming: true, Proto: TCP, DstPort: 80})
			if err != nil || len(ps) == 0 {
				t.Fatal(err, ps)
			}
			got := string(ps[0].From) + " "
			for _, name := range []string{"a1", "b1", "a2", "b2", "a3", "b3", "air"} {
				if ps[0].Adapter == key(name) {
					got += name
				}
			}
			if got += " " + string(w.Evaluate(ps[0]).Verdict); got != x.want {
				t.Errorf("%v, %s: %s, want %s", order, what, got, x.want)
			}
		}
	}
}

// A network that begins to share its subnet loses the node, and nothing else changes.
func TestSharingASubnetIsCompared(t *testing.T) {
	before, after := oneSubnet(2), oneSubnet(2)
	before[0].Config.IPv4.MayOverlap = false
	classes, complete := Compare(New(before, nil), New(after, nil))
	if !complete || len(classes) == 0 {
		t.Fatal(classes, complete)
	}
	for _, c := range classes {
		if c.Opens || c.From != Node && c.To != Node {
			t.Errorf("%+v", c)
		}
	}
	both := oneSubnet(1, 2, 3)
	if classes, _ := Compare(New(oneSubnet(1, 2), nil), New(both, nil)); len(classes) == 0 {
		t.Error("a network more is no change")
	} else {
		for _, c := range classes {
			for _, other := range []string{"a1", "b1", "c1", "a2", "b2", "c2"} {
				own := len(c.Remote) == 1 && c.Remote[0].String() == "169.254.0.3" // now of the node
				if c.Adapter == key(other) && !own {
					t.Errorf("a change of %s: %+v", other, c)
				}
			}
		}
	}
}

// Two networks of one subnet behind NAT, with or without an ordinary one beside them, reach the world as any other, and
// nothing outside reaches them.
func TestNetworksOfOneSubnetBehindNAT(t *testing.T) {
	for _, order := range [][]int{{2, 3}, {1, 2, 3}, {3, 2, 1, 4}} {
		inputs := oneSubnet(order...)
		for i := range inputs {
			if n := inputs[i].Owner.Number; n == 2 || n == 3 {
				inputs[i].Config.Port = map[int]string{2: "wan", 3: "lan"}[n]
			}
		}
		w := New(inputs, nil)
		spoofed := app("a2", "8.8.8.8", TCP, 80)
		spoofed.Src = addr("10.9.0.9")
		toApp := func(name, port string) Packet {
			return Packet{From: Outside, Port: port, Adapter: key(name), Src: addr("9.9.9.9"), Dst: addr("10.1.0.10")}
		}
		for what, x := range map[string]struct {
			p    Packet
			want string
		}{
			"to the neighbour":               {app("a2", "10.1.0.20", TCP, 80), "allow b2"},
			"to the neighbour of the twin":   {app("a3", "10.1.0.20", TCP, 80), "allow b3"},
			"to an app of the twin":          {app("a2", "10.1.0.53", TCP, 80), "deny no-adapter"},
			"to the world":                   {app("a2", "8.8.8.8", TCP, 80), "translate wan"},
			"to the world, of the twin":      {app("a3", "8.8.8.8", TCP, 80), "translate lan"},
			"with a foreign address":         {spoofed, "deny untranslatable"},
			"the node at a port's address":   {app("a2", "192.0.2.2", TCP, 22), "deny may-overlap"},
			"the address behind the gateway": {app("a2", "169.254.0.3", UDP, 53), "deny hidden-gateway"},
			"to an app of another network":   {app("a2", "10.2.0.10", TCP, 80), "deny other-network"},
			"from outside":                   {toApp("a2", "wan"), "deny may-overlap"},
			"from outside, by another port":  {toApp("a2", "lan"), "deny port-not-used"},
			"from outside, of the twin":      {toApp("a3", "lan"), "deny may-overlap"},
		} {
			a := w.Evaluate(x.p)
			got := string(a.Verdict) + " " + string(a.Decided().BuiltIn)
			if a.Allowed() {
				got = string(a.Verdict) + " " + a.NATPort
				for _, name := range []string{"b2", "b3"} {
					if a.Adapter == key(name) {
						got += name
					}
				}
			}
			if got != x.want {
				t.Errorf("%v, %s: %s, want %s", order, what, got, x.want)
			}
		}
		ps, err := w.Packets(Query{Adapter: key("a3"), Remote: "9.9.9.9", Incoming: true, Proto: TCP, DstPort: 80})
		if err != nil || len(ps) != 1 {
			t.Fatal(err, ps)
		}
		if got := w.Evaluate(ps[0]).Decided().BuiltIn; got != MayOverlap {
			t.Errorf("%v, from outside to a3: %s", order, got)
		}
	}
}

// A network behind NAT that begins to share its subnet loses what comes from outside, and the node.
func TestSharingASubnetBehindNATIsCompared(t *testing.T) {
	before, after := oneSubnet(1), oneSubnet(1)
	after[0].Config.IPv4.MayOverlap = true
	classes, complete := Compare(New(before, nil), New(after, nil))
	outside := false
	for _, c := range classes {
		outside = outside || c.From == Outside
		if c.Opens || c.From == App && c.To != Node {
			t.Errorf("%+v", c)
		}
	}
	if !complete || !outside {
		t.Error(classes, complete)
	}
}
