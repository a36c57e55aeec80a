package scenario

import (
	"strings"
	"syscall"
	"testing"

	"edgespan/platform/lab"
)

const staticPorts = "ports:\n  wan: {ifName: uplink0, uplink: true, dnsServers: 198.51.100.53, addressing: static, " +
	"address: 192.0.2.2/24, gateway: 192.0.2.1}\n" +
	"  lte: {ifName: uplink1, uplink: true, cost: 10, dnsServers: 198.51.100.53, addressing: static, " +
	"address: 203.0.113.2/24, gateway: 203.0.113.1}\n"

// defaultRoutes returns the node's default routes, without the spaces at the ends of lines.
func (w *world) defaultRoutes() string {
	w.Helper()
	var out []string
	for line := range strings.Lines(w.in("node", "ip", "-4", "route", "show", "default")) {
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, ", ")
}

// A node whose uplinks no other program sets up gets their addresses and default routes from its config, keeps them
// over a stop, a kill and changes by others, and loses them with the config.
func TestANodeSetsUpItsUplinks(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.sh("ip addr flush dev uplink0; ip addr flush dev uplink1; ip link set uplink0 down; ip link set uplink1 down")
	w.start(byUplinks(staticPorts))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	w.byWan("both are set up")
	const both = "default via 192.0.2.1 dev uplink0 proto 101 metric 1000, " +
		"default via 203.0.113.1 dev uplink1 proto 101 metric 2000"
	if got := w.defaultRoutes(); got != both {
		t.Errorf("the default routes are %s", got)
	}
	w.eventually("no diff of the uplinks", func() bool {
		r, err := w.CLI(w.ctx, "diff")
		return err == nil && !strings.Contains(r.Out, "uplink") // of the network, there may still be one
	})

	pings := w.pingOut("web", "node")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		flow(t, w, pings...)
		if err := w.node.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-w.node.Ended()
		flow(t, w, pings...)
		w.restart()
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	}
	none := func(p *lab.Loop, what string) {
		t.Helper()
		if c := p.Stop(); c.Lost+c.Wrong > 0 {
			t.Errorf("%s: %s", what, c)
		} else {
			t.Logf("%s: %s", what, c)
		}
	}
	none(pings[0], "an app, over restarts") // it may lose packets when its network changes the uplink
	// A change that moves the cheaper default route to another port, and back, adds before it removes.
	swapped := strings.NewReplacer("uplink: true, dns", "uplink: true, cost: 20, dns").Replace(byUplinks(staticPorts))
	moved := strings.Replace(byUplinks(staticPorts), "192.0.2.2/24", "192.0.2.9/24", 1)
	for _, doc := range []string{swapped, byUplinks(staticPorts), moved, byUplinks(staticPorts)} {
		w.apply(doc)
		w.wait("ready", "ni/"+ni(1))
		w.eventually("the routes follow the costs", func() bool {
			return strings.Contains(w.defaultRoutes(), "uplink0 proto 101 metric 3000") == (doc == swapped)
		})
		w.eventually("the address follows", func() bool {
			has := strings.Contains(w.in("node", "ip", "-4", "-o", "addr", "show", "dev", "uplink0"), " 192.0.2.9/24 ")
			return has == (doc == moved)
		})
		flow(t, w, pings[1])
	}
	none(pings[1], "the node, over restarts, changes of the costs and of an address")

	for _, line := range []string{
		"ip addr del 192.0.2.2/24 dev uplink0", "ip route del default dev uplink0", "ip link set uplink0 down",
	} {
		w.sh(line)
		w.eventually(line+" is repaired", func() bool { return w.defaultRoutes() == both })
		w.byWan("after " + line)
	}

	w.sh("ip addr add 192.0.2.77/24 dev uplink0") // by another program, and a secondary of edgespan's
	w.apply(strings.Replace(byUplinks(staticPorts), "addressing: static, address: 192.0.2.2/24, gateway: 192.0.2.1",
		"cost: 0", 1))
	w.eventually("the address went with the config", func() bool {
		out := w.in("node", "ip", "-4", "-o", "addr", "show", "dev", "uplink0")
		return !strings.Contains(out, "192.0.2.2/") && strings.Contains(out, "192.0.2.77/24") &&
			w.defaultRoutes() == both[strings.Index(both, "default via 203"):]
	})
	w.byLTE("wan has no address of edgespan")
	w.apply("{}")
	w.eventually("everything went with the config", func() bool { return w.defaultRoutes() == "" })
}
