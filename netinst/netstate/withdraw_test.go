package netstate

import "testing"

// A network that leaves its subnet does so before anything else of it changes, and the objects that are kept are not
// recreated.
func TestAWithdrawnNetworkLeavesItsSubnetFirst(t *testing.T) {
	rest := []Object{
		Link{Name: "es1", Type: Bridge, MTU: 1500}, Port{Link: "es1"}, File{Path: "ni/1/conf", Dir: true},
		Process{Name: "ni/1/dnsmasq"},
		Chain{Family: IPv4, Table: "filter", Name: "ES1-FWD"},
	}
	subnet := []Object{
		Sysctl{Key: ForwardingOf("es1"), Value: "1", Link: "es1"}, Address{Link: "es1", Prefix: "10.1.0.1/24"},
		Route{Table: 20001, Dst: "10.1.0.0/24", Dev: "es1"}, Rule{Priority: 20001, Table: 20001},
	}
	have, want := NewState(rest...), NewState(rest...)
	have.Add(subnet...)
	have.Add(Link{Name: "es1a1", Type: Veth, Alias: markOf("a")})
	want.Add(File{Path: "ni/1/conf/new"},
		Chain{Family: IPv4, Table: "filter", Name: "ES1-FWD", Rules: []string{"-j DROP"}})
	const plan = `remove rule 20001
remove route 10.1.0.0/24 table 20001 metric 0
remove address es1 10.1.0.1/24
remove sysctl net/ipv4/conf/es1/forwarding
add file ni/1/conf/new
change chain ipv4/filter/ES1-FWD
reload process ni/1/dnsmasq
remove link es1a1`
	if got := spell(Diff(have, want)); got != plan {
		t.Errorf("withdrawn:\n%s\nwant\n%s", got, plan)
	}
	// A network that keeps an address only changes.
	want.Add(Address{Link: "es1", Prefix: "10.2.0.1/24"})
	if got := Diff(have, want)[0].String(); got != "add file ni/1/conf/new" {
		t.Errorf("a network that moves begins with %s", got)
	}
}

// Chains may block what a setting lets pass, and may change in the same plan: the setting is reset before them. Only
// ip_forward, which closes every link, changes just before the links are opened one by one instead.
func TestASettingIsRemovedBeforeTheChainsThatRestrictIt(t *testing.T) {
	rules := func(rule string) Chain {
		return Chain{Family: IPv4, Table: "filter", Name: "ES-BASE", Rules: []string{rule}}
	}
	have := NewState(Sysctl{Key: ForwardAll, Value: "1"}, Sysctl{Key: ForwardingOf("eth0"), Value: "1"}, rules("a"))
	want := NewState(Sysctl{Key: ForwardingOf("eth1"), Value: "1"}, rules("b"), Link{Name: "es1", Type: Bridge},
		Address{Link: "es1", Prefix: "10.1.0.1/24"})
	const plan = `remove sysctl net/ipv4/conf/eth0/forwarding
change chain ipv4/filter/ES-BASE
add link es1
remove sysctl net/ipv4/ip_forward
add address es1 10.1.0.1/24
add sysctl net/ipv4/conf/eth1/forwarding`
	if got := spell(Diff(have, want)); got != plan {
		t.Errorf("got:\n%s\nwant\n%s", got, plan)
	}
}

func TestForwardingIsComparedWhole(t *testing.T) {
	now := Forwarding{All: true, On: []string{"a"}, Off: []string{"b"}, Opened: []string{"a"}}
	for name, change := range map[string]func(*Forwarding){
		"":       func(*Forwarding) {},
		"all":    func(f *Forwarding) { f.All = false },
		"on":     func(f *Forwarding) { f.On = nil },
		"off":    func(f *Forwarding) { f.Off = []string{"c"} },
		"opened": func(f *Forwarding) { f.Opened = nil },
	} {
		other := now
		if change(&other); now.Equal(other) != (name == "") {
			t.Errorf("with another %q equal is %v", name, now.Equal(other))
		}
	}
	if alike := (Forwarding{Off: []string{"b"}}); !alike.Equal(Forwarding{Off: []string{"b"}}) {
		t.Error("one that forwards nothing differs from itself")
	}
}

// An address is removed before another of its subnet is added, or the latter would be removed with it as its secondary.
// That applies to nothing else.
func TestWhatIsOfOneSubnet(t *testing.T) {
	for _, c := range []struct {
		a, b Address
		want bool
	}{
		{Address{Link: "es1", Prefix: "10.1.0.1/24"}, Address{Link: "es1", Prefix: "10.1.0.2/24"}, true},
		{Address{Link: "es1", Prefix: "10.1.0.1/24"}, Address{Link: "es2", Prefix: "10.1.0.2/24"}, false},
		{Address{Link: "es1", Prefix: "10.1.0.1/24"}, Address{Link: "es1", Prefix: "10.1.1.2/24"}, false},
		{Address{Link: "es1", Prefix: "10.1.0.1/24"}, Address{Link: "es1", Prefix: "10.1.0.2/25"}, false},
		{Address{Link: "es1", Prefix: "?"}, Address{Link: "es1", Prefix: "!"}, false},
		{Address{Link: "es1", Prefix: "10.1.0.1/24"}, Address{Link: "es1", Prefix: "!"}, false},
	} {
		if got := c.a.sameSubnet(c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
	have := NewState(Address{Link: "es1", Prefix: "10.1.0.1/24"},
		Address{Link: "es1", Prefix: "10.1.0.2/24"}, Address{Link: "es1", Prefix: "10.2.0.1/24"})
	want := NewState(Address{Link: "es1", Prefix: "10.1.0.2/24"}, Address{Link: "es1", Prefix: "10.1.0.3/24"})
	if got, plan := spell(Diff(have, want)),
		"remove address es1 10.1.0.1/24\nadd address es1 10.1.0.3/24\nremove address es1 10.2.0.1/24"; got != plan {
		t.Errorf("got:\n%s\nwant\n%s", got, plan)
	}
}

// A link without our mark that is in no bridge was left half created by a crash; in a bridge it is in use.
func TestALinkInUseIsMarkedInPlace(t *testing.T) {
	half, whole, port := Link{Name: "es1a1", Type: Veth}, Link{Name: "es1a1", Type: Veth, Alias: markOf("a")},
		Port{Link: "es1a1", Master: "es1"}
	for _, c := range []struct {
		have State
		plan string
	}{
		{NewState(half, port), "change link es1a1"},
		{NewState(half), "remove link es1a1\nadd link es1a1\nadd port es1a1"},
	} {
		if got := spell(Diff(c.have, NewState(whole, port))); got != c.plan {
			t.Errorf("got:\n%s\nwant\n%s", got, c.plan)
		}
	}
}
