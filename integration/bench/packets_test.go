package bench

import (
	"flag"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
)

var (
	packetNetworks = flag.String("packet-networks", "1,0,10,100,300",
		"with how many networks BenchmarkPackets compares one network; 1, which says how much two sites differ, goes first")
	packetPairs  = flag.Int("packet-pairs", 41, "how many pairs of windows BenchmarkPackets compares")
	packetWindow = flag.Duration("packet-window", 20*time.Millisecond, "how long a window of BenchmarkPackets is")
)

var (
	uplinkNeighbour = netip.MustParseAddr("192.0.2.1")
	beyondUplink    = netip.MustParseAddr("198.51.100.9")
	nodeAddr        = netip.MustParseAddr("192.0.2.2")
	appAddrs        = []netip.Addr{netip.MustParseAddr("10.1.0.30"), netip.MustParseAddr("10.1.0.31")}
	appMACs         = []string{"02:00:00:00:01:30", "02:00:00:00:01:31"}
)

// site is a place whose uplink leads to a host. Network 1, if there is one, has two apps.
type site struct {
	*place
	host, parking *netns.NS
	listed        map[chainKey][]uint64 // the rules, once they were read
}

// newSite makes a site without any network.
func newSite(b *testing.B) *site {
	b.Helper()
	s := &site{place: newPlace(b, 2), host: netns.New(b), parking: netns.New(b)}
	s.end = append(s.end, func() { s.host.Delete(b); s.parking.Delete(b) })
	s.ns.Exec(b, "ip", "link", "set", "far0", "netns", s.host.Name)
	for _, argv := range []string{
		"ip addr add 192.0.2.1/24 dev far0", "ip link set far0 up", "ip addr add 198.51.100.9/32 dev lo",
	} {
		s.host.Exec(b, strings.Fields(argv)...)
	}
	return s
}

// edgespan has the daemon make networks. Network 1 has the two apps, each other one an app of its own, with three rules.
func (s *site) edgespan(networks int) { s.edgespanWith(networks, nil) }

// edgespanWith does so with IPv6 on network 1, if it is not nil.
func (s *site) edgespanWith(networks int, six object) {
	s.Helper()
	d, cfg := s.start(s.backendEnv()...), newDoc()
	apps := 0
	if networks > 0 {
		apps = networks + 2
		for n := range networks {
			cfg.network(n + 1)
			if n == 0 && six != nil {
				cfg["networkInstances"][niID(1)].(object)["ipv6"] = six
			}
			cfg.app(n+2, n+1, s.parking.Name, 3)
			adapter(cfg, n+2)["attach"].(object)["ifName"] = fmt.Sprintf("a%d", n+1)
		}
		for k, addr := range appAddrs {
			cfg.app(k, 1, s.apps[k].Name, 0)
			a := adapter(cfg, k)
			a["ip"], a["mac"] = addr.String(), appMACs[k]
			a["acl"] = object{
				"out": object{"direction": "egress", "match": object{"ip": "0.0.0.0/0", "protocol": "udp", "port": streamPort}},
				"in": object{"direction": "ingress", "match": object{
					"ip": subnet(1).String(), "protocol": "udp", "localPort": streamPort,
				}},
			}
		}
	}
	d.apply(cfg)
	d.settled(networks, apps)
	if networks > 0 {
		s.address()
	}
}

func adapter(cfg doc, k int) object {
	return cfg["appNetworks"][appID(k)].(object)["adapters"].(object)["0"].(object)
}

// address gives the apps of network 1 the addresses that a lease would give them.
func (s *site) address() {
	s.Helper()
	for k, a := range s.apps {
		a.Exec(s.B, "ip", "addr", "add", netip.PrefixFrom(appAddrs[k], 24).String(), "dev", "eth0")
		a.Exec(s.B, "ip", "link", "set", "eth0", "up")
		a.Exec(s.B, "ip", "route", "add", "default", "via", gateway(1).String())
	}
}

// byHand makes network 1 with the same policy as a careful person writes it.
func (s *site) byHand() {
	s.Helper()
	run := func(argv string) { s.ns.Exec(s.B, strings.Fields(argv)...) }
	run("sysctl -qw net.ipv4.ip_forward=1")
	run("ip link add br1 type bridge nf_call_iptables 1")
	run("ip addr add 10.1.0.1/24 dev br1")
	run("ip link set br1 up")
	guard, last := "table bridge guard {\n", "chain c { type filter hook prerouting priority -300\n"+
		"iifname vmap { v0 : jump v0, v1 : jump v1 }\n}\n"
	for k := range s.apps {
		run(fmt.Sprintf("ip link add v%d type veth peer name eth0 address %s netns %s", k, appMACs[k], s.apps[k].Name))
		run(fmt.Sprintf("ip link set v%d master br1 up", k))
		guard += fmt.Sprintf("chain v%d { ether saddr != %s drop; ip saddr != %s drop; arp saddr ip != %[3]s drop\n}\n", k,
			appMACs[k], appAddrs[k])
	}
	s.address()
	rules := "*filter\n:INPUT ACCEPT\n:FORWARD DROP\n" +
		"-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n" +
		"-A INPUT -i br1 -d 10.1.0.1 -p udp -m multiport --dports 53,67 -j ACCEPT\n-A INPUT -i br1 -j DROP\n" +
		"-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
	for k := range s.apps {
		rules += fmt.Sprintf("-A FORWARD -m physdev --physdev-in v%d -p udp --dport %d -j ACCEPT\n", k, streamPort)
	}
	rules += "COMMIT\n*nat\n-A POSTROUTING -s 10.1.0.0/24 -o eth0 -j MASQUERADE\nCOMMIT\n"
	s.feed(rules, restoreCommand())
	s.feed(guard+last+"}\n", "nft", "-f", "-")
}

