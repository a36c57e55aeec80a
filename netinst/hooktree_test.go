package netinst

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
)

// Creating, changing or losing a network rewrites no chain of iptables that others share: the host state only gets
// branches of its hookTrees, and only for numbers whose digits are new.
func TestTheHostsChainsNameNoNetwork(t *testing.T) {
	chains := func(numbers ...int) map[string]string {
		var ns []HostNetwork
		for _, n := range numbers {
			ns = append(ns, HostNetwork{Number: n,
				Subnet:  netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24),
				Gateway: netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}), Ports: []HostPort{{IfName: "eth0", Opened: true}}})
		}
		texts := map[string]string{}
		for _, o := range HostState(ns) {
			if c, is := o.(netstate.Chain); is && c.Family == netstate.IPv4 {
				texts[c.Table+" "+c.Name] = c.Text()
			}
		}
		return texts
	}
	var all []int
	for n := 1; n <= MaxNumber; n++ {
		all = append(all, n)
	}
	every := chains(all...)
	for n := 1; n <= MaxNumber; n++ {
		for name, text := range chains(n) {
			if every[name] != text {
				t.Fatalf("with network %d alone %s is %q, and with all %q", n, name, text, every[name])
			}
		}
	}
	branches := func(chains map[string]string) (n int) {
		for name := range chains {
			if strings.HasPrefix(name, "filter ES-NETS-FROM-") {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		want    int
		numbers []int
	}{{1, []int{7}}, {1, []int{7, 70, 79}}, {2, []int{7, 700}}, {4, []int{1, 9, 100, 109, 999}}, {99, all}} {
		if n := branches(chains(c.numbers...)); n != c.want {
			t.Errorf("%d branches for %d networks, want %d", n, len(c.numbers), c.want)
		}
	}
}

// The first packet of a bridge meets the hook of its network, and few others before it.
func TestAFirstPacketMeetsFewHooks(t *testing.T) {
	hooks := map[string][]netstate.Hook{} // by parent; of the tree's branches and of the networks
	names := map[netstate.Hook]string{}
	lead := func(to string, h netstate.Hook) { hooks[h.Parent], names[h] = append(hooks[h.Parent], h), to }
	var ns []HostNetwork
	for n := 1; n <= MaxNumber; n++ {
		ns = append(ns, HostNetwork{Number: n})
	}
	for _, o := range hookTrees(ns) {
		for _, h := range o.(netstate.Chain).Hooks {
			lead(o.(netstate.Chain).Name, h)
		}
	}
	for n := 1; n <= MaxNumber; n++ {
		lead(chainName(n, "FWD"), netsFrom.hook(n))
	}
	for n := 1; n <= MaxNumber; n++ {
		crossed, found := 0, ""
		var walk func(chain string)
		walk = func(chain string) {
			for _, h := range hooks[chain] {
				if crossed++; isLink(strings.TrimPrefix(h.Match, "-i "), string(BridgeName(n))) && found == "" {
					if found = names[h]; strings.HasPrefix(found, netsFrom.root) {
						found = ""
						walk(names[h])
					}
				}
				if found != "" {
					return
				}
			}
		}
		if walk(netsFrom.root); found != chainName(n, "FWD") {
			t.Fatalf("a packet of network %d comes to %q", n, found)
		}
		if crossed > 9+21+10 {
			t.Errorf("a packet of network %d meets %d hooks", n, crossed)
		}
	}
}

// leads returns the chain of an adapter to which a chain of a network leads a packet, and how many rules it meets.
func (s sim) leads(name string, h hop) (to string, crossed int) {
	for _, r := range s.chains[name].Rules {
		crossed++
		target, jump, hit := s.match(strings.Fields(r), h)
		if _, branch := s.chains[target]; !hit || jump && target != "DROP" {
			continue
		} else if !branch || !strings.HasPrefix(target, name[:len("ES1-EGR")]) {
			return target, crossed
		}
		to, more := s.leads(target, h)
		return to, crossed + more
	}
	return "", crossed
}

// In a network with many adapters, too, the first packet of a flow meets few rules before those of its adapter.
func TestAFirstPacketMeetsFewAdapters(t *testing.T) {
	for _, typ := range []Type{Local, Switch} {
		for _, count := range []int{1, fewAdapters, fewAdapters + 1, 300} {
			var adapters []Adapter
			for k := 1; k <= count; k++ {
				id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(strconv.Itoa(k)))
				a := adapter(id, 0, k, netip.AddrFrom4([4]byte{10, 1, byte(8 + k>>8), byte(k)}).String(), "a")
				adapters = append(adapters, a)
			}
			if count > fewAdapters { // an interface of a virtual machine, with a name of its own
				adapters[5].Config.Spec.Kind, adapters[5].Config.Spec.HostIfName = Tap, "vm5"
			}
			in := input(adapters...)
			in.Config.Type, in.Config.IPv4.Subnet = typ, prefix("10.1.0.0/16")
			s := newSim(t, DesiredState(in).State)
			maxCrossed := 0
			for k, a := range adapters {
				link := string(network{Input: in, n: 1, bridge: "es1"}.hostIfName(a))
				dst := netip.AddrPortFrom(a.Lease.IP, 80)
				hops := map[string]hop{"EGR E": {physIn: link}, "ING I": {physOut: link, bridged: true, dst: dst}}
				if typ == Local {
					hops["INP N"], hops["OUT M"] = hop{physIn: link}, hop{dst: dst}
					hops["ING  I"] = hop{dst: dst} // routed
				}
				for chain, h := range hops {
					from, of, _ := strings.Cut(chain, " ")
					to, crossed := s.leads("ES1-"+from, h)
					if want := chainName(1, strconv.Itoa(k+1)+strings.TrimSpace(of)); to != want {
						t.Fatalf("%s, %d adapters: %s leads %+v to %q, want %q", typ, count, from, h, to, want)
					}
					maxCrossed = max(maxCrossed, crossed)
				}
			}
			if maxCrossed > 60 {
				t.Errorf("%s: one of %d adapters meets %d rules", typ, count, maxCrossed)
			}
			for _, h := range []hop{{physIn: "es1a9999"}, {physIn: "es1a12x"}} {
				if to, _ := s.leads("ES1-EGR", h); to != "DROP" {
					t.Errorf("%s, %d adapters: a link of none, %+v, leads to %q", typ, count, h, to)
				}
			}
		}
	}
}

