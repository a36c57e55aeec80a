package scenario

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/platform/lab"
)

// attached returns one app of a config with an adapter on network n.
func attached(a, n int, attach, acl string) string {
	return fmt.Sprintf("  %s:\n    displayName: app%d\n    adapters:\n      0: {networkInstance: %s, attach: {%s}, acl: "+
		"{%s}}\n", app(a), a, ni(n), attach, acl)
}

// adapterStatus returns one field of the status of an app's only adapter.
func (w *world) adapterStatus(a int, word string) string {
	w.Helper()
	adapters, _ := w.status("app", app(a))["adapters"].([]any)
	first, _ := adapters[0].(map[string]any)
	text, _ := first[word].(string)
	return text
}

// hypervisor creates vm0 on the node, whose other side is an app's eth0.
func (w *world) hypervisor(ns, mac string) {
	w.Helper()
	w.in("node", "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "eth0", "netns", w.NS(ns))
	w.in(ns, "ip", "link", "set", "eth0", "address", mac)
}

func TestALinkThatSomethingElseMakesIsTakenWheneverItIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "vm", "web")
	// A MAC that the app's hypervisor knows in advance.
	const mac = "02:00:00:00:00:77"
	nets := []string{network(1, "")}
	vm := strings.Replace(attached(1, 1, "kind: external, hostIfName: vm0", allowAll), "attach:", "mac: \""+mac+
		"\", attach:", 1)
	w.start(doc(nets, vm, onNet(2, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(2))
	if got := w.adapterStatus(1, "error"); !strings.Contains(got, "interface vm0 does not exist") {
		t.Errorf("an app whose link does not exist says %q", got)
	}
	w.hypervisor("vm", mac)
	w.wait("ready", "app/"+app(1))
	w.lease("vm")
	w.lease("web")
	w.in("vm", "ping", "-c1", "-W2", lab.WebAddr)
	w.in("vm", "ping", "-c1", "-W2", w.ip(app(2)).String())
	// Recreate it with the same name at once, like a hypervisor that restarts.
	for range 3 {
		w.in("node", "ip", "link", "del", "vm0")
		w.hypervisor("vm", mac)
		w.eventually("the new vm0 in the bridge", func() bool {
			return strings.Contains(w.in("node", "ip", "-o", "link", "show", "dev", "vm0"), "master es1")
		})
		w.wait("ready", "app/"+app(1))
		w.lease("vm")
		w.in("vm", "ping", "-c1", "-W2", lab.WebAddr)
	}
	// Its rules apply: packets that no rule allows are dropped.
	w.apply(doc(nets, strings.Replace(vm, allowAll, "", 1), onNet(2, 1, "web", allowAll)))
	w.wait("ready", "app/"+app(1))
	w.fails("vm", "ping", "-c1", "-W1", w.ip(app(2)).String())
	w.apply(doc(nets, onNet(2, 1, "web", allowAll)))
	w.eventually("vm0 given back", func() bool {
		return !strings.Contains(w.in("node", "ip", "-o", "link", "show", "dev", "vm0"), "master")
	})
	w.apply(doc(nil))
	w.eventually("no bridge", func() bool { return !strings.Contains(w.in("node", "ip", "-o", "link"), "es1:") })
	w.in("node", "ip", "link", "show", "dev", "vm0")
}

func TestALinkThatHoldsAnAddressOfTheHostIsNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "vm")
	w.in("node", "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "eth0", "netns", w.NS("vm"))
	w.in("node", "ip", "addr", "add", "203.0.113.1/24", "dev", "vm0")
	w.in("node", "ip", "link", "set", "vm0", "up")
	w.static("vm", "203.0.113.2")
	w.start(doc([]string{network(1, "")}, attached(1, 1, "kind: external, hostIfName: vm0", allowAll)))
	w.wait("ready", "ni/"+ni(1))
	w.eventually("the reason", func() bool {
		return strings.Contains(w.adapterStatus(1, "error"), "vm0 has the host's address 203.0.113.1/24")
	})
	w.in("node", "ping", "-c1", "-W2", "203.0.113.2")
	w.in("node", "ip", "addr", "del", "203.0.113.1/24", "dev", "vm0")
	w.wait("ready", "app/"+app(1))
}