// feed runs a command of the node with a text as its input.
func (s *site) feed(text string, argv ...string) {
	s.Helper()
	s.ns.Exec(s.B, append([]string{"sh", "-c", "printf %s \"$0\" | \"$@\"", text}, argv...)...)
}

// ways are the streams that are measured, and whether each needs a network.
var ways = []struct {
	name    string
	network bool
	open    func(s *site) *stream
}{
	{"nat", true, func(s *site) *stream {
		return newStream(s.place, s.apps[0], s.host, beyondUplink, streamPort, true)
	}},
	{"nat-unanswered", true, func(s *site) *stream {
		return newStream(s.place, s.apps[1], s.host, uplinkNeighbour, streamPort, false)
	}},
	{"lan", true, func(s *site) *stream {
		return newStream(s.place, s.apps[0], s.apps[1], appAddrs[1], streamPort, true)
	}},
	{"node-out", false, func(s *site) *stream {
		return newStream(s.place, s.ns, s.host, uplinkNeighbour, streamPort+1, true)
	}},
	{"node-in", false, func(s *site) *stream {
		return newStream(s.place, s.host, s.ns, nodeAddr, streamPort+2, true)
	}},
}

// Packets a second of an app through NAT, between two apps, and of the node itself, with many networks beside one
// network; of one network beside the same policy by hand, and beside no rule at all.
func BenchmarkPackets(b *testing.B) {
	site1 := newSite(b)
	defer site1.close()
	site1.edgespan(1)
	alike := map[string]float64{}
	for _, count := range counts(b) {
		b.Run(fmt.Sprintf("networks=%d", count), func(b *testing.B) {
			s := newSite(b)
			defer s.close()
			s.edgespan(count)
			compare(b, s, site1, count > 0, alike, count == 1)
		})
	}
	b.Run("ipv6", func(b *testing.B) { // packets of IPv4, of a network that has IPv6 too
		s := newSite(b)
		defer s.close()
		s.edgespanWith(1, object{"subnet": "fd00:1::/64", "nat": true})
		compare(b, s, site1, true, alike, false)
	})
	hand := newSite(b)
	defer hand.close()
	hand.byHand()
	b.Run("beside-by-hand", func(b *testing.B) { compare(b, site1, hand, true, alike, false) })
	bare := newSite(b)
	defer bare.close()
	b.Run("beside-none", func(b *testing.B) { compare(b, site1, bare, false, alike, false) })
	b.Run("by-hand-beside-none", func(b *testing.B) { compare(b, hand, bare, false, alike, false) })
}

func counts(b *testing.B) []int {
	b.Helper()
	var list []int
	for f := range strings.SplitSeq(*packetNetworks, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 0 || n > 900 {
			b.Fatalf("-packet-networks: invalid value %q: must be numbers of 0 to 900, separated by commas", f)
		}
		list = append(list, n)
	}
	return list
}

// windows measures two streams, one right after the other.
func windows(b *testing.B, own, other *stream, otherFirst bool) (v, o speed) {
	b.Helper()
	first, second := own, other
	if otherFirst {
		first, second = other, own
	}
	v, err := first.window(*packetWindow)
	if err == nil {
		o, err = second.window(*packetWindow)
	}
	if err != nil {
		b.Fatal(err)
	}
	if otherFirst {
		return o, v
	}
	return v, o
}

// compare measures each way of a site beside another's, in pairs of windows one right after the other. Two sites that
// were made alike differ by some hundredths for as long as they live. If these are alike, compare notes by how much in
// alike; otherwise what is noted there counts as noise, too.
func compare(b *testing.B, s, base *site, networks bool, alike map[string]float64, same bool) {
	for _, way := range ways {
		if way.network && !networks {
			continue
		}
		b.Run(way.name, func(b *testing.B) {
			// Opened anew each time: the kernel forgets an idle flow after 30 s.
			own, other := way.open(s), way.open(base)
			defer own.close()
			defer other.close()
			var ratios, cpu, wall, otherCPU []float64
			pairs, spoilt := *packetPairs*b.N, 0
			for i := 0; len(ratios) < pairs; i++ {
				v, o := windows(b, own, other, i%2 == 1)
				if !v.whole() || !o.whole() {
					if spoilt++; spoilt > 4*pairs {
						b.Fatalf("%d and %d of %d and %d packets arrive", v.packets, o.packets, v.sent, o.sent)
					}
					continue
				}
				ratios = append(ratios, v.perCPU()/o.perCPU())
				cpu, wall = append(cpu, v.perCPU()), append(wall, v.perSecond())
				otherCPU = append(otherCPU, o.perCPU())
			}
			b.ReportMetric(float64(spoilt), "spoilt")
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(middle(wall, 0.5), "pps-wall")
			b.ReportMetric(middle(cpu, 0.5), "pps")
			b.ReportMetric(middle(otherCPU, 0.5), "pps-beside")
			b.ReportMetric(middle(ratios, 0.5), "ratio")
			if same {
				alike[way.name] = math.Abs(1 - middle(ratios, 0.5))
			}
			b.ReportMetric(max(noise(ratios), alike[way.name]), "noise")
		})
	}
}
