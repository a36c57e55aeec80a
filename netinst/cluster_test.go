package netinst

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
)

// clusterInput is a switch network with two tunnels and a member.
func clusterInput(adapters ...Adapter) Input {
	in := switchInput(adapters...)
	in.Config.MTU = 1450
	in.Config.Members = []IfName{"can0"}
	in.Config.Tunnels = []Tunnel{
		{Name: "beta", VNI: 256, Local: ip("192.0.2.1"), Remote: ip("192.0.2.2"), Port: 4789, MTU: 1450},
		{Name: "gamma", VNI: 258, Local: ip("2001:db8::1"), Remote: ip("2001:db8::3"), Port: 4789, MTU: 1430},
	}
	return in
}

// encryptedInput is the same with encrypted tunnels: the place of beta is known, gamma must begin.
func encryptedInput(adapters ...Adapter) Input {
	in := clusterInput(adapters...)
	in.Config.WireGuardPort = 21821
	for i := range in.Config.Tunnels {
		t := &in.Config.Tunnels[i]
		t.Local, t.Remote, t.Port, t.MTU = ip("fd12:3456:789a::1"), ip(fmt.Sprint("fd12:3456:789a::", i+2)), 23821, 1370
		t.Encrypted = &TunnelKey{PublicKey: fmt.Sprint("key of ", t.Name)}
	}
	in.Config.Tunnels[0].Encrypted.Endpoint = netip.MustParseAddrPort("192.0.2.2:21821")
	return in
}

func TestDesiredOfAClusterGolden(t *testing.T) {
	vm := web()
	vm.Config.Spec.Kind, vm.Config.Spec.HostIfName = Tap, "vm0"
	mesh := clusterInput(vm)
	for i := range mesh.Config.Tunnels {
		mesh.Config.Tunnels[i].Isolated = true
	}
	alone := clusterInput()
	alone.Config.Members = nil
	encrypted := encryptedInput(web())
	for name, in := range map[string]Input{"cluster_star": clusterInput(web()), "cluster_mesh": mesh,
		"cluster_tunnels": alone, "cluster_encrypted": encrypted} {
		t.Run(name, func(t *testing.T) { golden(t, name, describe(DesiredState(in))) })
	}
}

// Whatever a part waits for, the rest of the network is as it would be without that part.
func TestAPartThatWaitsChangesNothingElse(t *testing.T) {
	whole := DesiredState(clusterInput(web())).State
	for name, c := range map[string]struct {
		change func(*Input)
		part   string
		waits  string
	}{
		"no local address": {
			func(in *Input) { in.Config.Tunnels[0].Local = netip.Addr{} }, "es1v256",
			"this node's own address in the underlay is not known yet",
		},
		"no remote address": {
			func(in *Input) { in.Config.Tunnels[0].Remote = netip.Addr{} }, "es1v256", "the address of beta is not known yet",
		},
		"no address": {
			func(in *Input) { in.Config.Tunnels[0].Local, in.Config.Tunnels[0].Remote = netip.Addr{}, netip.Addr{} }, "es1v256",
			"this node's own address in the underlay is not known yet, and the address of beta is not known yet",
		},
		"two families": {
			func(in *Input) { in.Config.Tunnels[0].Local = ip("2001:db8::1") }, "es1v256",
			"the local address 2001:db8::1 and the address 192.0.2.2 of beta are of different families",
		},
		"a number twice": {
			func(in *Input) { in.Config.Tunnels[1].VNI = 256 }, "es1v258", "its number 256 is that of the tunnel to beta",
		},
	} {
		in := clusterInput(web())
		c.change(&in)
		d := DesiredState(in)
		var waits []string
		for _, p := range d.Parts {
			if (p.Waits == "") == (len(p.IDs) == 0) {
				t.Errorf("%s: %s waits %q and has %v", name, p.Name, p.Waits, p.IDs)
			}
			if p.Waits != "" {
				waits = append(waits, p.Waits)
			}
		}
		if !slices.Equal(waits, []string{c.waits}) {
			t.Errorf("%s: waits %q, want %q", name, waits, c.waits)
		}
		for _, id := range whole.IDs() {
			o, ok := d.State[id]
			switch {
			case id.Name == c.part && ok:
				t.Errorf("%s: %s is wanted", name, id)
			case id.Name != c.part && (!ok || o.Text() != without(whole[id].Text(), fmt.Sprintf(": %q", c.part))):
				t.Errorf("%s: %s is another", name, id)
			}
		}
	}
}

