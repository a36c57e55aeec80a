package scenario

import (
	wire "encoding/binary"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/platform/lab"
)

var allNodes6 = netip.MustParseAddr("ff02::1")

// frame6 returns an Ethernet frame with an ICMPv6 message.
func frame6(from net.HardwareAddr, src, dst netip.Addr, kind byte, body []byte) []byte {
	return slices.Concat(group6(dst), from, []byte{0x86, 0xdd}, packet6(src, dst, 58, icmp6(src, dst, kind, body)))
}

// advert6 is a router advertisement with the highest preference (RFC 4191 §2.2) and a prefix.
func advert6(from net.HardwareAddr, src netip.Addr, lifetime uint16, prefix netip.Addr) []byte {
	body := wire.BigEndian.AppendUint16([]byte{64, 0x08}, lifetime)
	body = slices.Concat(append(body, make([]byte, 8)...), []byte{1, 1}, from, []byte{3, 4, 64, 0xc0})
	body = wire.BigEndian.AppendUint32(wire.BigEndian.AppendUint32(body, uint32(lifetime)), uint32(lifetime))
	return frame6(from, src, allNodes6, 134, slices.Concat(body, make([]byte, 4), prefix.AsSlice()))
}

// lies6 are what a hostile neighbour sends: it is many routers, the end of the real one, and many hosts that ask for the
// node. No more of each than the kernel's table of neighbours, which all networks of this machine share, has room for.
func lies6(real netip.Addr, realMAC net.HardwareAddr, node netip.Addr) (frames [][]byte) {
	for n := range 100 {
		mac := net.HardwareAddr{2, 0, 0, 0, 0x66, byte(n)}
		local := netinst.EUI64(netip.MustParsePrefix("fe80::/64"), mac.String())
		prefix := netip.MustParsePrefix("2001:db8:" + strconv.FormatInt(int64(0x6600+n%10), 16) + "::/64").Addr()
		ask := slices.Concat(make([]byte, 4), node.AsSlice(), []byte{1, 1}, mac)
		frames = append(frames, advert6(mac, local, 3, prefix), advert6(realMAC, real, 0, prefix),
			frame6(mac, local, allNodes6, 135, ask))
	}
	return frames
}

// steadyPings are echo requests each 20 ms for some time, of which lost returns how many percent had no answer.
type steadyPings struct {
	w    *world
	name string
	out  strings.Builder
	wait func() error
}

var lossOf = regexp.MustCompile(`(\d+(?:\.\d+)?)% packet loss`)

func (w *world) steadyPings(name, short, to string, long time.Duration) *steadyPings {
	w.Helper()
	p := &steadyPings{w: w, name: name}
	cmd := w.Command(w.ctx, short, "ping", "-q", "-i", "0.02", "-c", strconv.Itoa(int(long/(20*time.Millisecond))), "-W", "1", to)
	cmd.Stdout, cmd.Stderr, p.wait = &p.out, &p.out, cmd.Wait
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	return p
}

func (p *steadyPings) lost() float64 {
	p.w.Helper()
	_ = p.wait() // an error means that answers are missing
	found := lossOf.FindStringSubmatch(p.out.String())
	if found == nil {
		p.w.Fatalf("%s: %s", p.name, &p.out)
	}
	lost, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		p.w.Fatal(err)
	}
	p.w.Logf("%s: %v %% lost", p.name, lost)
	return lost
}

