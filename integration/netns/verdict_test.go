package netns_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst"
	"edgespan/netinst/verdict"
)

var (
	verdictPackets = flag.Int("verdict-packets", 21000, "packets that TestVerdictsAreThoseOfTheKernel sends")
	verdictSeed    = flag.Int64("verdict-seed", 1, "of its rules and packets")
)

// verdictProtos are the protocols of the packets; 99 has no ports.
var verdictProtos = []uint8{unix.IPPROTO_ICMP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, 99}

// verdictAddresses are where packets go, and what rules name.
var verdictAddresses = []string{
	"10.1.0.10", "10.1.0.20", "10.1.0.30", "10.1.0.40", "10.1.0.1", "10.2.0.10", "10.2.0.20", "10.2.0.1", "10.3.0.10",
	"10.3.0.20", "10.3.0.1", "192.0.2.2", "192.0.2.1", "192.0.2.3", "198.18.0.2", "198.18.0.1", "198.18.0.3",
	"203.0.113.5", "198.51.100.9", "172.16.5.5", "169.254.0.4", "169.254.0.5",
}

// verdictOwn are the node's own, those of the ports last.
var verdictOwn = []string{"10.1.0.1", "10.2.0.1", "10.3.0.1", "192.0.2.2", "198.18.0.2"}

// verdictFar are the addresses that belong to hosts behind the ports.
var verdictFar = []string{"192.0.2.1", "192.0.2.3", "198.18.0.1", "198.18.0.3", "203.0.113.5", "198.51.100.9"}

var verdictPrefixes = []string{
	"10.0.0.0/8", "10.1.0.0/24", "10.1.0.0/27", "10.2.0.0/16", "192.0.2.0/24", "192.0.2.0/30", "198.18.0.0/15",
	"203.0.113.0/24", "198.51.100.8/31", "172.16.0.0/12", "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "2001:db8::/32",
	"169.254.0.0/16",
}

var verdictNumbers = []uint16{1, 22, 53, 67, 80, 81, 90, 443, 1023, 1024, 4000, 4001, 65535}

// verdictMapPorts are the ports that maps take, each one map of all apps'.
var verdictMapPorts = []netinst.PortRange{{First: 22, Last: 22}, {First: 53, Last: 53}, {First: 67, Last: 67},
	{First: 80, Last: 81}, {First: 90, Last: 90}, {First: 443, Last: 443}, {First: 1000, Last: 1024},
	{First: 4000, Last: 4001}, {First: 65535, Last: 65535}}

// verdictDraw draws rules and packets.
type verdictDraw struct{ *rand.Rand }

func pick[T any](d verdictDraw, list []T) T { return list[d.Intn(len(list))] }

func (d verdictDraw) ports() (list []netinst.PortRange) {
	for range d.Intn(3) + d.Intn(2)*d.Intn(2)*16 {
		first := pick(d, verdictNumbers)
		r := netinst.PortRange{First: first, Last: first}
		if d.Intn(3) == 0 {
			r.Last = max(first, pick(d, verdictNumbers))
		}
		list = append(list, r)
	}
	return list
}

func (d verdictDraw) rule(config, i int) netinst.ACLRule {
	r := netinst.ACLRule{
		Name:      fmt.Sprintf("r%d", i),
		Direction: pick(d, []netinst.Direction{netinst.Egress, netinst.Ingress, netinst.Both}),
		Action:    pick(d, []netinst.Action{netinst.Allow, netinst.Allow, netinst.Drop}),
		Protocol:  pick(d, []string{"", "", "tcp", "udp", "icmp", "99", "6", "58"}),
		PortLabel: pick(d, []string{"", "", "", "", "wan", "lan", "shared", "inner", "uplink", "freeuplink", "all", "none"}),
	}
	switch d.Intn(5) {
	case 0:
		r.IP = netip.MustParsePrefix(pick(d, verdictPrefixes6))
	case 1:
		r.IP = netip.MustParsePrefix(pick(d, verdictPrefixes))
	case 2:
		r.IP = netip.MustParsePrefix(pick(d, verdictAddresses) + "/32")
	}
	if r.Protocol == "tcp" || r.Protocol == "udp" {
		r.Ports, r.LocalPort = d.ports(), d.ports()
	}
	if d.Intn(6) == 0 {
		r.Set = d.set()
	}
	if d.Intn(6) == 0 {
		r.Action, r.Limit = netinst.Limit, netinst.RateLimit{Packets: 10000, Per: "sec", Burst: 10000}
		if d.Intn(2) == 0 { // a bucket that is written again is full: each config has another rate than the one before
			r.Limit = netinst.RateLimit{Packets: 1 + config%2, Per: "hour", Burst: 1 + d.Intn(3)}
		}
	}
	return r
}

