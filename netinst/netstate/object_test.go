package netstate

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestObjectsAsText(t *testing.T) {
	for _, c := range []struct {
		o        Object
		id, text string
	}{
		{Sysctl{Key: "net/ipv4/ip_forward", Value: "1"}, "sysctl net/ipv4/ip_forward", "1"},
		{File{Path: "ni/1/conf", Dir: true, Content: "ignored"}, "file ni/1/conf", "folder"},
		{File{Path: "ni/1/conf/a", Content: "x\ny"}, "file ni/1/conf/a", "x\ny"},
		{Link{Name: "es1", Type: Bridge, MAC: "02:00:00:00:00:01", MTU: 1500, Alias: "edgespan ni x"}, "link es1",
			`bridge mac 02:00:00:00:00:01 mtu 1500 alias "edgespan ni x"`},
		{Link{Name: "es1", Type: Bridge, Attrs: map[string]uint64{"stp_state": 1, "ageing_time": 0}}, "link es1",
			`bridge mac  mtu 0 alias "" ageing_time 0 stp_state 1`},
		{tunnel(Tunnel{VNI: 256, Port: 4789}), "link es1v256",
			`vxlan mac  mtu 0 alias "" vni 256 from invalid IP to invalid IP port 4789`},
		{tunnel(Tunnel{VNI: 256, Port: 4789, Lost: "no route"}), "link es1v256",
			`vxlan mac  mtu 0 alias "" vni 256 from invalid IP to invalid IP port 4789 lost: no route`},
		{Link{Name: "eth0.5", Type: VLAN, Tag: &VLANTag{"eth0", 5}}, "link eth0.5", "vlan 5 of eth0"},
		{Port{Link: "es1"}, "port es1", "up"},
		{Port{Link: "es1a1", Master: "es1", After: []ID{{KindChain, "c"}}}, "port es1a1", "up master es1"},
		{Port{Link: "es1a2", Master: "es1", Station: "02:00:00:00:00:12"}, "port es1a2", "up master es1 station 02:00:00:00:00:12"},
		{Address{Link: "es1", Prefix: "10.1.0.1/24"}, "address es1 10.1.0.1/24", "noprefixroute"},
		{Route{Table: 20001, Dst: "0.0.0.0/0", Type: Unicast, Dev: "eth0", Via: "192.0.2.1", Src: "10.1.0.1"},
			"route 0.0.0.0/0 table 20001 metric 0", "unicast via 192.0.2.1 dev eth0 src 10.1.0.1"},
		{Route{Table: 20001, Dst: "0.0.0.0/0", Type: Unreachable, Metric: 9}, "route 0.0.0.0/0 table 20001 metric 9",
			"unreachable"},
		{Rule{Priority: 20001, From: "10.1.0.0/24", Table: 20001}, "rule 20001", "from 10.1.0.0/24 lookup 20001"},
		{Rule{Priority: 21001, To: "10.1.0.0/24", Table: 20001}, "rule 21001", "to 10.1.0.0/24 lookup 20001"},
		{Rule{Priority: 18001, From: "10.1.0.0/24", Mark: 0x2000000, Mask: 0xf000000, Table: 30018},
			"rule 18001 fwmark 0x2000000/0xf000000", "from 10.1.0.0/24 fwmark 0x2000000/0xf000000 lookup 30018"},
		{Rule{Priority: 18000, Mask: 0xf000000, Goto: 19000}, "rule 18000 fwmark 0x0/0xf000000",
			"fwmark 0x0/0xf000000 goto 19000"},
		{Chain{Family: BridgeFamily, Name: "es1", Rules: []string{"a", "b"}}, "chain bridge/es1", "a\nb"},
		{
			Chain{Family: BridgeFamily, Table: "edgespan", Name: "ES1-1F", Rules: []string{"a"},
				Hooks: []Hook{{"ports", `"es1a1"`, false}}},
			"chain bridge/edgespan/ES1-1F", "in ports: \"es1a1\"\na",
		},
		{
			Chain{Family: IPv4, Table: "nat", Name: "ES1-P", Rules: []string{"-j X"},
				Hooks: []Hook{{"P", "-i es1", false}, {"Q", "", true}}},
			"chain ipv4/nat/ES1-P", "first in P: -i es1\nlast in Q:\n-j X",
		},
		{Process{Name: "ni/1/dnsmasq", Argv: []string{"dnsmasq", "-k"}, Digest: "d", Reload: "r"}, "process ni/1/dnsmasq",
			"digest d reload r"},
	} {
		if got := c.o.ID().String(); got != c.id {
			t.Errorf("%#v is %q, want %q", c.o, got, c.id)
		}
		if got := c.o.Text(); got != c.text {
			t.Errorf("%s reads\n%s\nwant\n%s", c.id, got, c.text)
		}
	}
}