// As an operator I have a hostile neighbour on one uplink: by forged router advertisements and neighbour discovery it
// changes nothing of networks on other uplinks, nor of its own where the kernel listens to no advertisement.
func TestForgedRoutersOfAnUplinkMoveNothingElse(t *testing.T) {
	t.Parallel() // late answers count, and the processor time is that of the daemon
	const six2 = "2001:db8:7:2::/64"
	w := newWorldOf(t, lab.Options{Apps: []string{"web", "client"}, Second: true})
	w.provide6(0)
	w.provide6(1)
	two := strings.Replace(network6(2, `subnet: "`+six2+`", nat: true`), "port: wan", "port: lte", 1)
	one := strings.Replace(network6(1, `subnet: "`+net6+`", nat: true`), "port: wan", "port: uplink\n    "+targets6, 1)
	w.start(wan2 + "networkInstances:\n" + one + two + "appNetworks:\n" + onNet(1, 1, "web", allowAll) +
		onNet(2, 2, "client", allowAll))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	for n, app := range []string{"web", "client"} {
		w.lease(app)
		w.slaac(app, []string{net6, six2}[n])
		w.eventually("IPv6 of "+app, func() bool {
			r, err := w.Exec(w.ctx, app, "ping", "-6", "-c", "1", "-W", "1", isp6Web)
			return err == nil && r.Code == 0
		})
	}
	dev, peer := w.Provider(1).Dev, w.Provider(1).Peer
	mac := w.mac(w.Provider(1).Short, peer)
	link := netip.MustParsePrefix("fe80::/64")
	router, node := netinst.EUI64(link, mac.String()), netinst.EUI64(link, w.mac("node", dev).String())
	routes := func() string {
		return w.in("node", "ip", "-6", "route", "show", "table", strconv.Itoa(netinst.Table(1)), "default") + "\n" +
			w.in("node", "ip", "-6", "route", "show", "table", strconv.Itoa(netinst.Table(2)), "default")
	}
	// other returns the default route by the other uplink: either network may have the first table.
	other := func(routes string) string {
		return regexp.MustCompile(`(?m)^default .* dev ` + lab.Uplink + ` .*$`).FindString(routes)
	}
	attacked := func(what string, both bool) {
		before, moved := routes(), strings.Count(w.cli("events", "--kind", "uplink"), "\n")
		const long = 8 * time.Second
		pid, began := w.daemonPID(), time.Now()
		cpu := cpuTime(t, pid)
		f := w.rawOn(w.Provider(1).Short, peer)
		pings := []*steadyPings{w.steadyPings("IPv6 of the other uplink", "web", isp6Web, long),
			w.steadyPings("IPv4 of the other uplink", "web", lab.WebAddr, long),
			w.steadyPings("IPv4 of the uplink", "client", lab.WebAddr, long)}
		if both {
			pings = append(pings, w.steadyPings("IPv6 of the uplink", "client", isp6Web, long))
		}
		sent, lies := 0, lies6(router, mac, node)
		for pace := time.NewTicker(10 * time.Millisecond); time.Since(began) < long; <-pace.C {
			for range 20 {
				if f.send(lies[sent%len(lies)]) == nil {
					sent++
				}
			}
		}
		used := cpuTime(t, pid) - cpu
		t.Logf("%s: %d forged packets in %v, the daemon used %v", what, sent, long, used)
		if sent < 5000 || used > long/2 {
			t.Errorf("%s: %d forged packets in %v, and the daemon used %v", what, sent, long, used)
		}
		for _, p := range pings {
			if lost := p.lost(); lost > 1 {
				t.Errorf("%s: %s lost %v %%", what, p.name, lost)
			}
		}
		now := routes()
		if other(before) == "" || other(now) != other(before) || both && now != before {
			t.Errorf("%s: the default routes were\n%s\nand are\n%s", what, before, now)
		}
		if n := strings.Count(w.cli("events", "--kind", "uplink"), "\n"); n != moved {
			t.Errorf("%s: uplinks have moved: %s", what, w.cli("events", "--kind", "uplink"))
		}
	}
	w.in("node", "sysctl", "-qw", "net.ipv6.conf."+dev+".accept_ra=0")
	w.in("node", "ip", "-6", "route", "replace", "default", "via", router.String(), "dev", dev, "metric", "100")
	w.eventually("the static route", func() bool { return strings.Contains(routes(), router.String()) })
	attacked("no advertisement is accepted", true)
	w.in("node", "sysctl", "-qw", "net.ipv6.conf."+dev+".accept_ra=1")
	w.in("node", "ip", "-6", "route", "del", "default", "via", router.String(), "dev", dev, "metric", "100")
	attacked("advertisements are accepted", false)
	w.eventually("the real router is back", func() bool {
		r, err := w.Exec(w.ctx, "client", "ping", "-6", "-c", "1", "-W", "1", isp6Web)
		return err == nil && r.Code == 0 && strings.Contains(routes(), router.String())
	})
}
