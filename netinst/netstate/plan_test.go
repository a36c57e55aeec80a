package netstate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "edgespan/netinst/netstate"
)

// markOf is the alias of a veth whose peer is in a namespace.
func markOf(netns string) string {
	return VethMark{NI: "x", Adapter: "a#0", Netns: netns, Peer: "eth0", MTU: 1500}.String()
}

func id(k Kind, name string) ID { return ID{k, name} }

// drawState draws a consistent state of a network with some adapters: what an object needs exists.
func drawState(t *rapid.T, label string) State {
	s := State{}
	v := func(what string) string { return rapid.SampledFrom([]string{"1", "2"}).Draw(t, label+" "+what) }
	yes := func(what string) bool { return rapid.Bool().Draw(t, label+" "+what) }
	if !yes("network") {
		return s
	}
	s.Add(
		Sysctl{Key: "net/ipv4/ip_forward", Value: v("sysctl")},
		File{Path: "ni/1/conf", Dir: true}, File{Path: "ni/1/conf/dnsmasq.conf", Content: v("conf")},
		Link{Name: "es1", Type: Bridge, MAC: "m" + v("bridge mac"), MTU: 1500}, Port{Link: "es1"},
		Address{Link: "es1", Prefix: "10.1.0.1/24"},
		Route{Table: 20001, Dst: "10.1.0.0/24", Type: Unicast, Dev: "es1"},
		Route{Table: 20001, Dst: "0.0.0.0/0", Type: Unicast, Dev: "es1", Via: "10.1.0." + v("gateway")},
		Rule{Priority: 20001, From: "10.1.0.0/24", Table: 20001},
		Chain{Family: IPv4, Table: "filter", Name: "ES1-FWD", Rules: []string{"-j " + v("fwd")}},
	)
	reload := ""
	for k := 1; k <= 3; k++ {
		name := fmt.Sprint("es1a", k)
		if !yes(name) {
			continue
		}
		c := Chain{Family: IPv4, Table: "filter", Name: fmt.Sprintf("ES1-%dE", k), Rules: []string{"-j " + v(name+" chain")}}
		f := File{Path: "ni/1/conf/dhcp-hosts/" + name, Content: v(name + " file")}
		s.Add(c, f, Link{Name: name, Type: Veth, Alias: markOf(v(name + " netns")), MTU: 1500},
			Port{Link: name, Master: "es1", After: []ID{c.ID(), id(KindChain, "ipv4/filter/ES1-FWD")}})
		reload += name + f.Content
	}
	s.Add(Process{
		Name: "ni/1/dnsmasq", Digest: s[id(KindFile, "ni/1/conf/dnsmasq.conf")].Text(), Reload: reload,
		After: []ID{id(KindFile, "ni/1/conf/dnsmasq.conf"), id(KindPort, "es1")},
	})
	return s
}

// host applies ops as a kernel would, and refuses an object whose needs are missing.
type host State

func (h host) do(op Op) error {
	for _, it := range op.Items {
		name := it.ID()
		if it.Want == nil {
			if h[name] == nil {
				return fmt.Errorf("%s isn't there", name)
			}
			delete(h, name)
			if name.Kind == KindLink { // the kernel removes what depends on it
				delete(h, id(KindPort, name.Name))
			}
			continue
		}
		if (op.Verb == Add) != (h[name] == nil) && name.Kind != KindChain {
			return fmt.Errorf("%s: have %v", op, h[name])
		}
		h[name] = it.Want
	}
	for _, it := range op.Items {
		if it.Want == nil {
			continue
		}
		for _, n := range it.Want.Needs() {
			if h[n] == nil {
				return fmt.Errorf("%s: needs %s", op, n)
			}
		}
	}
	return nil
}

func TestDiffOfEqualStatesIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t, "s")
		if p := Diff(s, s); len(p) != 0 {
			t.Fatalf("%v", p)
		}
	})
}

func TestPlanLeadsFromHaveToWant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := drawState(t, "have"), drawState(t, "want")
		on := host{}
		for k, v := range have {
			on[k] = v
		}
		run := NewRun(Diff(have, want))
		for op, ok := run.Next(); ok; op, ok = run.Next() {
			if err := on.do(op); err != nil {
				t.Fatal(err)
			}
			checkGuard(t, on, want, op)
			run.Done(op, nil)
		}
		if d := cmp.Diff(want.String(), State(on).String()); d != "" {
			t.Fatal(d)
		}
		if fs := run.Failures(); len(fs) > 0 {
			t.Fatal(fs)
		}
	})
}

