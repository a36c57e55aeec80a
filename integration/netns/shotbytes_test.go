package netns_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"edgespan/netinst/probe"
	shots "edgespan/platform/probe"
)

// What a shot says that it has sent and received is what the interface has counted.
func TestAShotCountsItsBytes(t *testing.T) {
	u := newUplinks(t)
	u.names(0, answerA(remoteTarget))
	u.listen(0, 443)
	u.serveHTTP(0, 80, nil, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 20_000)+"it works")
	})
	u.node.Exec(t, "sysctl", "-qw", "net.ipv6.conf.wan0.disable_ipv6=1")
	counted := func() (sum int) {
		_, text, _ := strings.Cut(u.node.Exec(t, "cat", "/proc/net/dev"), "wan0:")
		for _, word := range []string{strings.Fields(text)[0], strings.Fields(text)[8]} { // received, sent
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}
	check := func(x probe.ID) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), shotTime)
		defer cancel()
		x.IfName, x.Servers = "wan0", remoteTarget
		before := counted()
		_, bytes, err := shots.Shoot(ctx, u.node.Path, x)
		defer func() {
			t.Logf("%s %s: %d bytes, the interface has counted %d; %v", x.Method, x.Target, bytes, counted()-before, err)
		}()
		until(t, "the interface has counted the shot", func() bool { // the end of a connection follows
			n := counted() - before
			if x.Method == probe.HTTP && x.Body == "" {
				n = min(n, max(bytes, n-8<<10)) // what the server sends after the shot, of the rest of its page
			}
			return bytes > n*8/10-100 && bytes < n*12/10+100
		})
	}
	all := []probe.ID{
		{Method: probe.ARP, Target: "192.0.2.1"},
		{Method: probe.ICMP, Target: remoteTarget},
		{Method: probe.ICMP, Target: "www.example.org"},
		{Method: probe.DNS, Target: remoteTarget},
		{Method: probe.TCP, Target: remoteTarget + ":443"},
		{Method: probe.TCP, Target: remoteTarget + ":9"},
		{Method: probe.HTTP, Target: "http://" + remoteTarget},
		{Method: probe.HTTP, Target: "http://" + remoteTarget, Body: "it works"},
	}
	for _, x := range all {
		check(x)
	}
	u.node.Exec(t, "ip", "neigh", "replace", "192.0.2.1", "lladdr", "02:00:00:00:00:99", "dev", "wan0", "nud", "permanent")
	u.kill(0)
	for _, x := range all { // other packets cross the interface, such as the end of connections
		ctx, cancel := context.WithTimeout(t.Context(), shotTime)
		x.IfName, x.Servers = "wan0", remoteTarget
		if _, bytes, _ := shots.Shoot(ctx, u.node.Path, x); bytes < 42 || bytes > 400 {
			t.Errorf("%s %s without an answer: %d bytes", x.Method, x.Target, bytes)
		}
		cancel()
	}
}
