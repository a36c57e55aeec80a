package netns_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

// tapLink returns adapter 2 of network 1 as a tap device.
func tapLink(name string) netstate.Link {
	return netstate.Link{
		Name: name, Type: netstate.Tap, MAC: "fe:16:3e:00:00:02", MTU: 1400,
		Alias: "edgespan ni " + owner(1).Name + " adapter x#0 link=es1a2",
	}
}

// ownTap returns network 1 with one more adapter, whose link has a name.
func (l *lab) ownTap(name string) netstate.State {
	s := l.network(1)
	s.Add(tapLink(name), netstate.Port{Link: name, Master: "es1"})
	return s
}

// borrowed returns network 1 with a foreign link in its bridge.
func (l *lab) borrowed(name string) netstate.State {
	s := l.network(1)
	s.Add(netstate.Port{Link: name, Master: "es1", Foreign: true})
	return s
}

func (l *lab) index(link string) string {
	l.t.Helper()
	name, _, _ := strings.Cut(l.ns.Exec(l.t, "ip", "-o", "link", "show", "dev", link), ":")
	return name
}

func TestATapDeviceIsObservedAsDesiredAndRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := picture(t, l.ns)
	l.must(hostOwner, root())
	for _, name := range []string{"es1a2", "vm0", "es1a2"} {
		l.must(owner(1), l.ownTap(name))
		l.equal(owner(1), l.ownTap(name))
		if d := l.ns.Exec(t, "ip", "-d", "-o", "link", "show", "dev", name); !strings.Contains(d, "type tap") ||
			!strings.Contains(d, "persist on") || !strings.Contains(d, "master es1") {
			t.Errorf("%s is %s", name, d)
		}
		index := l.index(name)
		l.open() // another process recognizes the link by its alias alone, and keeps it
		l.must(owner(1), l.ownTap(name))
		if now := l.index(name); now != index {
			t.Errorf("%s was made anew: index %s, was %s", name, now, index)
		}
	}
	// The next plan removes a link that a crash left before its alias was set.
	l.ns.Exec(t, "ip", "tuntap", "add", "dev", "es1a0", "mode", "tap")
	l.must(owner(1), l.ownTap("vm1"))
	l.equal(owner(1), l.ownTap("vm1"))
	l.must(owner(1), netstate.State{})
	l.must(hostOwner, netstate.State{})
	if d := cmp.Diff(before, picture(t, l.ns)); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
}

func TestATapDeviceNeverTakesANameOfOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.ns.Exec(t, "ip", "tuntap", "add", "dev", "vm0", "mode", "tap")
	before := l.index("vm0")
	l.must(owner(1), l.network(1))
	err := l.do(t.Context(), owner(1),
		netstate.Op{Verb: netstate.Add, Kind: netstate.KindLink, Items: []netstate.Item{{Want: tapLink("vm0")}}})
	if err == nil || !strings.Contains(err.Error(), "vm0 is in use by another link") {
		t.Errorf("made over a link of others: %v", err)
	}
	for _, it := range []netstate.Item{{Have: tapLink("vm0")}, {Have: netstate.Port{Link: "vm0", Master: "es1"}}} {
		_ = l.do(t.Context(), owner(1), netstate.Op{Verb: netstate.Remove, Kind: it.ID().Kind, Items: []netstate.Item{it}})
	}
	if l.index("vm0") != before {
		t.Error("a link of others was removed")
	}
	l.equal(owner(1), l.network(1))
}

func TestAForeignLinkIsEnslavedAndReleasedUnchanged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	l.ns.Exec(t, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "vm0p")
	l.ns.Exec(t, "ip", "link", "set", "vm0", "group", "7", "alias", "theirs", "up")
	l.ns.Exec(t, "ip", "link", "set", "vm0p", "up")
	until(t, "carrier", func() bool {
		return strings.Contains(l.ns.Exec(t, "ip", "link", "show", "dev", "vm0"),
			"state UP")
	})
	ready := func() bool {
		return !strings.Contains(l.ns.Exec(t, "ip", "-6", "addr", "show"), "tentative")
	}
	until(t, "every address stands", ready)
	// The kernel gives edgespan's bridge a multicast route with its first running port.
	rest := func() []string {
		return slices.DeleteFunc(strings.Split(picture(t, l.ns), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "multicast ff00::/8 dev es1 ")
		})
	}
	before := rest()
	l.must(owner(1), l.borrowed("vm0"))
	l.equal(owner(1), l.borrowed("vm0"))
	l.must(owner(1), l.network(1))
	if d := cmp.Diff(before, rest()); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
	l.must(owner(1), l.borrowed("vm0"))
	l.must(owner(1), netstate.State{}) // the network is removed: the foreign link remains
	if out := l.ns.Exec(t, "ip", "-o", "link", "show", "dev", "vm0"); strings.Contains(out, "master") ||
		!strings.Contains(out, "alias theirs") {
		t.Errorf("vm0 is %s", out)
	}
}