// checkGuard checks that an adapter in the bridge always has a chain, that its chain is not replaced after its port is
// up, and that its chain outlives its port.
func checkGuard(t *rapid.T, on host, want State, op Op) {
	for k := 1; k <= 3; k++ {
		port, chain := id(KindPort, fmt.Sprint("es1a", k)), id(KindChain, fmt.Sprintf("ipv4/filter/ES1-%dE", k))
		if on[port] == nil {
			continue
		}
		if on[chain] == nil {
			t.Fatalf("after %s %s is up without its chain", op, port.Name)
		}
		if op.Verb != Remove && op.Kind == KindPort && op.Items[0].ID() == port && on[chain].Text() != want[chain].Text() {
			t.Fatalf("%s came before its chain was as wanted", op)
		}
	}
}

// place finds an op by its text.
func place(t *testing.T, p Plan, text string) int {
	t.Helper()
	i := slices.IndexFunc(p, func(op Op) bool { return op.String() == text })
	if i < 0 {
		t.Fatalf("no %q in %v", text, p)
	}
	return i
}

func ordered(t *testing.T, p Plan, texts ...string) {
	t.Helper()
	for i := 1; i < len(texts); i++ {
		if place(t, p, texts[i-1]) >= place(t, p, texts[i]) {
			t.Errorf("%q comes after %q in\n%v", texts[i-1], texts[i], p)
		}
	}
}

func one(adapter bool) State {
	chain := Chain{Family: IPv4, Table: "filter", Name: "ES1-1E"}
	s := NewState(
		File{Path: "ni/1/conf", Dir: true}, File{Path: "ni/1/conf/dnsmasq.conf", Content: "a"},
		Link{Name: "es1", Type: Bridge}, Address{Link: "es1", Prefix: "10.1.0.1/24"}, Port{Link: "es1"},
		Route{Table: 1, Dst: "10.1.0.0/24", Dev: "es1"}, Route{Table: 1, Dst: "0.0.0.0/0", Dev: "eth0", Via: "192.0.2.1"},
		Rule{Priority: 20001, Table: 1}, Process{Name: "ni/1/dnsmasq"}, Sysctl{Key: "net/ipv4/ip_forward", Value: "1"},
	)
	if adapter {
		s.Add(chain, File{Path: "ni/1/conf/dhcp-hosts/a", Content: "x"}, Link{Name: "es1a1", Type: Veth, Alias: markOf("1")},
			Port{Link: "es1a1", Master: "es1", After: []ID{chain.ID()}}, Process{Name: "ni/1/dnsmasq", Reload: "a"})
	}
	return s
}

func TestOrderOfMaking(t *testing.T) {
	ordered(t, Diff(State{}, one(true)),
		"add file ni/1/conf", "add file ni/1/conf/dnsmasq.conf",
		"change chain ipv4/filter/ES1-1E", "add link es1", "add link es1a1", "add address es1 10.1.0.1/24",
		"add sysctl net/ipv4/ip_forward", "add port es1",
		"add route 10.1.0.0/24 table 1 metric 0", "add route 0.0.0.0/0 table 1 metric 0", "add rule 20001",
		"add process ni/1/dnsmasq", "add port es1a1")
}

func TestOrderOfRemoving(t *testing.T) {
	ordered(t, Diff(one(true), State{}),
		"remove port es1a1", "remove process ni/1/dnsmasq", "remove rule 20001", "remove route 10.1.0.0/24 table 1 metric 0",
		"remove address es1 10.1.0.1/24", "remove sysctl net/ipv4/ip_forward", "remove chain ipv4/filter/ES1-1E",
		"remove port es1", "remove file ni/1/conf/dnsmasq.conf",
		"remove file ni/1/conf", "remove link es1a1, es1")
}

func TestReloadComesAfterFilesHaveGone(t *testing.T) {
	ordered(t, Diff(one(true), one(false)),
		"remove port es1a1", "remove chain ipv4/filter/ES1-1E", "remove file ni/1/conf/dhcp-hosts/a",
		"reload process ni/1/dnsmasq", "remove link es1a1")
}