// Every field that is applied to the host shows in the text or the name: a difference in any other could never be
// repaired. The exceptions only order the steps, identify a process, or are part of another field.
func TestEveryFieldIsComparedButThese(t *testing.T) {
	silent := map[string]bool{"Address.Unmarked": true, "Link.Unmarked": true, "Address.After": true, "Port.After": true,
		"Process.After": true, "Route.After": true, "Rule.After": true, "Process.Probe": true,
		"Process.Argv": true, "Process.Leases": true, "Link.Peer": true, "Sysctl.Link": true}
	for _, o := range []Object{
		Sysctl{}, File{}, Link{}, Port{}, Address{}, Route{}, Rule{}, Process{}, Chain{Family: IPv4},
	} {
		typ := reflect.TypeOf(o)
		for i := range typ.NumField() {
			name := typ.Name() + "." + typ.Field(i).Name
			other := reflect.New(typ)
			other.Elem().Set(reflect.ValueOf(o))
			change(other.Elem().Field(i))
			x := other.Elem().Interface().(Object)
			differs := x.ID() != o.ID() || x.Text() != o.Text()
			if differs == silent[name] {
				t.Errorf("%s: a change shows is %v, want %v", name, differs, !silent[name])
			}
			if same := x.Text() == o.Text(); Same(x, o) != same || Same(o, x) != same || !Same(x, x) {
				t.Errorf("%s: the same is %v, want %v", name, Same(x, o), same)
			}
		}
	}
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int:
		v.SetInt(7)
	case reflect.Uint32:
		v.SetUint(7)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		change(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		change(v.Field(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]uint64{"x": 1}))
	default:
		panic("a kind of field that this test does not know: " + v.Kind().String())
	}
}

func TestWhatIsAbsentIsNotTheSame(t *testing.T) {
	o, other := Chain{Family: IPv4, Name: "c", Rules: []string{"a", "b"}}, Link{Name: "es1"}
	joined := Chain{Family: IPv4, Name: "c", Rules: []string{"a\nb"}}
	if !Same(nil, nil) || Same(o, nil) || Same(nil, o) || Same(o, other) || Same(other, o) || !Same(o, joined) {
		t.Errorf("%v %v %v %v %v %v", Same(nil, nil), Same(o, nil), Same(nil, o), Same(o, other), Same(other, o),
			Same(o, joined))
	}
}

func tunnel(t Tunnel) Link { return Link{Name: "es1v256", Type: VXLAN, Vxlan: &t} }

const oldMark = "edgespan ni u adapter a#0 netns=web peer=eth0 mac=02:00:00:00:00:01 mtu=1500"

