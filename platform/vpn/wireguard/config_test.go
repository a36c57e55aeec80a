package wireguard

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

func prefixes(words ...string) (out []netip.Prefix) {
	for _, w := range words {
		out = append(out, netip.MustParsePrefix(w))
	}
	return out
}

var (
	keyA, keyB, keyC = key{1}, key{2}, key{3}
	addr1            = netip.MustParseAddrPort("192.0.2.1:51820")
	addr2            = netip.MustParseAddrPort("[2001:db8::2]:1")
)

func base() config {
	return config{private: key{9}.clamped(), port: 51820, mark: 7, peers: map[key]peer{
		keyA: {endpoint: addr1, keepalive: 25, allowed: prefixes("10.0.0.1/32", "10.0.0.2/32")},
		keyB: {preshared: key{8}, allowed: prefixes("10.0.0.3/32")},
	}}
}

// A member of a cluster may claim the node's own key: it is left out, and the others are not.
func TestAClaimedKeyHarmsNoOtherMember(t *testing.T) {
	private, err := parseKey("QEqJ1YLkYvTC3SUpVUXdQVTjD6CzxGmVkUcYQdxH7kQ=")
	if err != nil {
		t.Fatal(err)
	}
	own, err := private.clamped().public()
	if err != nil {
		t.Fatal(err)
	}
	other := netstate.WireGuardPeer{Name: "b", PublicKey: key{1}.base64(),
		AllowedIPs: []netip.Prefix{netip.MustParsePrefix("fd00::2/128")}}
	w := netstate.WireGuard{Identity: netstate.ClustersIdentity, Peers: []netstate.WireGuardPeer{{Name: "a",
		PublicKey: own.base64(), AllowedIPs: []netip.Prefix{netip.MustParsePrefix("fd00::1/128")}}, other}}
	got, err := desired(netstate.VPN{WireGuard: &w}, private)
	if err != nil || len(got.peers) != 1 {
		t.Errorf("%v, %v", got.peers, err)
	}
	w.Identity = "0a000000-0000-4000-8000-000000000001"
	if _, err := desired(netstate.VPN{WireGuard: &w}, private); err == nil {
		t.Error("of a network of type vpn it is no fault")
	}
}

func TestAChangeHasOnlyWhatDiffers(t *testing.T) {
	moved := func(key) bool { return false }
	text := func(change func(c *config)) string {
		want := base()
		change(&want)
		return strings.ReplaceAll(diff(base(), want, moved).text(), "\n", " ")
	}
	a, b, c := "public_key="+keyA.hex(), "public_key="+keyB.hex(), "public_key="+keyC.hex()
	none := strings.Repeat("0", 64)
	for _, x := range []struct {
		name, want string
		change     func(c *config)
	}{
		{"nothing", "", func(*config) {}},
		{"the key", "private_key=" + key{16}.clamped().hex() + " ", func(c *config) { c.private = key{16}.clamped() }},
		{"mark, then port", "fwmark=8 listen_port=9 ", func(c *config) { c.mark, c.port = 8, 9 }},
		{"any port", "", func(c *config) { c.port = 0 }},
		{"a peer more", c + " preshared_key=" + none + " endpoint=[2001:db8::2]:1 persistent_keepalive_interval=0 " +
			"allowed_ip=10.0.0.9/32 ", func(c *config) { c.peers[keyC] = peer{endpoint: addr2, allowed: prefixes("10.0.0.9/32")} }},
		{"a peer less", b + " remove=true ", func(c *config) { delete(c.peers, keyB) }},
		{"a peer for another: the allowed IP moves before its owner goes", c + " preshared_key=" + none +
			" persistent_keepalive_interval=0 allowed_ip=10.0.0.3/32 " + b + " remove=true ", func(c *config) {
			delete(c.peers, keyB)
			c.peers[keyC] = peer{allowed: prefixes("10.0.0.3/32")}
		}},
		{"allowed IPs", a + " allowed_ip=10.0.0.4/32 allowed_ip=-10.0.0.1/32 ", func(c *config) {
			p := c.peers[keyA]
			p.allowed = prefixes("10.0.0.2/32", "10.0.0.4/32")
			c.peers[keyA] = p
		}},
		{"an allowed IP that moves is not taken away", b + " allowed_ip=10.0.0.1/32 ", func(c *config) {
			p, q := c.peers[keyA], c.peers[keyB]
			p.allowed, q.allowed = prefixes("10.0.0.2/32"), prefixes("10.0.0.1/32", "10.0.0.3/32")
			c.peers[keyA], c.peers[keyB] = p, q
		}},
		{"preshared key and keepalive", a + " preshared_key=" + key{5}.hex() + " persistent_keepalive_interval=0 ",
			func(c *config) {
				p := c.peers[keyA]
				p.preshared, p.keepalive = key{5}, 0
				c.peers[keyA] = p
			}},
		{"an endpoint stays where it has roamed to", "", func(c *config) {
			p := c.peers[keyA]
			p.endpoint = addr2
			c.peers[keyA] = p
		}},
	} {
		if got := text(x.change); got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, got, x.want)
		}
	}
	want := base()
	want.peers[keyA] = peer{endpoint: addr2, keepalive: 25, allowed: base().peers[keyA].allowed}
	moved = func(k key) bool { return k == keyA }
	if got := diff(base(), want, moved).text(); got != a+"\nendpoint=[2001:db8::2]:1\n" {
		t.Errorf("another configured endpoint: %s", got)
	}
}