// set draws a named set.
func (d verdictDraw) set() *netinst.AddressSet {
	entries := map[netip.Prefix]bool{}
	for range d.Intn(6) {
		if p := netip.MustParsePrefix(pick(d, verdictPrefixes)); p.Bits() > 0 {
			entries[p] = true
		}
		entries[netip.MustParsePrefix(pick(d, verdictAddresses)+"/32")] = true
		entries[netip.MustParsePrefix(pick(d, verdictFar6)+"/128")] = true
	}
	return netinst.NewAddressSet("s", slices.SortedFunc(maps.Keys(entries), netip.Prefix.Compare))
}

// portmap draws a port map of these ports, which no other map takes.
func (d verdictDraw) portmap(i int, ports netinst.PortRange) netinst.ACLRule {
	r := netinst.ACLRule{
		Name: fmt.Sprintf("m%d", i), Direction: netinst.Ingress, Action: netinst.MapPort,
		Protocol:  pick(d, []string{"tcp", "udp"}),
		PortLabel: pick(d, []string{"", "", "", "wan", "lan", "shared", "uplink"}),
		Portmap:   netinst.Portmap{Ports: ports, Target: ports},
	}
	if d.Intn(2) == 0 {
		first := pick(d, verdictNumbers[:len(verdictNumbers)-1])
		r.Portmap.Target = netinst.PortRange{First: first, Last: first + ports.Last - ports.First}
	}
	if d.Intn(4) == 0 {
		r.IP = netip.MustParsePrefix(pick(d, verdictPrefixes))
	}
	return r
}

func (d verdictDraw) rules(config int, apps []verdictApp) verdictRules {
	all := verdictRules{}
	ports := d.Perm(len(verdictMapPorts))
	for _, a := range apps {
		for i := range d.Intn(7) {
			if config%3 > 0 && a.network < verdictAirgapped && len(ports) > 0 && d.Intn(4) == 0 {
				all[a.name] = append(all[a.name], d.portmap(i, verdictMapPorts[ports[0]]))
				ports = ports[1:]
				continue
			}
			all[a.name] = append(all[a.name], d.rule(config, i))
		}
		if d.Intn(2) == 0 { // so that what one end denies is not all that is seen
			all[a.name] = append(all[a.name], netinst.ACLRule{Name: "rest", Direction: netinst.Both, Action: netinst.Allow})
		}
	}
	return all
}

// observe draws the apps whose rules only count.
func (d verdictDraw) observe(apps []verdictApp) map[string]bool {
	out := map[string]bool{}
	for _, a := range apps {
		out[a.name] = d.Intn(4) == 0
	}
	return out
}

// packet draws a packet and the name of the namespace that sends it.
func (d verdictDraw) packet(apps []verdictApp) (verdict.Packet, string) {
	if d.Intn(3) == 0 {
		return d.packet6(apps)
	}
	p := verdict.Packet{Proto: pick(d, verdictProtos), Dst: netip.MustParseAddr(pick(d, verdictAddresses)),
		SrcPort: pick(d, verdictNumbers), DstPort: pick(d, verdictNumbers)}
	if d.Intn(3) == 0 {
		p.SrcPort = uint16(1 + d.Intn(65535))
	}
	switch p.Proto {
	case unix.IPPROTO_ICMP:
		p.ICMPType = pick(d, []uint8{8, 8, 8, 13})
		p.SrcPort, p.DstPort = uint16(d.Intn(65536)), 0
	case 99:
		p.SrcPort, p.DstPort = 0, 0
	}
	from := d.Intn(20)
	switch {
	case from < 13:
		a := pick(d, apps)
		p.From, p.Adapter, p.Src = verdict.App, a.key(), a.ip
		switch d.Intn(4) {
		case 0:
			p.Dst = netip.MustParseAddr(pick(d, verdictFar))
		case 1:
			p.Dst = pick(d, apps[a.network*2-2:min(a.network*2+1, len(apps))]).ip // mostly of its own network
		case 2:
			if d.Intn(2) == 0 {
				p.Dst = netip.MustParseAddr(pick(d, verdictOwn[3:]))
			}
		}
		if d.Intn(20) == 0 {
			p.Src = netip.MustParseAddr(pick(d, verdictAddresses))
		}
		return p, a.name
	case from < 18:
		p.From, p.Port = verdict.Outside, pick(d, []string{"wan", "lan"})
		p.Src = netip.MustParseAddr(pick(d, verdictAddresses))
		if d.Intn(4) > 0 {
			p.Src, p.Dst = netip.MustParseAddr(pick(d, verdictFar)), pick(d, apps).ip
		}
		if d.Intn(3) == 0 {
			p.Dst = netip.MustParseAddr(pick(d, verdictOwn[3:]))
		}
		return p, p.Port
	}
	p.From, p.Src, p.Dst = verdict.Node, netip.MustParseAddr(pick(d, verdictOwn)), pick(d, apps).ip
	if d.Intn(3) == 0 {
		p.Src = netip.MustParseAddr(pick(d, verdictOwn[3:])) // the kernel's choice is the same address
		p.Dst = p.Src
	}
	return p, "node"
}