// A process that watches no folder knows a new client only after it has reread its files.
func TestReloadComesBeforeTheLinkOfANewClient(t *testing.T) {
	ordered(t, Diff(one(false), one(true)),
		"add file ni/1/conf/dhcp-hosts/a", "change chain ipv4/filter/ES1-1E", "add link es1a1", "reload process ni/1/dnsmasq",
		"add port es1a1")
	have := one(false)
	have.Add(File{Path: "ni/1/conf/dhcp-hosts/b", Content: "y"}, Process{Name: "ni/1/dnsmasq", Reload: "b"})
	plan := Diff(have, one(true))
	ordered(t, plan, "reload process ni/1/dnsmasq", "add port es1a1", "remove file ni/1/conf/dhcp-hosts/b")
	ordered(t, plan[place(t, plan, "add port es1a1"):], "remove file ni/1/conf/dhcp-hosts/b",
		"reload process ni/1/dnsmasq")
	var kept []string
	for _, op := range plan {
		if op.Verb == Reload {
			kept = append(kept, op.Items[0].Want.(Process).Reload)
		}
	}
	if !slices.Equal(kept, []string{"b", "a"}) {
		t.Errorf("on record after each reload: %q; one cut short between them would not be done again", kept)
	}
	lost := one(true) // deleted by another process
	delete(lost, ID{KindFile, "ni/1/conf/dhcp-hosts/a"})
	ordered(t, Diff(lost, one(true)), "add file ni/1/conf/dhcp-hosts/a", "reload process ni/1/dnsmasq")
	same := one(false)
	same.Add(Process{Name: "ni/1/dnsmasq", Reload: "b"}) // as a former release worded it
	ordered(t, Diff(same, one(false)), "reload process ni/1/dnsmasq")
}

func TestChangedProcessIsReplacedAfterFilesHaveGone(t *testing.T) {
	want := one(false)
	want.Add(Process{Name: "ni/1/dnsmasq", Digest: "new"})
	ordered(t, Diff(one(true), want), "remove file ni/1/conf/dhcp-hosts/a", "change process ni/1/dnsmasq")
}

// A daemon that was killed in the middle of a plan leaves the files of adapters that have gone, and no process.
func TestAProcessStartsAfterFilesHaveGone(t *testing.T) {
	have := one(true)
	delete(have, ID{KindProcess, "ni/1/dnsmasq"})
	ordered(t, Diff(have, one(false)), "remove file ni/1/conf/dhcp-hosts/a", "add process ni/1/dnsmasq")
}

func TestALinkThatCannotChangeIsRecreated(t *testing.T) {
	want := one(true)
	want.Add(Link{Name: "es1a1", Type: Veth, Alias: markOf("2")})
	ordered(t, Diff(one(true), want), "remove link es1a1", "add link es1a1", "add port es1a1")
	mtu := one(true)
	mtu.Add(Link{Name: "es1a1", Type: Veth, Alias: markOf("1"), MTU: 1400})
	if got := Diff(one(true), mtu); len(got) != 1 || got[0].String() != "change link es1a1" {
		t.Errorf("got %v", got)
	}
}

func TestAFailureStopsOnlyWhatNeedsIt(t *testing.T) {
	for _, tc := range []struct {
		fails   string
		err     error
		waiting []string
	}{
		{"change chain ipv4/filter/ES1-1E", errors.New("refused"), []string{"port es1a1"}},
		{"add link es1a1", fmt.Errorf("open netns: %w", ErrWaiting), []string{"port es1a1"}},
		{"add rule 20001", errors.New("refused"), nil},
		{"add link es1", errors.New("refused"),
			[]string{"address es1 10.1.0.1/24", "port es1", "route 10.1.0.0/24 table 1 metric 0", "port es1a1"}},
	} {
		t.Run(tc.fails, func(t *testing.T) {
			run := NewRun(Diff(State{}, one(true)))
			for op, ok := run.Next(); ok; op, ok = run.Next() {
				if op.String() == tc.fails {
					run.Done(op, tc.err)
				}
			}
			fs := run.Failures()
			if len(fs) != 1+len(tc.waiting) || fs[0].Err != tc.err.Error() || fs[0].Waiting != errors.Is(tc.err, ErrWaiting) {
				t.Fatalf("got %v", fs)
			}
			var waiting []string
			for _, f := range fs[1:] {
				if !f.Waiting || !strings.HasPrefix(f.Err, "waits for ") {
					t.Errorf("got %v", f)
				}
				waiting = append(waiting, f.ID.String())
			}
			if d := cmp.Diff(tc.waiting, waiting); d != "" {
				t.Error(d)
			}
		})
	}
}