func TestTheKernelTakesAnAllowedIPByGivingItAway(t *testing.T) {
	want := base()
	p := want.peers[keyA]
	p.allowed = prefixes("10.0.0.2/32")
	want.peers[keyA] = p
	cfg, err := diff(base(), want, func(key) bool { return false }).forKernel()
	if err != nil || len(cfg.Peers) != 3 {
		t.Fatalf("%+v, %v", cfg, err)
	}
	give, remove := cfg.Peers[1], cfg.Peers[2]
	if cfg.Peers[0].ReplaceAllowedIPs || len(cfg.Peers[0].AllowedIPs) != 0 || give.PublicKey != remove.PublicKey ||
		!remove.Remove || give.Remove || len(give.AllowedIPs) != 1 || give.AllowedIPs[0].String() != "10.0.0.1/32" {
		t.Errorf("%+v", cfg.Peers)
	}
}

func TestADigestIsOfWhatMustBeAsDesired(t *testing.T) {
	same := base().digest("s", false)
	for name, change := range map[string]func(c *config){
		"an endpoint": func(c *config) { p := c.peers[keyA]; p.endpoint = addr2; c.peers[keyA] = p },
		"counters": func(c *config) {
			p := c.peers[keyA]
			p.sent, p.received, p.handshake = 1, 2, time.Unix(3, 0)
			c.peers[keyA] = p
		},
	} {
		c := base()
		if change(&c); c.digest("s", false) != same {
			t.Errorf("%s changes it", name)
		}
	}
	for name, change := range map[string]func(c *config){
		"private key":   func(c *config) { c.private = key{1} },
		"port":          func(c *config) { c.port++ },
		"mark":          func(c *config) { c.mark++ },
		"peer":          func(c *config) { delete(c.peers, keyB) },
		"preshared key": func(c *config) { p := c.peers[keyA]; p.preshared = key{4}; c.peers[keyA] = p },
		"keepalive":     func(c *config) { p := c.peers[keyA]; p.keepalive++; c.peers[keyA] = p },
		"allowed IPs":   func(c *config) { p := c.peers[keyA]; p.allowed = p.allowed[:1]; c.peers[keyA] = p },
	} {
		c := base()
		if change(&c); c.digest("s", false) == same {
			t.Errorf("%s does not change it", name)
		}
	}
	other := base()
	other.port = 40000
	if base().digest("s", true) != other.digest("s", true) || base().digest("s", true) == base().digest("r", true) {
		t.Error("a port that may be any, or the salt")
	}
}