// flowKey is equal for two packets of one flow, in either direction.
func flowKey(p verdict.Packet) string {
	a, b := fmt.Sprint(p.Src, p.SrcPort), fmt.Sprint(p.Dst, p.DstPort)
	if p.Proto == unix.IPPROTO_ICMP || p.Proto == unix.IPPROTO_ICMPV6 {
		a, b = fmt.Sprint(p.Src, p.SrcPort, p.ICMPType), fmt.Sprint(p.Dst, p.SrcPort, p.ICMPType)
	}
	if a > b {
		a, b = b, a
	}
	return fmt.Sprint(p.Proto, " ", a, " ", b)
}

// networkOf is the number of an adapter's network, 0 for none.
func (l *verdictLab) networkOf(key netinst.AdapterKey) int {
	for _, a := range l.apps {
		if a.key() == key {
			return a.network
		}
	}
	return 0
}

// zoned is the key of a flow among those of its zone.
func (l *verdictLab) zoned(p verdict.Packet) string {
	if n := l.networkOf(p.Adapter); n >= verdictShared && p.Dst.Is4() {
		return fmt.Sprint(n, " ", flowKey(p))
	}
	return flowKey(p)
}

// expected says where a packet arrives by the evaluator's answer.
func (l *verdictLab) expected(p verdict.Packet, a verdict.Answer) string {
	if !a.Allowed() {
		return ""
	}
	p = translated(p, a)
	at := arrival{string(a.To), p.Src, p.Dst, p.DstPort}
	if n := l.networkOf(p.Adapter); a.To == verdict.Node && n >= verdictShared && p.Dst.Is4() && p.DstPort != 67 {
		at.dst = netinst.AnswerAddr(n)
	}
	switch a.To {
	case verdict.App:
		for _, app := range l.apps {
			if app.key() == a.Adapter {
				at.where = app.name
			}
		}
	case verdict.Outside:
		at.where = a.Route.Port
	}
	return at.String()
}

// translated returns a packet as it arrives.
func translated(p verdict.Packet, a verdict.Answer) verdict.Packet {
	p.Src = a.Src
	if a.Dst.IsValid() {
		p.Dst, p.DstPort = a.Dst, a.DstPort
	}
	return p
}

// buckets count the packets that have passed limits of a few packets an hour.
type buckets map[string]int

// spend reports whether the limits that a packet passes let it through: none that it meets is empty.
func (b buckets) spend(p verdict.Packet, a verdict.Answer) bool {
	routedBack := a.Decided().BuiltIn == verdict.NoAdapter && p.Dst == netip.MustParseAddr("172.16.5.5")
	if a.Decided().Adapter == (netinst.AdapterKey{}) && !routedBack {
		return true // it never met a rule
	}
	for _, c := range a.Checks {
		if c.Limit.Per != "hour" || c.Observed {
			continue
		}
		key := fmt.Sprint(c.Adapter, c.Direction, c.Rule, p.Dst.Is6())
		if b[key] == c.Limit.Burst {
			return false
		}
		b[key]++
	}
	return true
}

// sent is a packet on its way.
type sent struct {
	id     uint64
	from   string
	packet verdict.Packet
	shape  shape
	answer verdict.Answer
	want   string
}

// shoot sends packets in order from one processor, and waits until those that must arrive have, and what was sent last
// by each sender.
func (l *verdictLab) shoot(list []sent) {
	l.t.Helper()
	list = append(list, l.lastPacket())
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var one unix.CPUSet
		one.Set(0)
		err := unix.SchedSetaffinity(0, &one)
		for _, s := range list {
			if err == nil {
				if e := l.send(s); e != nil && !errors.Is(e, unix.EPERM) {
					err = fmt.Errorf("send %+v from %s: %w", s.packet, s.from, e)
				}
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		l.t.Fatal(err)
	}
	l.until(func() bool {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].want != "" && l.arrivals(list[i].id) == "" {
				return false
			}
		}
		return true
	})
}

func (l *verdictLab) send(s sent) error {
	var err error
	if s.packet.Dst.Is6() {
		for _, b := range shaped6(buildPacket6(s.packet, s.id), s.shape, uint32(s.id)) {
			err = errors.Join(err, unix.Sendto(l.senders6[s.from], b, 0, &unix.SockaddrInet6{Addr: s.packet.Dst.As16()}))
		}
		return err
	}
	for _, b := range shaped(buildPacket(s.packet, s.id), s.shape, uint16(s.id)) {
		err = errors.Join(err, unix.Sendto(l.senders[s.from], b, 0, &unix.SockaddrInet4{Addr: s.packet.Dst.As4()}))
	}
	return err
}

