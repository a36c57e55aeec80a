package verdict

import (
	"fmt"
	"math/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst"
)

// drawn changes the rules of the apps of testInputs at random.
func drawn(d *rand.Rand, list []netinst.Input, share int) []netinst.Input {
	numbers := []uint16{1, 22, 53, 54, 80, 443, 1024, 65535}
	ports := func() (out []netinst.PortRange) {
		for range d.Intn(3) {
			a, b := numbers[d.Intn(len(numbers))], numbers[d.Intn(len(numbers))]
			out = append(out, netinst.PortRange{First: min(a, b), Last: max(a, b)})
		}
		return out
	}
	names := []string{"0.0.0.0/0", "10.1.0.0/24", "10.1.0.20/32", "10.1.0.1/32", "192.0.2.0/24", "8.8.8.0/25", "192.0.2.2/32",
		"203.0.113.0/24", "10.9.0.2/32", "128.0.0.0/1", "172.16.5.0/24", "2001:db8::/32"}
	for i := range list {
		list[i].Adapters = slices.Clone(list[i].Adapters)
		for j := range list[i].Adapters {
			if d.Intn(share) > 0 {
				continue
			}
			var acl []netinst.ACLRule
			for k := range d.Intn(5) {
				r := netinst.ACLRule{Name: fmt.Sprint(k),
					Direction: []netinst.Direction{netinst.Egress, netinst.Ingress, netinst.Both}[d.Intn(3)],
					Action:    []netinst.Action{netinst.Allow, netinst.Allow, netinst.Drop}[d.Intn(3)],
					Protocol:  []string{"", "tcp", "udp", "icmp", "99"}[d.Intn(5)],
					PortLabel: []string{"", "", "", "wan", "lan", "uplink"}[d.Intn(6)]}
				if d.Intn(3) > 0 {
					r.IP = netip.MustParsePrefix(names[d.Intn(len(names))])
				}
				if r.Protocol == "tcp" || r.Protocol == "udp" {
					r.Ports, r.LocalPort = ports(), ports()
				}
				if d.Intn(6) == 0 {
					r.Set = netinst.NewAddressSet("s", []netip.Prefix{netip.MustParsePrefix(names[1+d.Intn(len(names)-1)])})
				}
				if d.Intn(6) == 0 {
					r.Action = netinst.Limit
				}
				if d.Intn(8) == 0 {
					first := numbers[d.Intn(4)] + uint16(100*i+10*j)
					r = portmap(r.Name, []string{"tcp", "udp"}[d.Intn(2)], first, first+uint16(d.Intn(3)), numbers[d.Intn(5)])
				}
				acl = append(acl, r)
			}
			list[i].Adapters[j].Config.Spec.ACL = acl
			list[i].Adapters[j].Config.Spec.Observe = len(acl) == 3
		}
	}
	return list
}

// inClass reports whether a class has a packet.
func inClass(c *comparison, k FlowClass, p Packet, named map[string]bool) bool {
	if k.Mapped.IsValid() || k.From != p.From || p.From == Outside && k.Port != p.Port {
		return false
	}
	remote := p.Src
	if p.From == App {
		to, app := c.destination(p)
		if remote = p.Dst; k.Adapter != p.Adapter || k.To != to || k.ToAdapter != app {
			return false
		}
	} else if a := c.after.byAddress(p.Dst); k.Adapter != a {
		return false
	}
	if len(k.Remote) == 0 && remote.Is6() || len(k.Remote) > 0 && !slices.ContainsFunc(k.Remote, func(r Range) bool {
		return r.First.Compare(remote) <= 0 && remote.Compare(r.Last) <= 0
	}) {
		return false
	}
	proto := map[uint8]string{ICMP: "icmp", ICMP6: "icmp", TCP: "tcp", UDP: "udp"}[p.Proto]
	if proto == "" {
		if proto = fmt.Sprint(p.Proto); !named[proto] {
			proto = "other"
		}
	}
	return slices.ContainsFunc(k.Flows, func(f Flow) bool {
		return (f.Proto == proto || f.Proto == "any") && coversPort(f.SrcPorts, p.SrcPort) && coversPort(f.DstPorts, p.DstPort)
	})
}

// byAddress returns the adapter that has an address.
func (w *World) byAddress(a netip.Addr) netinst.AdapterKey {
	for _, n := range w.networks {
		if x := n.byIP[a]; x != nil {
			return x.Config.Key()
		}
	}
	return netinst.AdapterKey{}
}