// without returns the lines of a text that do not end with a suffix: the elements of a link.
func without(text, suffix string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool {
		return strings.HasSuffix(l, suffix)
	}), "\n")
}

// A link that belongs to an app or to edgespan is never an open port: no rule would filter it.
func TestALinkThatIsAnAppsIsNoMember(t *testing.T) {
	vm := web()
	vm.Config.Spec.Kind, vm.Config.Spec.HostIfName = Tap, "vm0"
	for member, why := range map[IfName]string{
		"vm0":   "interface vm0 belongs to the adapter " + key(appA, 0).String(),
		"es1a2": "interface es1a2 has a name that only links of edgespan have",
		"es2":   "interface es2 has a name that only links of edgespan have",
		"es9v1": "interface es9v1 has a name that only links of edgespan have",
	} {
		in := clusterInput(vm)
		plain := DesiredState(func() Input { in := in; in.Config.Members = nil; return in }())
		in.Config.Members = []IfName{member}
		d := DesiredState(in)
		if got := d.Parts[len(d.Parts)-1].Waits; got != why {
			t.Errorf("%s: %q, want %q", member, got, why)
		}
		if d.State.String() != plain.State.String() {
			t.Errorf("%s changes the network", member)
		}
	}
}

// Only a switch network has tunnels and members.
func TestALocalNetworkHasNoTunnels(t *testing.T) {
	in, with := input(web()), input(web())
	with.Config.Tunnels, with.Config.Members = clusterInput().Config.Tunnels, clusterInput().Config.Members
	if DesiredState(in).State.String() != DesiredState(with).State.String() || DesiredState(with).Parts != nil {
		t.Error("a local network has tunnels")
	}
}

func TestNamesOfTunnelsFitTheKernel(t *testing.T) {
	if name := TunnelIfName(MaxNumber, 1<<24-1); len(name) > 15 {
		t.Errorf("%s has %d octets", name, len(name))
	}
	in := clusterInput()
	in.Config.Tunnels[0].Name = strings.Repeat("n", 300)
	l := DesiredState(in).State[netstate.ID{Kind: netstate.KindLink, Name: "es1v256"}].(netstate.Link)
	if len(l.Alias) > maxAlias {
		t.Errorf("the alias has %d octets", len(l.Alias))
	}
}

// The digest of a config is computed from its JSON: configs without tunnels must keep their digest.
func TestAConfigWithoutTunnelsIsSpelledAsBefore(t *testing.T) {
	text, err := json.Marshal(config())
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"Tunnels", "Members"} {
		if strings.Contains(string(text), word) {
			t.Errorf("%s in %s", word, text)
		}
	}
}