// lastPacket is one that arrives, whatever the rules: those before it have met the rules by then, and meet no limit of
// the next config.
func (l *verdictLab) lastPacket() sent {
	l.rounds++
	at := netip.MustParseAddr
	return sent{id: 1<<40 + l.rounds, from: "wan", want: "node",
		packet: verdict.Packet{Proto: 99, Src: at("192.0.2.3"), Dst: at("192.0.2.2")}}
}

// Random rules on several networks and apps, and packets of every kind from apps, the node and outside: each arrives
// where the evaluator says, with that address, or nowhere.
func TestVerdictsAreThoseOfTheKernel(t *testing.T) {
	runVerdicts(t, *verdictPackets, *verdictSeed)
}

func TestVerdictsAreThoseOfTheLegacyBackend(t *testing.T) {
	legacyTools(t)
	runVerdicts(t, *verdictPackets/4, *verdictSeed+1000)
}

func runVerdicts(t *testing.T, packets int, seed int64) {
	l := newVerdictLab(t)
	d := verdictDraw{rand.New(rand.NewSource(seed))}
	began, next := time.Now(), uint64(0)
	var configs, arrived, limited, observed, different int
	by := map[string]int{}
	for next < uint64(packets) && different < 5 {
		configs++
		rules, guard := d.rules(configs, l.apps), configs%5 != 0
		observe := d.observe(l.apps)
		world := l.set(rules, guard, observe)
		flows, spent := map[string]bool{}, buckets{}
		var list []sent
		for range 2000 {
			p, from := d.packet(l.apps)
			key := l.zoned(p)
			s := sent{id: next + 1, from: from, packet: p, shape: d.shape(), answer: world.Evaluate(p)}
			led, out, twin := key, key, key
			if s.answer.Allowed() { // two flows must not be one after translation, nor after that of a port map alone
				x := translated(p, s.answer)
				if out = l.zoned(x); s.answer.To == verdict.Outside {
					// What comes back has no zone. In none, either, are answers of an app with this address to what came from
					// outside: they are taken first (ADR 0070).
					out, twin = flowKey(x), flowKey(p)
				}
				x.Src = p.Src
				led = l.zoned(x)
			}
			if flows[key] || flows[led] || flows[out] || flows[twin] || p.Src == p.Dst && from != "node" || l.staysAtHome(p, from) {
				continue
			}
			flows[key], flows[led], flows[out] = true, true, true
			next++
			switch {
			case s.shape.banned(p):
			case spent.spend(p, s.answer):
				s.want = l.expected(p, s.answer)
			default:
				limited++
			}
			list = append(list, s)
		}
		l.shoot(list)
		for _, s := range list {
			got := l.arrivals(s.id)
			if slices.ContainsFunc(s.answer.Checks, func(c verdict.Check) bool { return c.Observed }) && s.want != "" {
				observed++
			}
			by[s.shape.String()]++
			by[fmt.Sprintf("%s%d ", s.packet.From, s.packet.Dst.BitLen())+string(s.answer.Verdict)+" "+string(s.answer.Decided().BuiltIn)]++
			if got != "" {
				arrived++
			}
			if got != s.want && different < 5 {
				different++
				t.Errorf("seed %d, config %d, guard %v: %v packet %d from %s %+v arrives %q, want %q\n%+v\nobserve: %v\nrules: %s", seed,
					configs, guard, s.shape, s.id, s.from, s.packet, got, s.want, s.answer,
					observe, l.concerned(s, rules))
			}
		}
	}
	t.Logf("%d packets, %d arrived, %d over a limit, %d only observed, %d configs, %d differences in %v\n%s", next, arrived, limited,
		observed, configs, different,
		time.Since(began).Round(time.Millisecond), strings.ReplaceAll(fmt.Sprint(by), " app", "\napp"))
}

// concerned returns the rules of the apps that a packet concerns.
func (l *verdictLab) concerned(s sent, rules verdictRules) (text string) {
	for _, a := range l.apps {
		if a.name == s.from || slices.ContainsFunc(s.answer.Checks, func(c verdict.Check) bool { return c.Adapter == a.key() }) {
			text += fmt.Sprintf("\n%s: %+v", a.name, rules[a.name])
		}
	}
	return text
}

// staysAtHome reports whether a packet is for the namespace that sends it.
func (l *verdictLab) staysAtHome(p verdict.Packet, from string) bool {
	for _, port := range verdictPorts() {
		for _, r := range port.DefaultRoutes {
			if from == port.Label && p.Dst == r.Gateway {
				return true
			}
		}
	}
	for _, a := range l.apps {
		if from == a.name && (a.ip == p.Dst || a.ip6() == p.Dst) {
			return true
		}
	}
	return false
}