func TestWhichLinksAreRecreated(t *testing.T) {
	veth := func(alias string) Link { return Link{Name: "es1a1", Type: Veth, MAC: "a", MTU: 1500, Alias: alias} }
	with := func(old, new string) Link { return veth(strings.Replace(oldMark, old, new, 1)) }
	bridge := Link{Name: "es1", Type: Bridge, MAC: "a", MTU: 1500, Alias: "x"}
	replaced := veth(oldMark)
	replaced.Replaced = true
	for name, c := range map[string]struct {
		from, to Link
		want     bool
	}{
		"nothing new": {veth(oldMark), veth(oldMark), false},
		"another MTU": {veth(oldMark),
			Link{Name: "es1a1", Type: Veth, MAC: "a", MTU: 1400, Alias: oldMark}, false},
		"another MAC": {veth(oldMark),
			Link{Name: "es1a1", Type: Veth, MAC: "b", MTU: 1500, Alias: oldMark}, false},
		"another MTU of the peer":         {veth(oldMark), with("mtu=1500", "mtu=1400"), false},
		"another MAC of the peer":         {veth(oldMark), with(":01 ", ":02 "), false},
		"another namespace":               {veth(oldMark), with("=web", "=db"), true},
		"another name of the peer":        {veth(oldMark), with("eth0", "eth1"), true},
		"another adapter":                 {veth(oldMark), with("a#0", "a#1"), true},
		"another network":                 {veth(oldMark), with("ni u", "ni v"), true},
		"a word that is not known":        {with("mtu=", "new=x mtu="), veth(oldMark), false},
		"the words of a later form":       {with(" netns=", " form=2 netns="), with("=web", "=db"), false},
		"a later form of another adapter": {with(" netns=", " form=2 netns="), with("a#0", "a#1"), true},
		"a namespace that was replaced":   {replaced, veth(oldMark), true},
		"another MAC of a bridge":         {bridge, Link{Name: "es1", Type: Bridge, MAC: "b", MTU: 1500, Alias: "x"}, false},
		"another owner of a bridge":       {bridge, Link{Name: "es1", Type: Bridge, MAC: "a", MTU: 1500, Alias: "y"}, false},
		"another type":                    {bridge, veth(oldMark), true},
		"another remote end": {tunnel(Tunnel{VNI: 256, Port: 4789}), tunnel(Tunnel{VNI: 256, Port: 4790}),
			true},
		"a tunnel that leads nowhere": {tunnel(Tunnel{VNI: 256, Lost: "no route"}), tunnel(Tunnel{VNI: 256}), true},
		"another MTU of a tunnel": {tunnel(Tunnel{VNI: 256}),
			Link{Name: "es1v256", Type: VXLAN, MTU: 9, Vxlan: &Tunnel{VNI: 256}}, false},
		"no mark on a link that is in use": {veth(""), veth(oldMark), false},
	} {
		if got := c.to.Recreate(c.from, true); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if !veth(oldMark).Recreate(veth(""), false) {
		t.Error("a link that a crash left half made is taken for a whole one")
	}
}

func TestAMarkIsReadAndNotCompared(t *testing.T) {
	want := VethMark{NI: "u", Adapter: "a#0", Netns: "web", Peer: "eth0", MAC: "02:00:00:00:00:01", MTU: 1500}
	spaced := want
	spaced.Netns = "/a peer=b mac=c/d"
	later := VethMark{NI: "u", Adapter: "a#0", Unknown: true}
	for _, c := range []struct {
		alias string
		want  VethMark
		ok    bool
	}{
		{oldMark, want, true}, // as release 0.1.0 wrote it
		{"edgespan ni u adapter a#0 form=1 more netns=web peer=eth0 new=7 mtu=1500 mac=02:00:00:00:00:01", want, true},
		{spaced.String(), spaced, true},
		{"edgespan ni u adapter a#0 form=2 netns=1 peer=2", later, true},
		{"edgespan ni u adapter a#0 netns= peer=eth0 mac=02:00:00:00:00:01 mtu=1500",
			VethMark{NI: "u", Adapter: "a#0", Peer: "eth0", MAC: want.MAC, MTU: 1500}, true},
		{"edgespan ni u adapter a#0 netns=web", VethMark{NI: "u", Adapter: "a#0"}, false},
		{"edgespan ni u adapter a#0", VethMark{NI: "u", Adapter: "a#0"}, false},
		{"edgespan ni u", VethMark{}, false},
		{"", VethMark{}, false},
	} {
		got, ok := ParseVethMark(c.alias)
		if got != c.want || ok != c.ok {
			t.Errorf("%q is read as %+v, %v", c.alias, got, ok)
		}
	}
	a := Link{Type: Veth, Alias: oldMark}
	b := Link{Type: Veth, Alias: "edgespan ni u adapter a#0 netns=web peer=eth0 mtu=1500 mac=02:00:00:00:00:01"}
	if a.Text() != b.Text() {
		t.Errorf("two spellings of one mark differ:\n%s\n%s", a.Text(), b.Text())
	}
}

func TestALaterObjectOfTheSameNameWins(t *testing.T) {
	s := NewState(File{Path: "a", Content: "1"}, File{Path: "b"}, File{Path: "a", Content: "2"})
	if got, want := s.String(), "== file a\n2\n== file b\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
