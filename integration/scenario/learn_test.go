package scenario

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
)

// learnt waits until the status of an app's only adapter has these addresses, first the one that it shows alone.
func (w *world) learnt(a int, ip string, others ...string) {
	w.Helper()
	all := append([]string{ip}, others...)
	slices.SortFunc(all, func(a, b string) int { return netip.MustParseAddr(a).Compare(netip.MustParseAddr(b)) })
	got := ""
	defer func() {
		if w.Failed() {
			w.Logf("the status has %s", got)
		}
	}()
	want := fmt.Sprintf("ip %s of %s", ip, strings.Join(all, ","))
	w.eventually(want, func() bool {
		got = fmt.Sprintf("ip %s of %s", w.adapterStatus(a, "ip"), w.adapterStatus(a, "addresses"))
		return got == want
	})
}

// inform sends a DHCPINFORM with a client's address to a DHCP server, and returns the answer.
func (w *world) inform(app string, client netip.Addr, server string) []byte {
	w.Helper()
	p := make([]byte, 240)
	p[0], p[1], p[2] = 1, 1, 6
	copy(p[4:], "info")
	copy(p[12:], client.AsSlice())
	copy(p[28:], w.mac(app, "eth0"))
	copy(p[236:], "\x63\x82\x53\x63")
	p = append(p, 53, 1, 8, 55, 1, 6, 255) // DHCPINFORM with a request for the DNS servers
	var conn *net.UDPConn
	err := w.inside(app, func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: client.AsSlice(), Port: 68})
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answer := make([]byte, 2048)
	for range 10 {
		if _, err := conn.WriteToUDP(p, &net.UDPAddr{IP: net.ParseIP(server), Port: 67}); err != nil {
			w.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := conn.Read(answer); err == nil && n > 240 && string(answer[4:8]) == "info" {
			return answer[:n]
		}
	}
	w.Fatalf("no answer to a DHCPINFORM of %s", client)
	return nil
}

func TestTheAddressThatAnOutsideServerGivesIsLearntAndFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "a")
	w.segment()
	w.start(lanDoc([]string{switchNetwork(1, "lan")}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	first := w.lease("a").IP
	w.learnt(1, first.String())

	w.eventually("the lease is observed, too", func() bool {
		l := w.leaseOf("app1/0") // the daemon may have begun to watch after the lease
		return l.State != nodeapi.NoLease && l.Address == first && l.Server.String() == "10.77.0.1" && !l.Expected.IsValid() ||
			w.lease("a").IP != first
	})

	// A client that has an address only requests options: the answer names no address.
	answer := w.inform("a", first, "10.77.0.1")
	if answer[0] != 2 || string(answer[16:20]) != "\x00\x00\x00\x00" || netip.AddrFrom4([4]byte(answer[12:16])) != first {
		t.Errorf("the answer is no acknowledge of a DHCPINFORM: % x", answer[:20])
	}
	// A later address is learnt, so the answer was received too.
	w.in("a", "ip", "addr", "add", "10.77.0.20/24", "dev", "eth0")
	w.in("a", "ip", "neigh", "flush", "dev", "eth0")
	w.in("a", "ping", "-c1", "-W2", "-I", "10.77.0.20", "10.77.0.1")
	w.learnt(1, first.String(), "10.77.0.20")

	// The server now assigns other addresses, higher and lower ones: the old address disappears at once.
	for _, addresses := range []string{"10.77.0.200,10.77.0.210", "10.77.0.30,10.77.0.40"} {
		w.serveDHCP(addresses)
		next := w.lease("a").IP
		if from, to, _ := strings.Cut(addresses, ","); next.Less(netip.MustParseAddr(from)) ||
			netip.MustParseAddr(to).Less(next) {
			t.Fatalf("the server gives %s of %s", next, addresses)
		}
		w.learnt(1, next.String(), "10.77.0.20")
	}
}