func TestWhatAnInterfaceTells(t *testing.T) {
	text := "private_key=" + key{9}.clamped().hex() + "\nlisten_port=51820\nfwmark=7\n" +
		"public_key=" + keyB.hex() + "\npreshared_key=" + key{8}.hex() + "\nprotocol_version=1\nallowed_ip=10.0.0.3/32\n" +
		"public_key=" + keyA.hex() + "\npreshared_key=" + key{}.hex() + "\nendpoint=192.0.2.1:51820\n" +
		"last_handshake_time_sec=5\nlast_handshake_time_nsec=6\ntx_bytes=7\nrx_bytes=8\npersistent_keepalive_interval=25\n" +
		"allowed_ip=10.0.0.2/32\nallowed_ip=10.0.0.1/32"
	c, err := parseConfig(strings.Split(text, "\n"))
	if err != nil || c.digest("", false) != base().digest("", false) {
		t.Fatalf("%+v, %v", c, err)
	}
	a := c.peers[keyA]
	if a.endpoint != addr1 || !a.handshake.Equal(time.Unix(5, 6)) || a.sent != 7 || a.received != 8 {
		t.Errorf("%+v", a)
	}
	for _, wrong := range []string{"private_key=ab", "public_key=x", "listen_port=x", "fwmark=4294967296"} {
		if _, err := parseConfig([]string{wrong}); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// Keys of peers are replaced as long as a tunnel lives: only those that it has are counted.
func TestHandshakesOfAReplacedPeerAreForgotten(t *testing.T) {
	one := tunnel{counts: map[key]*count{}}
	for i := range 100 {
		public := key{1, byte(i)}
		r := record{}
		r.Peers = []recordedPeer{{Name: "b", PublicKey: public.base64()}}
		have := config{peers: map[key]peer{public: {handshake: time.Unix(10, 0)}}}
		var s netstate.TunnelStatus
		one.peers(&s, r, have, notes{}, time.Unix(20, 0))
		have.peers[public] = peer{handshake: time.Unix(15, 0)}
		s = netstate.TunnelStatus{}
		if one.peers(&s, r, have, notes{}, time.Unix(20, 0)); len(s.Peers) != 1 || s.Peers[0].Rekeys != 1 {
			t.Fatalf("key %d: %+v", i, s.Peers)
		}
	}
	if len(one.counts) != 1 {
		t.Errorf("%d peers are counted", len(one.counts))
	}
}

func TestErrorsOfAConfigHaveNoSecret(t *testing.T) {
	const secret = "c2VjcmV0c2VjcmV0"
	good := netstate.WireGuardPeer{Name: "hub", PublicKey: keyA.base64(), AllowedIPs: prefixes("10.0.0.0/8")}
	own, err := key{9}.clamped().public()
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(p *netstate.WireGuardPeer){
		"peer b: public key: must be 32 bytes in base64":        func(p *netstate.WireGuardPeer) { p.PublicKey = secret },
		"peer b: preshared key: must be 32 bytes in base64":     func(p *netstate.WireGuardPeer) { p.PresharedKey = secret },
		`peer b: endpoint "vpn.example.org": must be HOST:PORT`: func(p *netstate.WireGuardPeer) { p.Endpoint = "vpn.example.org" },
		"peer b: allowed IPs: 10.0.0.0/8 is of peer hub, too": func(p *netstate.WireGuardPeer) {
			p.AllowedIPs = prefixes("10.1.2.3/8")
		},
		"peer b: public key: is that of another peer, too": func(p *netstate.WireGuardPeer) { p.PublicKey = good.PublicKey },
		"peer b: public key: is this node's own":           func(p *netstate.WireGuardPeer) { p.PublicKey = own.base64() },
	} {
		bad := netstate.WireGuardPeer{Name: "b", PublicKey: keyB.base64()}
		change(&bad)
		v := netstate.VPN{WireGuard: &netstate.WireGuard{Peers: []netstate.WireGuardPeer{good, bad}}}
		if _, err := desired(v, key{9}); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestSilenceIsExplainedAsFarAsItCanBeKnown(t *testing.T) {
	now := time.Unix(10000, 0)
	at := netip.MustParseAddr("192.0.2.1")
	ago := func(d time.Duration) map[netip.Addr]time.Time { return map[netip.Addr]time.Time{at: now.Add(-d)} }
	for _, x := range []struct {
		peer     peer
		endpoint string
		lookup   error
		noted    notes
		want     string
	}{
		{peer: peer{handshake: now.Add(-200 * time.Second), endpoint: addr1},
			want: "peer silent for 3 min: no handshake since 1970-01-01T02:43:20Z"},
		{peer: peer{endpoint: addr1}, want: "no handshake yet: nothing was sent to the peer"},
		{peer: peer{endpoint: addr1, sent: 148}, want: "no answer from 192.0.2.1:51820: " +
			"unreachable, or does not know this node's key, or has another public key?"},
		{want: "the peer has not called yet, and no endpoint of it is configured"},
		{endpoint: "vpn.example.org:1", want: "endpoint name is not resolved yet"},
		{endpoint: "vpn.example.org:1", lookup: errNoKernel,
			want: "endpoint name can't be resolved: the kernel has no WireGuard"},
		{peer: peer{endpoint: addr1, sent: 1}, noted: notes{badResponse: ago(time.Second)},
			want: "its answers from 192.0.2.1 can't be authenticated: wrong preshared key?"},
		{peer: peer{endpoint: addr1, sent: 1}, noted: notes{badInitiation: ago(time.Second), badResponse: ago(time.Hour)},
			want: "a handshake from 192.0.2.1 is of a key that is not configured: wrong public key of the peer?"},
	} {
		if got := silence(x.peer, x.endpoint, x.lookup, x.noted, now); got != x.want {
			t.Errorf("%s\nwant %s", got, x.want)
		}
	}
}

func TestAHelperIsKnownByItsCommandLine(t *testing.T) {
	const folder = "/run/edgespan/ni/3/vpn"
	for line, want := range map[string]bool{
		"/usr/bin/edgespan wireguard-tunnel " + folder + " evpn3":      true,
		"/opt/old/edgespan wireguard-tunnel " + folder + " evpn3":      true,
		"/usr/bin/edgespan wireguard-tunnel " + folder + "0 evpn30":    false,
		"grep wireguard-tunnel " + folder:                              false,
		"/usr/bin/edgespan node " + folder + " evpn3":                  false,
		"tail -f wireguard-tunnel " + folder + " evpn3 wireguard.json": false,
	} {
		if got := isHelper(strings.Fields(line), folder); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestPrefixesAreSortedAndOnce(t *testing.T) {
	got := sorted(prefixes("10.0.0.0/8", "::/0", "10.0.0.0/16", "10.0.0.0/8", "0.0.0.0/0"))
	if want := prefixes("0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/16", "::/0"); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