// drawnRounds is how many random changes a test draws: a quarter with -short.
func drawnRounds(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// Of random packets in random changes, those whose verdict changes are in exactly one class, and no others are in any.
func TestCompareIsExact(t *testing.T) {
	d := rand.New(rand.NewSource(7))
	addrs := []string{"10.1.0.10", "10.1.0.20", "10.1.0.30", "10.1.0.40", "10.1.0.1", "10.2.0.10", "10.2.0.1", "10.5.0.10",
		"192.0.2.1", "192.0.2.2", "8.8.8.8", "8.8.8.200", "203.0.113.9", "198.51.100.9", "172.16.5.5", "172.16.9.9", "10.9.0.1",
		"10.9.0.2", "10.9.0.99", "127.0.0.1", "0.1.1.1", "200.1.1.1", "255.0.0.1", "10.6.0.10"}
	numbers := []uint16{1, 2, 22, 23, 53, 54, 66, 69, 80, 81, 443, 1024, 40000, 65535, 11, 12, 32, 33, 34, 64, 55, 201, 222}
	apps := []string{"web", "db", "mute", "air", "open", "left", "right", "new"}
	changes, all := 0, 0
	for round := range drawnRounds(30) {
		before, after := drawn(d, testInputs(), 1), testInputs()
		for i := range before {
			after[i].Adapters = before[i].Adapters
		}
		after = drawn(d, after, 2)
		switch round % 6 {
		case 1:
			after[0].Chosen = map[string]string{"uplink": "lan"}
		case 2: // a new network, and an app
			in := after[1]
			in.Config.IPv4 = netinst.IPv4Config{Subnet: netip.MustParsePrefix("10.6.0.0/24"), Gateway: addr("10.6.0.1")}
			in.Adapters = []netinst.Adapter{adapter("new", "10.6.0.10", rule("all"))}
			after = append(after, in)
		case 3:
			after[0].Config.Inactive = true
		case 4:
			after = after[1:]
		case 5:
			after[0].Config.Routes = after[0].Config.Routes[:1]
		}
		x, y := New(before, nil), New(after, []netip.Addr{addr("8.8.8.200")})
		classes, complete := Compare(x, y)
		if !complete {
			t.Fatal("not complete")
		}
		c := &comparison{before: x, after: y}
		for range 4000 {
			p := Packet{Dst: addr(addrs[d.Intn(len(addrs))]), Proto: []uint8{ICMP, TCP, UDP, 99, 254}[d.Intn(5)]}
			if p.Proto == TCP || p.Proto == UDP {
				p.SrcPort, p.DstPort = numbers[d.Intn(len(numbers))], numbers[d.Intn(len(numbers))]
			}
			if p.Proto == ICMP {
				p.ICMPType = EchoRequest
			}
			switch d.Intn(4) {
			case 0, 1:
				p.From, p.Adapter = App, key(apps[d.Intn(len(apps))])
			case 2:
				p.From, p.Src, p.Port = Outside, addr(addrs[d.Intn(len(addrs))]), []string{"wan", "lan", "bare"}[d.Intn(3)]
			case 3:
				p.From, p.Src = Node, addr([]string{"10.1.0.1", "192.0.2.2", "198.18.0.2"}[d.Intn(3)])
			}
			if p.From != App && x.byAddress(p.Dst) != y.byAddress(p.Dst) {
				continue // an app that comes or goes is compared under its own address
			}
			if p.From != App && y.byAddress(p.Dst) == (netinst.AdapterKey{}) {
				continue // it concerns no app
			}
			if p.From == Outside && x.forgedFor(x.byAddress(p.Dst), p.Src) && y.forgedFor(y.byAddress(p.Dst), p.Src) {
				continue // no app sends it
			}
			if p.From == Node && (y.subnetOf(p.Dst) == nil || !strings.HasPrefix(p.Dst.String(), "10.1.")) {
				continue
			}
			named := map[string]bool{}
			px, py := p, p
			if p.From == App {
				px.Src, py.Src = x.AddressOf(p.Adapter), y.AddressOf(p.Adapter)
			}
			for _, r := range append(x.rulesFor(px), y.rulesFor(py)...) {
				named[r.Protocol] = true
			}
			was, is := x.Evaluate(px).Allowed(), y.Evaluate(py).Allowed()
			all++
			if was != is {
				changes++
			}
			for _, opens := range []bool{true, false} {
				want, got := 0, 0
				if was != is && is == opens {
					want = 1
				}
				for _, k := range classes {
					if k.Opens == opens && inClass(c, k, p, named) {
						got++
					}
				}
				if got != want {
					t.Fatalf("round %d: %+v: allowed before %v, after %v, but in %d classes (opens %v)\n%+v\n%+v", round, p, was, is,
						got, opens, x.Evaluate(px), y.Evaluate(py))
				}
			}
		}
	}
	t.Logf("%d of %d packets changed", changes, all)
}

func TestClassesOfAChange(t *testing.T) {
	before, after := testInputs(), testInputs()
	web := &after[0].Adapters[0].Config.Spec
	web.ACL = slices.Clone(web.ACL)
	web.ACL = slices.DeleteFunc(web.ACL, func(r netinst.ACLRule) bool { return r.Name == "no-ping" })
	mute := &after[0].Adapters[2].Config.Spec
	mute.ACL = []netinst.ACLRule{rule("few", egress, to("198.51.100.4/31"), proto("tcp", netinst.PortRange{First: 80, Last: 80},
		netinst.PortRange{First: 443, Last: 444})), rule("in", ingress, to("8.8.8.9/32"), proto("udp"),
		local(netinst.PortRange{First: 9, Last: 9}))}
	db := &after[0].Adapters[1].Config.Spec
	db.ACL = nil
	var got []string
	classes, complete := Compare(New(before, nil), New(after, nil))
	names := map[netinst.AdapterKey]string{key("web"): "web", key("db"): "db", key("mute"): "mute", {}: "-"}
	for _, k := range classes {
		word := "denied"
		if k.Opens {
			word = "allowed"
		}
		got = append(got, fmt.Sprint(word, " ", k.From, " ", names[k.Adapter], " ", k.Port, " ", k.To, " ", names[k.ToAdapter],
			" ", k.Remote, " ", k.Flows))
	}
	slices.Sort(got)
	want := []string{
		"allowed app mute  outside - [198.51.100.4/31] [tcp 80,443-444]",
		"allowed app web  node - [192.0.2.2] [icmp]",
		"allowed app web  outside - [anywhere] [icmp]",
		"allowed outside mute lan app - [8.8.8.9] [udp 9]",
		"allowed outside mute wan app - [8.8.8.9] [udp 9]",
		"denied app db  app web [] [99]",
		"denied app db  outside - [anywhere] [99]",
		"denied app web  app - [172.16.0.0/16] [tcp 22 99]",
		"denied app web  app db [] [tcp 22 99]",
		"denied outside db lan app - [anywhere] [tcp 22 99]",
		"denied outside db wan app - [anywhere] [tcp 22 99]",
	}
	if !complete || !slices.Equal(got, want) {
		t.Errorf("complete %v:\n%s\nwant\n%s", complete, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if classes, complete := Compare(New(before, nil), New(testInputs(), nil)); len(classes) > 0 || !complete {
		t.Errorf("without a change: %+v", classes)
	}
	for r, want := range map[Range]string{{addr("1.2.3.4"), addr("1.2.3.4")}: "1.2.3.4",
		{addr("1.2.3.4"), addr("1.2.3.6")}: "1.2.3.4-1.2.3.6", {addr("0.0.0.0"), addr("127.255.255.255")}: "0.0.0.0/1"} {
		if r.String() != want {
			t.Errorf("%s, want %s", r, want)
		}
	}
	f := Flow{Proto: "udp", SrcPorts: []netinst.PortRange{{First: 1, Last: 9}}}
	if f.String() != "udp from 1-9" {
		t.Error(f)
	}
}

// A comparison that would take too long says that it is not complete.
func TestACompareIsBounded(t *testing.T) {
	before, after := testInputs(), testInputs()
	var many []netinst.ACLRule
	for i := range 1000 {
		many = append(many, rule(fmt.Sprint(i), egress, proto("tcp", netinst.PortRange{First: uint16(2*i + 1),
			Last: uint16(2*i + 1)})), rule(fmt.Sprint("l", i), egress, proto("tcp"), local(netinst.PortRange{
			First: uint16(2*i + 1), Last: uint16(2*i + 1)})))
	}
	after[0].Adapters[0].Config.Spec.ACL = many
	if _, complete := Compare(New(before, nil), New(after, nil)); complete {
		t.Error("it is complete")
	}
}