// A subnet as wide as the first level hangs in the root.
func TestTheHookOfASubnet(t *testing.T) {
	for subnet, parent := range map[string]string{"10.0.0.0/8": RootPostrouting, "10.0.0.0/12": "ES-POST-10.0.0.0-8",
		"10.1.5.0/24": "ES-POST-10.1.0.0-20", "10.1.5.8/29": "ES-POST-10.1.5.0-28"} {
		if h := sourceHook(prefix(subnet)); h.Parent != parent || h.Match != "-s "+subnet {
			t.Errorf("%s: %+v, want in %s", subnet, h, parent)
		}
	}
}

func TestTheHostDoesNotDependOnTheOrderOfNetworks(t *testing.T) {
	ns := []HostNetwork{{Number: 3, Switch: true, Sealed: 23823}, {Number: 1, Switch: true, Sealed: 23821},
		{Number: 2, Switch: true, Sealed: 23822}, {Number: 12, Subnet: prefix("10.1.0.0/24"), Gateway: ip("10.1.0.1")},
		{Number: 7, Subnet: prefix("10.2.0.0/24"), Gateway: ip("10.2.0.1")}}
	want := HostState(ns).String()
	for range len(ns) {
		ns = append(ns[1:], ns[0])
		if got := HostState(ns).String(); got != want {
			t.Errorf("from %d on:\n%s\nwant\n%s", ns[0].Number, got, want)
		}
	}
	if ns[0].Number != 3 {
		t.Error("the caller's networks were sorted")
	}
}