// The peers of an encrypted cluster, each with one address inside. A node that claims the key of another shares that
// one's tunnel; a tunnel without a key waits alone.
func TestThePeersOfAnEncryptedCluster(t *testing.T) {
	peersOf := func(in Input) string {
		for _, o := range DesiredState(in).State {
			if v, is := o.(netstate.VPN); is {
				if v.Mark != 0 || v.MTU != 1440 || v.WireGuard.ListenPort != 21821 ||
					v.WireGuard.Identity != netstate.ClustersIdentity {
					t.Errorf("the interface: %s, %+v", v.Text(), v.WireGuard)
				}
				return fmt.Sprint(v.WireGuard.Peers)
			}
		}
		return "none"
	}
	in := encryptedInput()
	if got, want := peersOf(in), "[{beta key of beta  192.0.2.2:21821 [fd12:3456:789a::2/128] 25 } "+
		"{gamma key of gamma   [fd12:3456:789a::3/128] 25 }]"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	in.Config.Tunnels[1].Encrypted.PublicKey = in.Config.Tunnels[0].Encrypted.PublicKey
	if got, want := peersOf(in), "[{beta key of beta   [fd12:3456:789a::2/128 fd12:3456:789a::3/128] 25 }]"; got !=
		want {
		t.Errorf("one key twice: got %s\nwant %s", got, want)
	}
	in.Config.Tunnels[1].Encrypted.PublicKey = ""
	d := DesiredState(in)
	if got := d.Parts[1].Waits; got != "the key of gamma is not known yet" {
		t.Errorf("without a key: %q", got)
	}
	in.Config.Tunnels[0].Encrypted.PublicKey = ""
	if got := peersOf(in); got != "none" {
		t.Errorf("without any key: %s", got)
	}
}

// A member that reports this node's own key is no peer. Its tunnel waits: with no peer at all there is no WireGuard, and
// a VXLAN without it would send frames in the clear.
func TestAMemberWithThisNodesKeyHasNoTunnel(t *testing.T) {
	for name, claimants := range map[string]int{"one": 1, "all": 2} {
		in := encryptedInput()
		in.Config.ClusterKey = "own"
		for i := range claimants {
			in.Config.Tunnels[1-i].Encrypted.PublicKey = "own"
		}
		d := DesiredState(in)
		links, peers := 0, 0
		for _, o := range d.State {
			switch o := o.(type) {
			case netstate.Link:
				if o.Type == netstate.VXLAN {
					links++
				}
			case netstate.VPN:
				peers += len(o.WireGuard.Peers)
			}
		}
		if want := 2 - claimants; links != want || peers != want {
			t.Errorf("%s: %d links and %d peers, want %d", name, links, peers, want)
		}
		if got := d.Parts[1].Waits; got != "gamma reports this node's own key" {
			t.Errorf("%s: waits for %q", name, got)
		}
	}
}

