package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/platform/lab"
)

// fixedAt is onNet with more fields of the adapter, such as "ip: 10.1.0.7".
func fixedAt(a, n int, ns, more string) string {
	return strings.Replace(onNet(a, n, ns, allowAll), "attach:", more+", attach:", 1)
}

// atOnce gets a lease and checks that the server never refused its client: a client retries after a second, which
// would only look slow.
func (w *world) atOnce(app, want string) {
	w.Helper()
	l := w.lease(app)
	if l.IP.String() != want {
		w.Errorf("%s has the lease %s, want %s", app, l.IP, want)
	}
	said, err := os.ReadFile(filepath.Join(w.RunDir(), "ni", "1", "dnsmasq", "out"))
	if err != nil {
		w.Fatal(err)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "not using configured address") || strings.Contains(line, "no address available") {
			w.Errorf("before %s had its lease: %s", app, line)
		}
	}
	w.in(app, "ping", "-c1", "-W2", lab.WebAddr)
}

const oneAddress = "10.1.0.200"

// narrow returns network 1 with a range of one address.
func narrow() []string {
	return []string{strings.Replace(network(1, ""), "subnet: 10.1.0.0/24", "subnet: 10.1.0.0/24, dhcpRange: "+oneAddress+
		"-"+oneAddress, 1)}
}

func TestAnAppThatFindsNoFreeAddressGetsTheOneThatIsFreed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	first, second := onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)
	w.start(doc(narrow(), first))
	w.wait("ready", "app/"+app(1))
	w.atOnce("web", oneAddress)
	w.apply(doc(narrow(), first, second))
	const why = "no free IP addresses in DHCP range 10.1.0.200-10.1.0.200"
	w.eventually("the error of the second app", func() bool {
		s := w.status("app", app(2))
		return s["pending"] == true && strings.Contains(s["error"].(string), why)
	})
	if s := w.status("ni", ni(1)); s["state"] != "Present" || s["error"] != "" {
		t.Errorf("the network is %v", s)
	}
	w.in("web", "ping", "-c1", "-W2", lab.WebAddr)
	pids := w.dnsmasq()
	w.apply(doc(narrow(), second)) // the second app does not change
	w.wait("ready", "app/"+app(2))
	w.atOnce("client", oneAddress)
	// Exchange the apps in one apply, and back.
	w.apply(doc(narrow(), first))
	w.wait("ready", "app/"+app(1))
	w.atOnce("web", oneAddress)
	if now := w.dnsmasq(); now != pids {
		t.Errorf("dnsmasq was %s and is %s", pids, now)
	}
}

// dnsmasq refuses an address while another client has a lease for it.
func TestAnAddressPassesOnWithItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	nets := []string{network(1, "")}
	const fixed, macA, macB = "10.1.0.7", "02:00:00:00:00:0a", "02:00:00:00:00:0b"
	w.start(doc(nets, fixedAt(1, 1, "web", "ip: "+fixed), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.atOnce("web", fixed)
	w.atOnce("client", w.ip(app(2)).String())
	pids := w.dnsmasq()

	// To another app, while its holder gets another address.
	w.apply(doc(nets, onNet(1, 1, "web", allowAll), fixedAt(2, 1, "client", "ip: "+fixed)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.atOnce("client", fixed)
	w.in("web", "ip", "addr", "flush", "dev", "eth0")
	w.atOnce("web", w.ip(app(1)).String())

	// To another MAC of its app, twice, and back.
	for _, mac := range []string{macA, macB, macA} {
		w.apply(doc(nets, onNet(1, 1, "web", allowAll), fixedAt(2, 1, "client", "ip: "+fixed+", mac: '"+mac+"'")))
		w.wait("ready", "app/"+app(2))
		if got := w.mac("client", "eth0").String(); got != mac {
			t.Fatalf("the MAC is %s, want %s", got, mac)
		}
		w.atOnce("client", fixed)
	}

	// Two addresses are swapped.
	w.apply(doc(nets, fixedAt(1, 1, "web", "ip: "+fixed), fixedAt(2, 1, "client", "ip: 10.1.0.8, mac: '"+macA+"'")))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.in("web", "ip", "addr", "flush", "dev", "eth0")
	w.in("client", "ip", "addr", "flush", "dev", "eth0")
	w.atOnce("web", fixed)
	w.atOnce("client", "10.1.0.8")
	if now := w.dnsmasq(); now != pids {
		t.Errorf("dnsmasq was %s and is %s", pids, now)
	}

	// The same with a replaced dnsmasq, which reads old leases at its start.
	nets = []string{strings.Replace(network(1, ""), "n1.edge", "other.edge", 1)}
	w.apply(doc(nets, fixedAt(1, 1, "web", "ip: 10.1.0.8"), fixedAt(2, 1, "client", "ip: "+fixed+", mac: '"+macA+"'")))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.in("web", "ip", "addr", "flush", "dev", "eth0")
	w.in("client", "ip", "addr", "flush", "dev", "eth0")
	w.atOnce("client", fixed)
	w.atOnce("web", "10.1.0.8")
	if now := w.dnsmasq(); now == pids {
		t.Errorf("dnsmasq was not replaced")
	}
}

// An app keeps its number, address and MAC over a restart of the daemon during which the app is not in the config, and
// while it is away longer.
func TestAddressesAreSticky(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	nets := []string{network(1, "")}
	one, two := onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)
	w.start(doc(nets, one, two))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	adapter := func(id string) string {
		a := w.status("app", id)["adapters"].([]any)[0].(map[string]any)
		return fmt.Sprint(a["ip"], " ", a["mac"], " ", a["hostIfName"])
	}
	first, second := adapter(app(1)), adapter(app(2))
	w.atOnce("client", w.ip(app(2)).String())

	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	if a, b := adapter(app(1)), adapter(app(2)); a != first || b != second {
		t.Errorf("after a restart they are %s and %s, before it %s and %s", a, b, first, second)
	}

	w.apply(doc(nets, two))
	w.wait("absent", "app/"+app(1))
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "app/"+app(2))
	third := onNet(3, 1, "web", allowAll)
	w.apply(doc(nets, two, third))
	w.wait("ready", "app/"+app(3))
	if got := w.ip(app(3)); strings.HasPrefix(first, got.String()+" ") {
		t.Errorf("a new app has %s, which is kept for the one that is away", got)
	}
	w.apply(doc(nets, one, two))
	w.wait("ready", "app/"+app(1))
	if a := adapter(app(1)); strings.Join(strings.Fields(a)[:2], " ") != strings.Join(strings.Fields(first)[:2], " ") {
		t.Errorf("back again it is %s, before it was %s", a, first)
	}
	w.atOnce("web", w.ip(app(1)).String())
}
