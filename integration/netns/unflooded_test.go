package netns_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
)

// A bridge sends a frame for an address that it has not learnt to all ports: then an app would get what is for another
// one, past its own rules. It gets none, whether the other one has been silent or its link is down; and the silent one
// gets its frames.
func TestNoAppGetsFramesOfAnother(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	apps := map[string]*netns.NS{"sender": l.app, "silent": netns.New(t), "curious": netns.New(t)}
	doc := func(guard bool) string {
		d := fmt.Sprintf("networkInstances:\n  %s: {port: \"\", spoofGuard: %v, ipv4: {subnet: 10.1.0.0/24}}\nappNetworks:\n",
			owner(1).Name, guard)
		for i, name := range []string{"sender", "silent", "curious"} {
			acl := "{all: {action: allow, direction: both}}"
			if name == "curious" {
				acl = "{}"
			}
			d += fmt.Sprintf("  a0000000-0000-4000-8000-%012d:\n    displayName: %s\n    adapters: {0: {networkInstance: %s, "+
				"ip: 10.1.0.%d, mac: \"02:00:00:00:00:%02d\", attach: {kind: veth, netns: %s, ifName: eth0}, acl: %s}}\n", i+1, name,
				owner(1).Name, i+11, i+11, apps[name].Name, acl)
		}
		return d
	}
	want := func(guard bool) netstate.State {
		w := l.desiredStates(doc(guard), desiredStates{})
		l.must(hostOwner, w.host())
		return w.nets[1]
	}
	l.must(owner(1), want(true))
	l.equal(owner(1), want(true))
	for i, name := range []string{"sender", "silent", "curious"} {
		apps[name].Exec(t, "ip", "addr", "add", fmt.Sprintf("10.1.0.%d/24", i+11), "dev", "eth0")
		apps[name].Exec(t, "ip", "link", "set", "eth0", "up")
	}
	out := sender(t, apps["sender"], "eth0")
	silent := rawSocket(t, apps["silent"], "eth0", unix.ETH_P_ALL)
	answered := rawSocket(t, apps["sender"], "eth0", unix.ETH_P_ALL)
	curious := rawSocket(t, apps["curious"], "eth0", unix.ETH_P_ALL)
	mac := func(n int) []byte { return fwMAC(t, fmt.Sprintf("02:00:00:00:00:%02d", n)) }
	ip := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, 0, n}) }
	// send sends a packet for the silent app, and a broadcast that all get after it.
	round := 0
	send := func() (packet, end string) {
		t.Helper()
		round++
		packet, end = fmt.Sprintf("packet %d.", round), fmt.Sprintf("end %d.", round)
		for _, f := range [][]byte{
			fwFrame(mac(12), mac(11), 0x0800, fwUDP(ip(11), ip(12), 5000, 7000, packet)),
			fwFrame(fwMAC(t, "ff:ff:ff:ff:ff:ff"), mac(11), 0x0806, fwARP(mac(11), ip(11), ip(13), end)),
		} {
			out(f)
		}
		return packet, end
	}
	// The rules of an adapter decide on first packets: those of a flow that was answered pass quickly.
	_, end := send()
	fwHear(t, silent, nil, end)
	sender(t, apps["silent"], "eth0")(fwFrame(mac(11), mac(12), 0x0800,
		fwUDP(ip(12), ip(11), 7000, 5000, "answer")))
	fwHear(t, answered, nil, "answer")
	forget := func() { l.ns.Exec(t, "ip", "link", "set", "dev", "es1", "type", "bridge", "fdb_flush") }
	for _, c := range []struct {
		name            string
		change          func()
		silent, curious bool // who gets the packet
	}{
		{"the bridge has not learnt the silent one", forget, true, false},
		{"another program has it flooded", func() {
			l.ns.Exec(t, "bridge", "link", "set", "dev", "es1a3", "flood", "on")
			l.must(owner(1), want(true))
			forget()
		}, true, false},
		{"the curious one says that it is the silent one", func() {
			steal := sender(t, apps["curious"], "eth0")
			own := linkLine.FindStringSubmatch(l.ns.Exec(t, "ip", "-o", "link", "show", "es1"))[4]
			for _, to := range []string{"01:80:c2:00:00:0e", "01:80:c2:00:00:02", "ff:ff:ff:ff:ff:ff", own} {
				steal(fwFrame(fwMAC(t, to), mac(12), 0x88cc, []byte("steal")))
			}
		}, true, false},
		{"the entry of the silent one is gone", func() {
			l.ns.Exec(t, "bridge", "fdb", "del", "02:00:00:00:00:12", "dev", "es1a2", "master", "static")
			l.must(owner(1), want(true))
			l.equal(owner(1), want(true))
		}, true, false},
		{"apps may have other addresses", func() { // then the bridge is like any switch
			l.must(owner(1), want(false))
			l.equal(owner(1), want(false))
			forget()
		}, true, true},
		{"its link is down", func() {
			l.must(owner(1), want(true))
			l.equal(owner(1), want(true))
			apps["silent"].Exec(t, "ip", "link", "set", "eth0", "down")
		}, false, false},
	} {
		c.change()
		packet, end := send()
		if got := fwHear(t, curious, []string{packet}, end)[packet]; got != c.curious {
			t.Errorf("%s: the curious one gets it: %v", c.name, got)
		}
		if c.silent {
			if !fwHear(t, silent, []string{packet}, end)[packet] {
				t.Errorf("%s: the silent one does not get it", c.name)
			}
		}
	}
}