// A key that another node has announced is a peer without addresses. One that is claimed twice, or in use, is none: a
// member that announces another's key gets nothing of that one's, and neither does one that shares its key.
func TestTheSuccessorsOfAnEncryptedCluster(t *testing.T) {
	for name, c := range map[string]struct {
		change func(beta, gamma *TunnelKey)
		want   string
	}{
		"none":             {func(_, _ *TunnelKey) {}, ""},
		"one":              {func(b, _ *TunnelKey) { b.NextKey = "next" }, "beta next after key of beta"},
		"both":             {func(b, g *TunnelKey) { b.NextKey, g.NextKey = "x", "y" }, "beta x after key of beta, gamma y after key of gamma"},
		"one key of two":   {func(b, g *TunnelKey) { b.NextKey, g.NextKey = "x", "x" }, ""},
		"another's key":    {func(b, _ *TunnelKey) { b.NextKey = "key of gamma" }, ""},
		"its own key":      {func(b, _ *TunnelKey) { b.NextKey = b.PublicKey }, ""},
		"this node's":      {func(b, _ *TunnelKey) { b.NextKey = "own" }, ""},
		"of a shared key":  {func(b, g *TunnelKey) { g.PublicKey, g.NextKey = b.PublicKey, "mine" }, ""},
		"of the only peer": {func(b, g *TunnelKey) { b.NextKey, g.PublicKey = "x", "" }, "beta x after key of beta"},
		"of a waiting one": {func(_, g *TunnelKey) { g.PublicKey, g.NextKey = "", "mine" }, ""},
	} {
		in := encryptedInput()
		in.Config.ClusterKey = "own"
		c.change(in.Config.Tunnels[0].Encrypted, in.Config.Tunnels[1].Encrypted)
		var got []string
		for _, o := range DesiredState(in).State {
			if v, is := o.(netstate.VPN); is {
				if !strings.Contains(v.Text(), "wireguard key own ") {
					t.Errorf("%s: another key is no other tunnel: %s", name, v.Text())
				}
				for _, p := range v.WireGuard.Peers {
					if p.Succeeds != "" {
						got = append(got, p.Name+" "+p.PublicKey+" after "+p.Succeeds)
					}
					if p.Succeeds != "" && len(p.AllowedIPs)+p.Keepalive > 0 {
						t.Errorf("%s: %+v", name, p)
					}
				}
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// The packets of an encrypted cluster over a network of type vpn have the mark by which that network's rule leads them
// into its tunnel; without that rule they are unreachable.
func TestAnEncryptedClusterOverATunnel(t *testing.T) {
	in := encryptedInput()
	in.Config.Over = uuid.MustParse("00000000-0000-4000-8000-000000000077")
	mark := overMark(in.Config.Over)
	if mark&^uint32(TunnelMask) != 0 || mark&tunnelBits == 0 || mark&overBit == 0 || mark>>16 == TunnelMark>>16 {
		t.Errorf("mark %#x", mark)
	}
	state := DesiredState(in).State
	if v := state[netstate.ID{Kind: netstate.KindVPN, Name: netstate.VPNName(in.Owner.Number)}].(netstate.VPN); v.Mark != mark {
		t.Errorf("the tunnel has the mark %#x", v.Mark)
	}
	rules := func(s netstate.State, lookup, base int) (found int) {
		for _, o := range s {
			if r, is := o.(netstate.Rule); is && r.Mark == mark && r.Table == lookup && s[r.After] != nil &&
				r.Priority == base+in.Owner.Number {
				found++
			}
		}
		return found
	}
	if got := rules(state, UnderlayTable(in.Owner.Number), ruleBoundBase); got != 2 {
		t.Errorf("%d rules lead what no tunnel takes nowhere", got)
	}
	over := vpnInput()
	over.Config.UUID = in.Config.Over
	if got := rules(DesiredState(over).State, Table(over.Owner.Number), ruleTunnelBase); got != 1 {
		t.Errorf("%d rules of the network lead into its tunnel", got)
	}
	if over.Config.Inactive = true; rules(DesiredState(over).State, Table(over.Owner.Number), ruleTunnelBase) != 0 {
		t.Error("without a tunnel there is a rule")
	}
	other := in
	other.Config.Over = uuid.Nil
	for _, o := range DesiredState(other).State {
		if r, is := o.(netstate.Rule); is && r.Mark != 0 {
			t.Errorf("over another underlay: %s", r.Text())
		}
	}
}

// The guard takes the VXLAN of an encrypted cluster from its own interface alone, and nothing else from there.
func TestAnEncryptedClusterIsSealed(t *testing.T) {
	rules := func(ns ...HostNetwork) string {
		for _, o := range HostState(ns) {
			if c, is := o.(netstate.Chain); is && c.Family == netstate.InetFamily {
				return strings.Join(c.Rules, "\n")
			}
		}
		return ""
	}
	plain := rules(HostNetwork{Number: 1, Switch: true})
	if strings.Contains(plain, "seal") || strings.Contains(plain, "evpn") {
		t.Errorf("without an encrypted cluster:\n%s", plain)
	}
	got := rules(HostNetwork{Number: 1, Switch: true, Sealed: 23821}, HostNetwork{Number: 7, Switch: true, Sealed: 23822})
	for _, want := range []string{
		`elements = { "evpn1" : goto unseal-1, "evpn7" : goto unseal-7 }`,
		"chain unseal-7 {\nmeta l4proto 58 accept\nmeta nfproto ipv6 udp dport 23822 accept\ndrop\n}",
		"iifname vmap @seals\nmeta nfproto ipv6 udp dport >= 23821 udp dport < 23823 jump sealed\n",
		"chain sealed {\nmeta nfproto ipv6 udp dport 23821 drop\nmeta nfproto ipv6 udp dport 23822 drop\n}",
		fromTunnel + "drop", toTunnel + "drop"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
