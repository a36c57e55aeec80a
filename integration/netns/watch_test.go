package netns_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
)

// An app may set its end of a link up and down, which changes the carrier of the host's end. That is no change of
// edgespan's objects and causes no event. A change by another program does.
func TestTheCarrierOfAnAppsLinkIsNoChange(t *testing.T) {
	t.Parallel()
	l, app := newLab(t), netns.New(t)
	do := func(cmd string) { l.ns.Exec(t, strings.Fields(cmd)...) }
	for _, c := range []string{
		"ip link add es7 type bridge", "ip link set es7 mtu 1500",
		"ip link set es7 addrgenmode none", // as those of the daemon: else an address comes and goes with the carrier
		"ip link set es7 up",
		"ip link add es7a1 type veth peer name eth0 netns " + app.Name,
		"ip link set es7a1 master es7", "ip link set es7a1 up",
		"ip tuntap add tap7 mode tap", "ip link set tap7 master es7", "ip link set tap7 up",
	} {
		do(c)
	}
	app.Exec(t, "ip", "link", "set", "eth0", "up")
	ctx, cancel := context.WithCancel(t.Context())
	e, done := &events{}, make(chan error, 1)
	go func() {
		done <- l.host.Watch(ctx, func(ev netstate.HostEvent) { e.mu.Lock(); e.list = append(e.list, ev); e.mu.Unlock() })
	}()
	until(t, "first event is a resync",
		func() bool { return e.any(func(ev netstate.HostEvent) bool { return ev.Resync }) })
	link := func(name string) func(netstate.HostEvent) bool {
		return func(ev netstate.HostEvent) bool {
			return slices.Contains(ev.Links, netstate.LinkTouch{Number: 7, Name: name})
		}
	}
	flap := func(times int) {
		t.Helper()
		for range times {
			for _, s := range [][2]string{{"down", "NO-CARRIER"}, {"up", "LOWER_UP"}} {
				to, shown := s[0], s[1]
				app.Exec(t, "ip", "link", "set", "eth0", to)
				until(t, shown, func() bool { return strings.Contains(l.ns.Exec(t, "ip", "-o", "link", "show", "es7a1"), shown) })
			}
		}
	}
	marks := 7
	mark := func() { // earlier events were read before it
		t.Helper()
		marks++
		do(fmt.Sprintf("ip link add es%d type bridge", marks))
		until(t, "mark", func() bool { return e.any(touches(marks)) })
	}
	reported := func(ev netstate.HostEvent) bool { return len(ev.Links) > 0 || touches(7)(ev) }
	flap(1) // the first message about a link always passes
	mark()
	e.clear()
	flap(3)
	mark()
	if e.any(reported) {
		t.Errorf("a flap of an app's link is told: %+v", e.list)
	}
	for _, c := range []struct {
		cmd  string
		what func(netstate.HostEvent) bool
	}{
		{"ip link set es7a1 down", link("es7a1")},
		{"ip link set es7a1 up", link("es7a1")},
		{"ip link set es7a1 mtu 1400", link("es7a1")},
		{"ip link set es7a1 alias theirs", link("es7a1")},
		{"ip link set es7a1 address 02:00:00:00:00:07", link("es7a1")},
		{"ip link set es7a1 type bridge_slave isolated on", link("es7a1")},
		{"bridge link set dev es7a1 isolated off", link("es7a1")},
		{"ip link set es7a1 nomaster", link("es7a1")},
		{"ip link set es7 type bridge nf_call_iptables 1", touches(7)},
		{"ip link set es7 type bridge ageing_time 100", touches(7)},
		{"ip link set es7 mtu 1300", touches(7)},
		{"ip link set es7 down", touches(7)},
		{"ip link set tap7 down", link("")},
		{"ip link set tap7 nomaster", link("")},
		{"ip link del es7a1", link("es7a1")},
	} {
		e.clear()
		do(c.cmd)
		until(t, c.cmd, func() bool { return e.any(c.what) })
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("watch: %v", err)
	}
}

// Repeated messages about an app's link are dropped in the kernel. A change of that link is then reported later; a
// change of another link, or its removal, is not delayed.
func TestAFlappingLinkIsMutedAndItsChangesAreStillReported(t *testing.T) {
	l, app := newLab(t), netns.New(t)
	do := func(cmd string) { l.ns.Exec(t, strings.Fields(cmd)...) }
	for _, c := range []string{
		"ip link add es7 type bridge", "ip link set es7 up",
		"ip link add es7a1 type veth peer name eth0 netns " + app.Name, "ip link add es7a2 type veth peer name eth1 netns " +
			app.Name,
		"ip link set es7a1 master es7", "ip link set es7a1 up", "ip link set es7a2 master es7", "ip link set es7a2 up",
	} {
		do(c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e, done := &events{}, make(chan error, 1)
	go func() {
		done <- l.host.Watch(ctx, func(ev netstate.HostEvent) { e.mu.Lock(); e.list = append(e.list, ev); e.mu.Unlock() })
	}()
	until(t, "first event is a resync",
		func() bool { return e.any(func(ev netstate.HostEvent) bool { return ev.Resync }) })
	reported := func(name string) bool {
		return e.any(func(ev netstate.HostEvent) bool {
			return slices.Contains(ev.Links, netstate.LinkTouch{Number: 7, Name: name})
		})
	}
	flaps := filepath.Join(t.TempDir(), "flaps")
	if err := os.WriteFile(flaps, []byte(strings.Repeat("link set eth0 down\nlink set eth0 up\n", 60)),
		0o600); err != nil {
		t.Fatal(err)
	}
	app.Exec(t, "ip", "-batch", flaps)
	do("ip link set es7a2 mtu 1499") // the first message of a link always passes
	until(t, "es7a2", func() bool { return reported("es7a2") })
	muted := false
	for mtu := 1400; mtu < 1408 && !muted; mtu++ { // on a busy machine a mute may end just then
		app.Exec(t, "ip", "-batch", flaps)
		e.clear()
		do(fmt.Sprint("ip link set es7a1 mtu ", mtu))
		do(fmt.Sprint("ip link set es7a2 mtu ", mtu))
		until(t, "a change of another link", func() bool { return reported("es7a2") })
		muted = !reported("es7a1")
		for end := time.Now().Add(11 * time.Second); !reported("es7a1"); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("what changed while the link was muted is not told")
			}
		}
	}
	if !muted {
		t.Error("what a flapping link says wakes its listener each time")
	}
	app.Exec(t, "ip", "-batch", flaps)
	e.clear()
	do("ip link del es7a1")
	until(t, "the end of the link", func() bool { return reported("es7a1") })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("watch: %v", err)
	}
}
