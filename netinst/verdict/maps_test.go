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

func portmap(name, proto string, first, last, target uint16, change ...func(*netinst.ACLRule)) netinst.ACLRule {
	r := netinst.ACLRule{Name: name, Direction: netinst.Ingress, Action: netinst.MapPort, Protocol: proto,
		Portmap: netinst.Portmap{Ports: netinst.PortRange{First: first, Last: last},
			Target: netinst.PortRange{First: target, Last: target + last - first}}}
	for _, f := range change {
		f(&r)
	}
	return r
}

// mappedInputs are testInputs with port maps of an app of the first network, and one of another.
func mappedInputs() []netinst.Input {
	list := testInputs()
	list[0].Adapters[1].Config.Spec.ACL = []netinst.ACLRule{
		rule("not-7", to("7.0.0.0/8"), drops),
		portmap("www", "tcp", 8080, 8089, 80, label("wan")),
		portmap("few", "udp", 53, 53, 5353, to("9.0.0.0/8")),
		rule("twice", proto("icmp"), func(r *netinst.ACLRule) {
			r.Action, r.Limit = netinst.Limit, netinst.RateLimit{Packets: 2, Per: "sec", Burst: 5}
		}),
		rule("all", egress)}
	list[2].Adapters[0].Config.Spec.ACL = append(list[2].Adapters[0].Config.Spec.ACL, portmap("open", "tcp", 22, 22, 22))
	return list
}