// At a port that may have any number of stations, entries of other programs stay. A port that they have taken out of
// the flood is flooded again.
func TestEntriesOfOthersStayAtAnOpenPort(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.ns.Exec(t, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "vm0p")
	l.must(owner(1), l.borrowed("vm0"))
	l.ns.Exec(t, "bridge", "fdb", "add", "02:00:00:00:00:77", "dev", "vm0", "master", "static")
	l.equal(owner(1), l.borrowed("vm0"))
	l.ns.Exec(t, "ip", "link", "set", "vm0", "down")
	l.must(owner(1), l.borrowed("vm0"))
	if out := l.ns.Exec(t, "bridge", "fdb", "show", "dev", "vm0"); !strings.Contains(out, "02:00:00:00:00:77") {
		t.Errorf("the entry of another program is gone:\n%s", out)
	}
	l.ns.Exec(t, "bridge", "link", "set", "dev", "vm0", "flood", "off")
	l.must(owner(1), l.borrowed("vm0"))
	l.equal(owner(1), l.borrowed("vm0"))
	if out := l.ns.Exec(t, "bridge", "-d", "link", "show", "dev", "vm0"); !strings.Contains(out, " flood on") {
		t.Errorf("the port is not flooded:\n%s", out)
	}
}

// Frames to 01:80:c2:00:00:0x meet no hook in which the spoof guard could drop them: a bridge that learnt from them would
// have an entry, in the kernel's memory, for each address that an app makes up.
func TestABridgeLearnsNothingFromLinkLocalFrames(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.ns.Exec(t, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "vm0p")
	l.ns.Exec(t, "ip", "link", "set", "vm0p", "up")
	l.must(owner(1), l.borrowed("vm0"))
	l.equal(owner(1), l.borrowed("vm0"))
	send := sender(t, l.ns, "vm0p")
	frame := func(to, from string) { send(fwFrame(fwMAC(t, to), fwMAC(t, from), 0x88cc, []byte("made up"))) }
	// learnt sends broadcasts of a sender until the bridge has an entry for it, and returns all entries.
	learnt := func(from string) (entries string) {
		t.Helper()
		until(t, "the bridge has learnt from a broadcast", func() bool {
			frame("ff:ff:ff:ff:ff:ff", from)
			entries = l.ns.Exec(t, "bridge", "fdb", "show", "br", "es1")
			return strings.Contains(entries, from)
		})
		return entries
	}
	learnt("02:77:00:00:00:01")                       // the port passes frames
	for _, last := range []string{"02", "03", "0e"} { // not 00: those are BPDUs
		frame("01:80:c2:00:00:"+last, "02:66:00:00:00:"+last)
	}
	if entries := learnt("02:77:00:00:00:02"); strings.Contains(entries, "02:66:00:") {
		t.Errorf("the bridge has learnt what was made up:\n%s", entries)
	}
}
