package scenario

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"edgespan/platform/lab"
)

// portal makes the provider of the first uplink a captive portal or an honest provider again: it takes each connection
// to a web server, answers as page does, and answers each name with its own address, and its DNS server still answers.
func (w *world) portal(page http.HandlerFunc) (captive func(bool)) {
	w.Helper()
	own := net.ParseIP(lab.Gateway)
	answer := dns.HandlerFunc(func(to dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if len(q.Question) == 1 && q.Question[0].Qtype == dns.TypeA {
			hdr := dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}
			m.Answer = append(m.Answer, &dns.A{Hdr: hdr, A: own})
		}
		_ = to.WriteMsg(m)
	})
	var web net.Listener
	var names net.PacketConn
	if err := w.inside("isp", func() (err error) {
		if web, err = net.Listen("tcp", lab.Gateway+":8000"); err == nil {
			names, err = net.ListenPacket("udp", lab.Gateway+":8053")
		}
		return err
	}); err != nil {
		w.Fatal(err)
	}
	pages := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second}
	server := &dns.Server{PacketConn: names, Handler: answer}
	ended := make(chan error, 2)
	go func() { ended <- pages.Serve(web) }()
	go func() { ended <- server.ActivateAndServe() }()
	w.Cleanup(func() {
		_, _ = pages.Close(), names.Close()
		<-ended
		<-ended
	})
	return func(on bool) {
		w.Helper()
		if !on {
			w.in("isp", "nft", "delete", "table", "ip", "portal")
			return
		}
		w.in("isp", "nft", "table ip portal { chain in { type nat hook prerouting priority dstnat; iifname node0 tcp dport "+
			"{ 80, 443 } redirect to :8000; iifname node0 udp dport 53 redirect to :8053; }; }")
	}
}

// An uplink whose provider shows a portal, by a redirection or by a page in place of each other, is left by a network
// that probes a web page with a text of its own, and used again when the portal lets it through. One with default
// settings stays: the portal's DNS server answers.
func TestAnUplinkBehindACaptivePortalIsLeft(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]http.HandlerFunc{
		"redirection": func(to http.ResponseWriter, r *http.Request) {
			http.Redirect(to, r, "http://login.example.net/", http.StatusFound)
		},
		"page": func(to http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(to, "log in here, you are %s\n", r.RemoteAddr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, lab.Options{Apps: []string{"web", "client"}, Second: true})
			captive := w.portal(page)
			settings := "port: uplink\n    probe: {method: http, target: \"http://" + lab.WebName +
				"/\", body: hello from, holdMs: 500}"
			w.start(wan2 + "networkInstances:\n" + strings.Replace(network(1, ""), "port: wan", settings, 1) +
				strings.Replace(network(2, ""), "port: wan", "port: uplink", 1) + "appNetworks:\n" +
				onNet(1, 1, "web", allowAll) + onNet(2, 2, "client", allowAll))
			w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
			w.lease("web")
			w.byWan("no portal")
			captive(true)
			w.byLTE("the portal is closed")
			w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "wan  no target answers",
				map[string]string{"redirection": "redirected to login.example.net", "page": "answers another page"}[name])
			if s := w.status("ni", ni(2)); s["port"] != "wan" {
				t.Errorf("the network with default settings is %v", s)
			}
			captive(false)
			w.byWan("the portal is open")
		})
	}
}

// redirect4 is an ICMP redirect (RFC 792) of a gateway to a host: what it sent to dst is to go by another gateway.
func redirect4(gateway, host, dst, via netip.Addr, proto byte, ports ...uint16) []byte {
	quoted := ipv4(host, dst, proto, []byte{byte(ports[0] >> 8), byte(ports[0]), byte(ports[1] >> 8), byte(ports[1]), 0, 8, 0, 0})
	m := slices.Concat([]byte{5, 1, 0, 0}, via.AsSlice(), quoted)
	sum := checksum(m)
	m[2], m[3] = byte(sum>>8), byte(sum)
	return ipv4(gateway, host, 1, m)
}