func TestPortMaps(t *testing.T) {
	w := New(mappedInputs(), nil)
	for what, x := range map[string]struct {
		p    Packet
		want string
	}{
		"from outside":                {outside("wan", "8.8.8.8", "192.0.2.2", TCP, 8081), "translate www app db 8.8.8.8 > 10.1.0.20:81"},
		"its last port":               {outside("wan", "8.8.8.8", "192.0.2.2", TCP, 8089), "translate www app db 8.8.8.8 > 10.1.0.20:89"},
		"beside the range":            {outside("wan", "8.8.8.8", "192.0.2.2", TCP, 8090), "allow host node 8.8.8.8"},
		"another protocol":            {outside("wan", "8.8.8.8", "192.0.2.2", UDP, 8080), "allow host node 8.8.8.8"},
		"by another port":             {outside("lan", "8.8.8.8", "192.0.2.2", TCP, 8080), "allow host node 8.8.8.8"},
		"at an address of no map":     {outside("lan", "8.8.8.8", "198.18.0.2", TCP, 8080), "allow host node 8.8.8.8"},
		"a drop before the map":       {outside("wan", "7.7.7.7", "192.0.2.2", TCP, 8080), "deny not-7"},
		"of a client that it names":   {outside("lan", "9.9.9.9", "198.18.0.2", UDP, 53), "translate few app db 9.9.9.9 > 10.1.0.20:5353"},
		"of another client":           {outside("lan", "8.8.8.8", "198.18.0.2", UDP, 53), "allow host node 8.8.8.8"},
		"not the app's own port":      {outside("wan", "8.8.8.8", "10.1.0.20", TCP, 80), "deny implicit-drop"},
		"of the same network":         {app("web", "192.0.2.2", TCP, 8080), "translate www app db 10.1.0.1 > 10.1.0.20:80"},
		"the client's rules apply":    {app("mute", "192.0.2.2", TCP, 8080), "deny implicit-drop"},
		"of itself":                   {app("db", "192.0.2.2", TCP, 8080), "deny own-portmap"},
		"across networks":             {app("open", "192.0.2.2", TCP, 8080), "translate www app db 10.5.0.10 > 10.1.0.20:80"},
		"of an air-gapped network":    {app("air", "198.18.0.2", TCP, 22), "translate all app 10.2.0.10 > 10.5.0.10:22"},
		"across, with another source": {from(app("open", "192.0.2.2", TCP, 8080), "10.2.0.77"), "deny untranslatable"},
		"with a source of the node":   {from(app("open", "192.0.2.2", TCP, 8080), "10.1.0.1"), "deny forged-source"},
		"of a switch network":         {app("left", "192.0.2.2", TCP, 8080), "deny implicit-drop"},
		"of the node":                 {node("", "192.0.2.2", TCP, 8080), "translate www app db 192.0.2.2 > 10.1.0.20:80"},
		"of the node by its gateway":  {node("10.1.0.1", "192.0.2.2", TCP, 8080), "translate www app db 10.1.0.1 > 10.1.0.20:80"},
		"of the node's own programs":  {node("", "192.0.2.2", TCP, 22), "allow host node -"},
		"a limit":                     {outside("wan", "8.8.8.8", "10.1.0.20", ICMP, 0), "allow twice app db 8.8.8.8, 2 sec 5"},
		"a limit and the node":        {node("", "10.1.0.20", ICMP), "deny implicit-drop"},
	} {
		a := w.Evaluate(x.p)
		got := described(a)
		if a.Dst.IsValid() {
			got += fmt.Sprintf(" > %s", netip.AddrPortFrom(a.Dst, a.DstPort))
		}
		if l := a.Decided().Limit; l.Packets > 0 {
			got += fmt.Sprintf(", %d %s %d", l.Packets, l.Per, l.Burst)
		}
		if got != x.want {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
	}
}

func TestAQueryAsksForPortMaps(t *testing.T) {
	w := New(mappedInputs(), nil)
	for q, want := range map[Query]string{
		{Remote: "8.8.8.8", Port: "wan", Proto: TCP, DstPort: 8080}: "10.1.0.20 192.0.2.2",
		{Remote: "8.8.8.8", Port: "lan", Proto: TCP, DstPort: 8080}: "10.1.0.20",
		{Remote: "9.8.8.8", Port: "lan", Proto: UDP, DstPort: 53}:   "10.1.0.20 198.18.0.2",
		{Remote: "10.5.0.10", Proto: TCP, DstPort: 8089}:            "10.1.0.20 192.0.2.2",
	} {
		q.Adapter, q.Incoming = key("db"), true
		packets, err := w.Packets(q)
		var got []string
		for _, p := range packets {
			got = append(got, p.Dst.String())
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%+v: %v, %v, want %s", q, got, err, want)
		}
	}
}

// What a change of maps opens and closes, from outside and for other apps.
func TestCompareMaps(t *testing.T) {
	plain, few := testInputs(), mappedInputs()
	few[0].Adapters[1].Config.Spec.ACL = few[0].Adapters[1].Config.Spec.ACL[:2]
	plain[0].Adapters[1].Config.Spec.ACL = few[0].Adapters[1].Config.Spec.ACL[:1]
	plain[2].Adapters[0].Config.Spec.ACL = few[2].Adapters[0].Config.Spec.ACL
	list, complete := Compare(New(plain, nil), New(few, nil))
	var got []string
	for _, c := range list {
		got = append(got, fmt.Sprintf("%v %s%s %s %s %v %v", c.Opens, c.From, c.Port, c.To, c.Mapped, c.Remote, c.Flows))
	}
	slices.Sort(got)
	want := []string{
		"true app node invalid IP [192.0.2.2] [tcp 8080-8089]", // open
		"true app node invalid IP [192.0.2.2] [tcp 8080-8089]", // air; web has reached the node there before
		"true outsidewan app 192.0.2.2 [0.0.0.0-6.255.255.255 8.0.0.0-255.255.255.255] [tcp 8080-8089]",
	}
	if !slices.Equal(got, want) || !complete {
		t.Errorf("\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Of random packets to the node from outside, those that only one world leads to an app are in exactly one class.
func TestCompareOfMapsIsExact(t *testing.T) {
	d := rand.New(rand.NewSource(3))
	remotes := []string{"7.7.7.7", "8.8.8.8", "9.9.9.9", "192.0.2.1", "203.0.113.9"}
	changes, rounds := 0, drawnRounds(40)
	for range rounds {
		before, after := drawn(d, mappedInputs(), 3), drawn(d, mappedInputs(), 3)
		x, y := New(before, nil), New(after, nil)
		classes, _ := Compare(x, y)
		for range 300 {
			p := outside([]string{"wan", "lan"}[d.Intn(2)], remotes[d.Intn(len(remotes))],
				[]string{"192.0.2.2", "198.18.0.2"}[d.Intn(2)], []uint8{TCP, UDP, ICMP}[d.Intn(3)], 0)
			if p.Proto != ICMP {
				p.DstPort = []uint16{22, 53, 8080, 8083, 8089, 8090}[d.Intn(6)]
			}
			for _, key := range []netinst.AdapterKey{key("db"), key("open")} {
				had := x.Evaluate(p).Adapter == key
				has := y.Evaluate(p).Adapter == key
				found := 0
				for _, c := range classes {
					if c.Opens == has && c.Mapped == p.Dst && c.Port == p.Port && c.Adapter == key && holds(c, p) {
						found++
					}
				}
				if (found == 1) != (had != has) {
					t.Fatalf("%+v to %v: before %v, after %v, in %d classes of %+v", p, key, had, has, found, classes)
				}
				changes += found
			}
		}
	}
	if changes < rounds*5/2 {
		t.Errorf("only %d packets changed", changes)
	}
}

// holds reports whether a class of flows from outside has a packet's source and ports.
func holds(c FlowClass, p Packet) bool {
	return slices.ContainsFunc(c.Remote, func(r Range) bool {
		return r.First.Compare(p.Src) <= 0 && p.Src.Compare(r.Last) <= 0
	}) && slices.ContainsFunc(c.Flows, func(f Flow) bool {
		return f.Proto == map[uint8]string{ICMP: "icmp", TCP: "tcp", UDP: "udp"}[p.Proto] &&
			coversPort(f.SrcPorts, p.SrcPort) && coversPort(f.DstPorts, p.DstPort)
	})
}
