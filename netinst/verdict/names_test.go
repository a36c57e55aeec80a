package verdict

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst"
)

func host(h netinst.Hostname) func(*netinst.ACLRule) {
	return func(r *netinst.ACLRule) { r.Host = h }
}

// hostInputs are testInputs whose app web has rules with hosts; printer.test and db.edge.test are static.
func hostInputs() []netinst.Input {
	list := testInputs()
	list[0].Config.DNS = netinst.DNSConfig{Domain: "edge.test",
		Hosts: map[netinst.Hostname][]netip.Addr{"printer.test": {addr("192.0.2.9")}}}
	list[0].Adapters[1].Config.Spec.Hostname = "db"
	list[0].Adapters[0].Config.Spec.ACL = []netinst.ACLRule{
		rule("bad", egress, host("bad.example.com"), drops), rule("site", egress, host("example.com"), proto("tcp")),
		rule("static", egress, host("test"), proto("udp")), rule("lan", to("10.0.0.0/8"), drops),
		rule("web", egress, proto("tcp", netinst.PortRange{First: 443, Last: 443}))}
	return list
}

func TestRulesWithHosts(t *testing.T) {
	w := New(hostInputs(), nil)
	named := func(name netinst.Hostname, p Packet) Packet { p.Name = name; return p }
	unknown := func(name netinst.Hostname, proto uint8, port uint16) Packet {
		return Packet{From: App, Adapter: key("web"), Name: name, Proto: proto, SrcPort: 40000, DstPort: port}
	}
	for what, x := range map[string]struct {
		p    Packet
		want string // verdict, what decided, and the rules on which it depends
	}{
		"an address alone":              {app("web", "8.8.8.8", TCP, 443), "translate web [bad site]"},
		"another protocol":              {app("web", "8.8.8.8", ICMP), "deny implicit-drop [bad]"},
		"with its name":                 {named("example.com", app("web", "8.8.8.8", TCP, 80)), "translate site []"},
		"with a name below":             {named("www.example.com", app("web", "8.8.8.8", TCP, 80)), "translate site []"},
		"with one that is dropped":      {named("x.bad.example.com", app("web", "8.8.8.8", TCP, 80)), "deny bad []"},
		"with a longer word":            {named("notexample.com", app("web", "8.8.8.8", TCP, 80)), "deny implicit-drop []"},
		"a static name":                 {app("web", "192.0.2.9", UDP, 80), "translate static [bad]"},
		"an app's name in the domain":   {app("web", "10.1.0.20", UDP, 80), "deny static [bad]"},
		"only a name":                   {unknown("www.example.com", TCP, 80), "translate site []"},
		"only a name, dropped":          {unknown("bad.example.com", TCP, 443), "deny bad []"},
		"only a name, no rule for it":   {unknown("www.example.net", TCP, 443), "translate web [lan]"},
		"only a name, another protocol": {unknown("www.example.com", ICMP, 0), "deny implicit-drop [lan]"},
		"the node":                      {app("web", "198.18.0.2", TCP, 80), "deny implicit-drop [bad]"},
	} {
		a := w.Evaluate(x.p)
		c := a.Checks[0]
		if got := fmt.Sprint(a.Verdict, " ", c.Rule, c.BuiltIn, " ", c.Depends); got != x.want {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
	}
	for who, want := range map[string]BuiltIn{"air": NoRoute, "off": NotActive, "clash": WithdrawnSubnet} {
		p := unknown("example.com", TCP, 80)
		p.Adapter = key(who)
		if got := w.Evaluate(p).Decided().BuiltIn; got != want {
			t.Errorf("%s: %s", who, got)
		}
	}
}

func TestAQueryByAHostOfARule(t *testing.T) {
	w := New(hostInputs(), nil)
	packets, err := w.Packets(Query{Adapter: key("web"), Remote: "WWW.example.com.", Proto: TCP, DstPort: 443})
	if err != nil || len(packets) != 1 || packets[0].Dst.IsValid() || packets[0].Name != "www.example.com" {
		t.Errorf("%+v, %v", packets, err)
	}
	for _, q := range []Query{{Remote: "www.example.net"}, {Remote: "example.com", Incoming: true}} {
		q.Adapter = key("web")
		if _, err := w.Packets(q); err == nil || !strings.Contains(err.Error(), "must be") {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestCompareHosts(t *testing.T) {
	before, after := hostInputs(), hostInputs()
	after[0].Adapters[0].Config.Spec.ACL = after[0].Adapters[0].Config.Spec.ACL[1:]
	var got []string
	classes, _ := Compare(New(before, nil), New(after, nil))
	for _, c := range classes {
		got = append(got, fmt.Sprint(c.Opens, " ", c.To, " ", c.Host, " ", c.Flows))
	}
	if want := "true outside bad.example.com [tcp]"; strings.Join(got, "; ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