// lies4 are what a hostile neighbour of an uplink sends: it is the gateway by ARP, unasked and as a question, and as the
// gateway it redirects what the node sends to the DNS and web servers to a host that does not exist.
func lies4(node, gateway netip.Addr, nodeMAC, gatewayMAC net.HardwareAddr, arp bool) (frames [][]byte) {
	own, all := net.HardwareAddr{2, 0, 0, 0, 0x66, 1}, net.HardwareAddr{255, 255, 255, 255, 255, 255}
	nobody := gateway.Next().Next().Next()
	if arp {
		reply := arpAsk(own, gateway, node, "")
		reply[7] = 2
		return [][]byte{ether(nodeMAC, own, etherARP, reply), ether(all, own, etherARP, arpAsk(own, gateway, gateway, "")),
			ether(nodeMAC, own, etherARP, arpAsk(own, gateway, node, ""))}
	}
	for _, to := range []string{lab.DNSAddr, lab.WebAddr} {
		for _, x := range []struct {
			proto byte
			port  uint16
		}{{17, 53}, {6, 80}, {17, exitPort}} {
			frames = append(frames, ether(nodeMAC, gatewayMAC, etherIPv4,
				redirect4(gateway, node, netip.MustParseAddr(to), nobody, x.proto, 40000, x.port)))
		}
	}
	return frames
}

// As an operator I have a hostile neighbour on one uplink. What it forges changes nothing for networks on the other one; a
// network that may use both is answered under redirects, leaves the uplink whose gateway is forged by ARP, and returns;
// and what the daemon spends on it is bounded.
func TestAHostileNeighbourOfAnUplinkHarmsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web", "client"}, Second: true})
	ports := "ports:\n  wan: {ifName: uplink0, uplink: true, cost: 10, dnsServers: " + lab.DNSAddr + "}\n" +
		"  lte: {ifName: uplink1, uplink: true, dnsServers: " + lab.DNSAddr + "}\n"
	both := strings.Replace(network(1, ""), "port: wan", "port: uplink\n    probe: {holdMs: 500}", 1)
	w.start(ports + "networkInstances:\n" + both + network(2, "") + "appNetworks:\n" + onNet(1, 1, "web", allowAll) +
		onNet(2, 2, "client", allowAll))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("client")
	w.byLTE("no attack")
	isp, peer := w.Provider(1).Short, w.Provider(1).Peer
	node, gateway := netip.MustParseAddr(lab.NodeAt2), netip.MustParseAddr(lab.Gateway2)
	nodeMAC, gatewayMAC := w.mac("node", w.Provider(1).Dev), w.mac(isp, peer)
	hostile, pid := w.rawOn(isp, peer), w.daemonPID()
	for _, arp := range []bool{false, true} {
		what := map[bool]string{false: "redirects", true: "ARP"}[arp]
		other, err := w.PingLoop("client", netip.MustParseAddr(lab.WebAddr), 20*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.WaitGood(w.ctx, 10); err != nil {
			t.Fatal(err)
		}
		var sent atomic.Int64
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for frames := lies4(node, gateway, nodeMAC, gatewayMAC, arp); ; {
				for _, f := range frames {
					if hostile.send(f) == nil {
						sent.Add(1)
					}
				}
				select {
				case <-pace.C:
				case <-stop:
					return
				}
			}
		}()
		cpu, began := cpuTime(t, pid), time.Now()
		if arp { // the kernel believes the neighbour, and remote targets show it
			w.byWan("the gateway is forged")
		}
		<-time.After(time.Until(began.Add(5 * time.Second)))
		if !arp && w.asked("web") == "" {
			t.Errorf("%s: the app is not answered", what)
		}
		used, long := cpuTime(t, pid)-cpu, time.Since(began)
		close(stop)
		<-ended
		t.Logf("%s: %d forged frames in %v, the daemon used %v", what, sent.Load(), long, used)
		if sent.Load() < 1000 || used > long/3 {
			t.Errorf("%s: %d forged frames in %v, and the daemon used %v", what, sent.Load(), long, used)
		}
		if c := other.Stop(); c.Lost+c.Wrong > 0 {
			t.Errorf("%s: the network on the other uplink: %s", what, c)
		}
		w.byLTE("after " + what)
	}
	if s := w.status("ni", ni(2)); s["port"] != "wan" || s["error"] != "" {
		t.Errorf("the other network is %v", s)
	}
}
