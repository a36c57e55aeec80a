package resolvconf

import (
	"net/netip"
	"strings"
	"testing"
)

func text(f found) string {
	var words []string
	for _, a := range f.servers {
		words = append(words, a.String())
	}
	s := strings.Join(words, " ")
	if len(f.skipped) > 0 {
		s += " (" + strings.Join(f.skipped, "; ") + ")"
	}
	return s
}

func TestParseAssignments(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"# This is private data. Do not parse.\nADMIN_STATE=configured\nDNS=192.0.2.53 2001:db8::53\nNTP=192.0.2.1\n": "192.0.2.53 2001:db8::53",
		"DNS=\n": "",
		"DNS=192.0.2.53#dns.example [2001:db8::1]:53#x 192.0.2.54:53": "192.0.2.53 2001:db8::1 192.0.2.54",
		"DNS=192.0.2.53:853#dot.example":                              " (server 192.0.2.53:853: only port 53 can be asked)",
		"DNS=fe80::1%2 ::ffff:192.0.2.1":                              "fe80::1 192.0.2.1",
		"XDNS=192.0.2.1\nDNS=rm -rf\n": " (not an IP address: \"rm\"; not an IP address: " +
			"\"-rf\")",
		"DNS=a" + strings.Repeat("b", 100): " (not an IP address: \"a" + strings.Repeat("b", 39) +
			"…\")",
		"DNS=" + strings.Repeat("9.9.9.9 ", 17): strings.TrimSpace(strings.Repeat("9.9.9.9 ", 16)) +
			" (more than 16 servers)",
	} {
		if got := text(parseAssignments(in, "DNS")); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestParseResolvConf(t *testing.T) {
	for in, want := range map[string]string{
		"# Generated\nsearch example.net\nnameserver 192.0.2.53\n nameserver\t2001:db8::53 # x\n": "192.0.2.53 2001:db8::53",
		"nameserver\nnameserver 127.0.0.53\noptions edns0":                                        "127.0.0.53",
		";nameserver 192.0.2.1\nnameserver fe80::1%eth0":                                          "fe80::1",
	} {
		if got := text(parseResolvConf(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

const leases = `default-duid "\000\001;{";
lease {
  interface "eth0";
  fixed-address 192.0.2.9;
  option domain-name-servers 192.0.2.1;
  expire 4 2026/11/22 10:00:00;
}
lease {
  interface "eth1";
  fixed-address 203.0.113.2;
  option domain-name "a;b}\"c";
  option domain-name-servers 203.0.113.53, 203.0.113.54;
}
lease {
  interface "eth0";
  fixed-address 192.0.2.2;
  option domain-name-servers 198.51.100.53,198.51.100.54;
}
lease {
  interface "eth2";
`

func TestParseLeases(t *testing.T) {
	want := []struct{ link, address, servers string }{
		{"eth0", "192.0.2.2", "198.51.100.53 198.51.100.54"}, {"eth1", "203.0.113.2", "203.0.113.53 203.0.113.54"},
	}
	for _, cut := range []int{0, strings.Index(leases, "fixed-address 192.0.2.9")} { // also from within a lease
		got := parseLeases(leases[cut:])
		if cut > 0 { // the first that is whole is eth1's
			want[0], want[1] = want[1], want[0]
		}
		if len(got) != len(want) {
			t.Fatalf("%d leases: %+v", len(got), got)
		}
		for i, w := range want {
			if got[i].link != w.link || got[i].address != netip.MustParseAddr(w.address) || text(got[i].found) != w.servers {
				t.Errorf("got %+v, want %+v", got[i], w)
			}
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("DNS=192.0.2.53 [::1]:53#x\nnameserver 1.1.1.1\n" + leases)
	f.Add("lease {interface \"a\";}")
	f.Fuzz(func(t *testing.T, in string) {
		check := func(x found) {
			if len(x.servers) > maxServers || len(x.skipped) > 3 {
				t.Errorf("%d servers, %d reasons", len(x.servers), len(x.skipped))
			}
			for _, why := range x.skipped {
				if len(why) > 300 || strings.ContainsAny(why, "\n\x00\x1b") {
					t.Errorf("the reason %q", why)
				}
			}
			for _, a := range x.servers {
				if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
					t.Errorf("the server %v", a)
				}
			}
		}
		check(parseAssignments(in, "DNS"))
		check(parseResolvConf(in))
		all := parseLeases(in)
		if len(all) > maxLeases {
			t.Errorf("%d leases", len(all))
		}
		for _, l := range all {
			check(l.found)
		}
	})
}