// machine opens a tap device of the node as a virtual machine's hypervisor does.
func (w *world) machine(name string) int {
	w.Helper()
	fd := -1
	err := w.inside("node", func() error {
		var err error
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK, 0); err != nil {
			return err
		}
		req, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	})
	if err != nil {
		w.Fatalf("open tap device %s: %v", name, err)
	}
	w.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// heard reports whether a machine receives a frame with the marks in time.
func heard(fd int, within time.Duration, marks ...string) bool {
	buf := make([]byte, 2048)
	for end := time.Now().Add(within); time.Now().Before(end); {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, _ := unix.Poll(poll, 20); n == 0 {
			continue
		}
		n, err := unix.Read(fd, buf)
		if err != nil {
			continue
		}
		all := true
		for _, m := range marks {
			all = all && strings.Contains(string(buf[:n]), m)
		}
		if all {
			return true
		}
	}
	return false
}

func TestAVirtualMachineMeetsTheOthersOverItsTapDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	nets := []string{network(1, "")}
	apps := func(acl string) []string {
		return []string{attached(1, 1, "kind: tap, hostIfName: vm0", acl), attached(3, 1, "kind: tap", ""),
			onNet(2, 1, "web", allowAll)}
	}
	w.start(doc(nets, apps(allowAll)...))
	w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
	if got := w.adapterStatus(1, "hostIfName"); got != "vm0" {
		t.Errorf("the tap device is %q", got)
	}
	if got := w.adapterStatus(3, "hostIfName"); !strings.HasPrefix(got, "es1a") {
		t.Errorf("a tap device without a name is %q", got)
	}
	w.lease("web")
	vm := w.machine("vm0")
	mac, ip, peer := w.adapterStatus(1, "mac"), w.ip(app(1)), w.ip(app(2))
	say := func(frame []byte) {
		if _, err := unix.Write(vm, frame); err != nil {
			t.Fatal(err)
		}
	}
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	who := ether(net.HardwareAddr("\xff\xff\xff\xff\xff\xff"), hw, etherARP,
		arpAsk(hw, ip, netip.MustParseAddr("10.1.0.1"), ""))
	w.eventually("an answer of the gateway",
		func() bool { say(who); return heard(vm, 200*time.Millisecond, "\x08\x06", string(hw)) })
	packet := func(mark string) []byte {
		return ether(w.mac("web", "eth0"), hw, etherIPv4, ipv4(ip, peer, 17, udp(4000, 9000, []byte(mark))))
	}
	got := w.sniff("web", "eth0", "from the machine", "denied now")
	w.eventually("a packet of the machine",
		func() bool { say(packet("from the machine")); return got.count("from the machine") > 0 })
	// The guard knows the machine's MAC and address, and its rules apply.
	w.apply(doc(nets, apps("")...))
	w.wait("ready", "app/"+app(1))
	for range 20 {
		say(packet("denied now"))
	}
	// The machine keeps its tap device when the daemon restarts.
	if err := w.node.Stop(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.apply(doc(nets, apps(allowAll)...))
	w.wait("ready", "app/"+app(1))
	before := got.count("from the machine")
	w.eventually("a packet after the restart",
		func() bool { say(packet("from the machine")); return got.count("from the machine") > before })
	if n := got.count("denied now"); n > 0 {
		t.Errorf("%d denied packets passed", n)
	}
	w.apply(doc(nets, onNet(2, 1, "web", allowAll)))
	w.eventually("no tap device", func() bool { return !strings.Contains(w.in("node", "ip", "-o", "link"), "vm0") })
}
