package netns_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// lease requests an address as an app does and returns udhcpc's variables, or nil without a lease.
func (l *fwLab) lease(ns string) map[string]string {
	l.t.Helper()
	script := filepath.Join(l.runDir, "udhcpc.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = bound ] && env\nexit 0\n"), 0o755); err != nil {
		l.t.Fatal(err)
	}
	l.in(ns, "ip", "link", "set", "eth0", "up")
	out := l.try(ns, "udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "2", "-T", "1", "-s", script,
		"-O", "hostname", "-O", "mtu", "-O", "ntpsrv", "-O", "staticroutes", "-O", "domain")
	got := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		k, v, ok := strings.Cut(line, "=")
		switch k {
		case "ip", "mask", "router", "dns", "domain", "hostname", "mtu", "ntpsrv", "staticroutes":
			if ok {
				got[k] = v
			}
		}
	}
	if got["ip"] == "" {
		return nil
	}
	return got
}

func TestFirewallLabDHCPOptions(t *testing.T) {
	t.Parallel()
	l := newFwLab(t)
	l.apply(netstate.State{},
		netinst.HostState([]netinst.HostNetwork{{Number: 1, Subnet: netip.MustParsePrefix("10.1.0.0/24")}}))
	odd := l.fwAdapter("b", 2, "10.1.0.130")
	odd.Config.Spec.Hostname = "120" // without quoting, dnsmasq would read it as a lease time
	in := l.fwInput(1, true, l.fwAdapter("a", 1, "10.1.0.128"), odd)
	in.Config.NTPServers = []netip.Addr{netip.MustParseAddr("192.0.2.123")}
	in.Config.MTU = 1400
	l.apply(netstate.State{}, netinst.DesiredState(in).State)
	want := map[string]string{
		"ip": "10.1.0.128", "mask": "24", "router": "10.1.0.1", "dns": "10.1.0.1", "domain": "edge.test", "hostname": "app-a",
		"mtu": "1400", "ntpsrv": "192.0.2.123",
		"staticroutes": "10.0.99.0/24 10.1.0.129 0.0.0.0/0 10.1.0.1 192.0.2.0/24 10.1.0.1",
	}
	if d := cmp.Diff(want, l.lease("a")); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if got := l.lease("b"); got["ip"] != "10.1.0.130" || got["hostname"] != "120" {
		t.Errorf("the odd name got %v", got)
	}
	for name, want := range map[string]string{
		"app-a": "10.1.0.128\n", "app-a.edge.test": "10.1.0.128\n", "120.edge.test": "10.1.0.130\n",
		"gateway.edge.test": "10.1.0.1\n", "nobody.edge.test": "", "nobody": "",
	} {
		if got := l.try("node", "dig", "+short", "+time=2", "+tries=1", "@10.1.0.1", name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := l.try("world", "dig", "+short", "+time=1", "+tries=1", "@10.1.0.1", "app-a.edge.test"); strings.Contains(got,
		"10.1.0.128") {
		t.Errorf("the network's DNS answers the world: %q", got)
	}
}

func TestFirewallLabAirGappedAppGetsNoRouter(t *testing.T) {
	t.Parallel()
	l := newFwLab(t)
	l.apply(netstate.State{},
		netinst.HostState([]netinst.HostNetwork{{Number: 1, Subnet: netip.MustParsePrefix("10.1.0.0/24")}}))
	in := l.fwInput(1, true, l.fwAdapter("a", 1, "10.1.0.128"))
	in.Config.Port, in.Config.Routes, in.Config.DNS.Domain = "", nil, ""
	l.apply(netstate.State{}, netinst.DesiredState(in).State)
	want := map[string]string{"ip": "10.1.0.128", "mask": "24", "dns": "10.1.0.1", "hostname": "app-a", "mtu": "1500"}
	if d := cmp.Diff(want, l.lease("a")); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// askEvery is the pause between two lookups of an app, each of two queries: an app may ask 512 a second.
const askEvery = 5 * time.Millisecond

// askForever queries one name in a loop from a namespace and counts answers and failures until stop is called.
func (l *fwLab) askForever(ns, server, name, want string) (answers *atomic.Int64, stop func() (failed int64)) {
	var bad atomic.Int64
	answers = &atomic.Int64{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (c net.Conn, err error) {
		err = l.inside(ns, func() (err error) { c, err = net.Dial("udp4", server); return err })
		return c, err
	}}
	go func() {
		defer close(done)
		pace := time.NewTicker(askEvery)
		defer pace.Stop()
		for ctx.Err() == nil {
			<-pace.C
			c, cancel := context.WithTimeout(context.Background(), time.Second)
			got, err := r.LookupHost(c, name)
			cancel()
			if err != nil || len(got) != 1 || got[0] != want {
				bad.Add(1)
			}
			answers.Add(1)
		}
	}()
	return answers, func() int64 { cancel(); <-done; return bad.Load() }
}

// While apps come and go, another app's DNS loses no answer, and removed reservations are forgotten.
func TestFirewallLabAppsComeAndGoUnderADNSLoop(t *testing.T) {
	l := newFwLab(t)
	l.apply(netstate.State{},
		netinst.HostState([]netinst.HostNetwork{{Number: 1, Subnet: netip.MustParsePrefix("10.1.0.0/24")}}))
	alone := netinst.DesiredState(l.fwInput(1, true, l.fwAdapter("a", 1, "10.1.0.128"))).State
	both := netinst.DesiredState(l.fwInput(1, true, l.fwAdapter("a", 1, "10.1.0.128"),
		l.fwAdapter("b", 2, "10.1.0.129"))).State
	l.apply(netstate.State{}, alone)
	l.plug("a", "10.1.0.128", "10.1.0.1")
	pid := l.procs["ni/1/dnsmasq"].Process.Pid
	answers, stop := l.askForever("a", "10.1.0.1:53", "app-a.edge.test.", "10.1.0.128")
	for range 5 {
		l.apply(alone, both)
		if got := l.lease("b"); got["ip"] != "10.1.0.129" || strings.Contains(got["staticroutes"], " 10.1.0.129") {
			t.Errorf("the new app, which is the gateway of a route, got %v", got)
		}
		l.until("name of the new app", func() bool {
			return l.try("a", "dig", "+short", "+time=1", "+tries=1", "@10.1.0.1", "app-b.edge.test") == "10.1.0.129\n"
		})
		before := answers.Load()
		l.apply(both, alone)
		l.until("end of the name of the app that went", func() bool {
			return l.try("a", "dig", "+short", "+time=1", "+tries=1", "@10.1.0.1", "app-b.edge.test") == ""
		})
		l.until("answer after the change", func() bool { return answers.Load() > before+20 })
	}
	if failed := stop(); failed != 0 || answers.Load() < 200 {
		t.Errorf("%d of %d answers failed", failed, answers.Load())
	}
	if now := l.procs["ni/1/dnsmasq"].Process.Pid; now != pid {
		t.Errorf("dnsmasq %d became %d", pid, now)
	}
	// The address is no longer the second app's: the same MAC on another link is unknown.
	again := l.fwAdapter("b", 3, "10.1.0.140")
	again.Lease.MAC = l.fwAdapter("b", 2, "10.1.0.129").Lease.MAC
	l.apply(alone, netinst.DesiredState(l.fwInput(1, true, l.fwAdapter("a", 1, "10.1.0.128"), again)).State)
	if got := l.lease("b"); got["ip"] != "10.1.0.140" {
		t.Errorf("with a new reservation the app got %v", got)
	}
}