// A link that was down is down again, even if another process releases it.
func TestALinkThatWasDownIsReleasedDown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	l.ns.Exec(t, "ip", "tuntap", "add", "dev", "vm0", "mode", "tap")
	up := func() bool { return strings.Contains(l.ns.Exec(t, "ip", "-o", "link", "show", "dev", "vm0"), ",UP") }
	for _, back := range []netstate.State{l.network(1), {}, l.network(1)} {
		l.must(owner(1), l.borrowed("vm0"))
		if !up() {
			t.Error("it is down in the bridge")
		}
		l.open()
		l.must(owner(1), l.borrowed("vm0"))
		l.must(owner(1), back)
		if up() {
			t.Error("it is up, and was down")
		}
	}
	// A link that another program has set up meanwhile remains up.
	l.ns.Exec(t, "ip", "link", "set", "vm0", "up")
	l.must(owner(1), l.borrowed("vm0"))
	l.must(owner(1), netstate.State{})
	if !up() {
		t.Error("it is down, and was up")
	}
	if _, err := os.Stat(filepath.Join(l.dir, "ni", "1")); err == nil {
		t.Error("the run folder is left")
	}
}

func TestALinkThatTheHostUsesIsNeverEnslaved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	enslave := func(name string) error {
		return l.do(t.Context(), owner(1), netstate.Op{Verb: netstate.Add, Kind: netstate.KindPort,
			Items: []netstate.Item{{Want: netstate.Port{Link: name, Master: "es1", Foreign: true}}}})
	}
	l.ns.Exec(t, "ip", "link", "add", "br0", "type", "bridge")
	l.ns.Exec(t, "ip", "tuntap", "add", "dev", "slave", "mode", "tap")
	l.ns.Exec(t, "ip", "link", "set", "slave", "master", "br0")
	for name, why := range map[string]string{
		"eth0": "has the host's address 192.0.2.2/24", "slave": "is enslaved to br0, which is not edgespan's",
		"none": "does not exist", "es1a1": "belongs to another adapter",
	} {
		if err := enslave(name); !errors.Is(err, netstate.ErrWaiting) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", name, err, why)
		}
	}
	l.ns.Exec(t, "ip", "route", "get", "192.0.2.1")
	if out := l.ns.Exec(t, "ip", "-o", "link", "show", "dev", "slave"); !strings.Contains(out, "master br0") {
		t.Errorf("slave is %s", out)
	}
}

func TestALinkRecreatedUnderItsNameIsNoticed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.ns.Exec(t, "ip", "tuntap", "add", "dev", "vm0", "mode", "tap")
	l.must(owner(1), l.borrowed("vm0"))
	events := make(chan netstate.HostEvent, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.host.Watch(ctx, func(e netstate.HostEvent) { events <- e }) }()
	defer func() { cancel(); <-done }()
	<-events // the first event means that anything may have changed
	reported := func(what string, want func(netstate.HostEvent) bool) {
		t.Helper()
		late := time.After(5 * time.Second)
		var seen []netstate.HostEvent
		for {
			select {
			case e := <-events:
				if want(e) {
					return
				}
				seen = append(seen, e)
			case <-late:
				t.Fatalf("%s was not told, but %+v", what, seen)
			}
		}
	}
	l.ns.Exec(t, "sh", "-c", "ip tuntap del dev vm0 mode tap; ip tuntap add dev vm0 mode tap")
	reported("a link that went out of our bridge", func(e netstate.HostEvent) bool {
		// An enslaved link has no name of its own in the event.
		return slices.Contains(e.Touched, 1) || slices.Contains(e.Links, netstate.LinkTouch{Number: 1})
	})
	if _, there := l.observe(owner(1), false)[netstate.ID{Kind: netstate.KindPort, Name: "vm0"}]; there {
		t.Error("the new vm0 counts as the old one")
	}
	l.must(owner(1), l.borrowed("vm0"))
	l.ns.Exec(t, "ip", "tuntap", "add", "dev", "vm1", "mode", "tap")
	reported("a new link", func(e netstate.HostEvent) bool { return e.Namespaces })
}

func TestAddressesAreObservedOnARecreatedLink(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	heard := make(chan netstate.ObservedAddress, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.host.Snoop(ctx, "vm0", func(s netstate.ObservedAddress) { heard <- s })
	for _, ip := range []string{"198.51.100.7", "198.51.100.8"} {
		l.ns.Exec(t, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "far", "netns", l.app.Name)
		l.ns.Exec(t, "ip", "link", "set", "vm0", "up")
		l.app.Exec(t, "ip", "link", "set", "far", "address", "02:00:00:00:00:09", "up")
		l.app.Exec(t, "ip", "addr", "add", ip+"/24", "dev", "far")
		until(t, "it is heard", func() bool {
			l.app.Exec(t, "sh", "-c", "ping -c1 -W1 198.51.100.99 >/dev/null; true") // an ARP request
			select {
			case s := <-heard:
				if s.Link != "vm0" || s.MAC != "02:00:00:00:00:09" || s.IP.String() != ip {
					t.Errorf("heard %+v, want %s", s, ip)
				}
				return true
			default:
				return false
			}
		})
		l.ns.Exec(t, "ip", "link", "del", "vm0")
		for len(heard) > 0 {
			<-heard
		}
	}
}
