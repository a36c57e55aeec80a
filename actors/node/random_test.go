package node

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

var seeds = flag.Int("seeds", 60, "random runs of TestRandomConfigsConverge; a quarter of them with -short")

// world is a random config: for each app its network, or none.
type world struct {
	nets map[int]bool
	apps map[int]int // app -> network
	acl  map[int]int // app -> a port its rule names, so that its config can change
	off  map[int]bool
	kind map[int]int // network -> one of kinds
	link map[int]int // app -> one of attachments
}

// kinds are the forms of a network, by number; the last is never ready for apps.
var kinds = []string{
	"type: local, port: wan, ipv4: {subnet: 10.%[1]d.0.0/24}", "type: local, port: \"\", ipv4: {subnet: 10.%[1]d.0.0/24}",
	"type: switch, port: \"\"", "type: switch, port: lan%[1]d", "type: switch, port: lan%[1]d, activate: false",
}

// attachments are the forms of an app's attachment, by number.
var attachments = []string{"kind: veth, netns: ns%[1]d", "kind: tap", "kind: tap, hostIfName: tap%[1]d",
	"kind: external, hostIfName: vm%[1]d"}

const randomPorts = "ports:\n  wan: {ifName: uplink0, uplink: true}\n  lan1: {ifName: lan1}\n  lan2: {ifName: " +
	"lan2}\n  lan3: {ifName: lan3}\n"

// spell inserts the number if the form has a place for it.
func spell(form string, n int) string {
	if strings.Contains(form, "%") {
		return fmt.Sprintf(form, n)
	}
	return form
}

func (w *world) doc() string {
	var b strings.Builder
	b.WriteString(randomPorts + "networkInstances:\n")
	any := false
	for n := range w.nets {
		any = true
		fmt.Fprintf(&b, "  %s: {displayName: net%d, %s}\n", niID(n), n, spell(kinds[w.kind[n]], n))
	}
	if !any {
		b.Reset()
		b.WriteString(randomPorts)
	}
	if len(w.apps) > 0 {
		b.WriteString("appNetworks:\n")
	}
	for a, n := range w.apps {
		fmt.Fprintf(&b, "  %s: {displayName: app%d, activate: %v, adapters: {0: {networkInstance: %s, attach: {%s},"+
			" acl: {r: {action: allow, direction: egress, match: {protocol: tcp, port: %d}}}}}}\n", appID(a), a, !w.off[a],
			niID(n), spell(attachments[w.link[a]], a), 1000+w.acl[a])
	}
	return b.String()
}

func (w *world) change(rng *rand.Rand) {
	n, a := 1+rng.IntN(3), 1+rng.IntN(4)
	switch rng.IntN(8) {
	case 6:
		w.kind[n] = rng.IntN(len(kinds))
	case 7:
		w.link[a] = rng.IntN(len(attachments))
	case 0:
		if w.nets[n] {
			delete(w.nets, n)
		} else {
			w.nets[n] = true
		}
	case 1:
		delete(w.apps, a)
	case 2:
		w.off[a] = !w.off[a]
	case 3:
		w.acl[a]++
	default:
		w.apps[a] = n // new, or moved
	}
}

// Random configs follow each other, with faults, drift, crashes and restarts in between. Once all networks exist and
// the host is healthy, every app becomes ready, and an empty config leaves nothing. The fake host refuses an adapter
// on two networks and every op out of order.
func TestRandomConfigsConverge(t *testing.T) {
	runs := *seeds
	if testing.Short() {
		runs = (runs + 3) / 4
	}
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onRig(t, func(r *rig) { randomRun(r, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomRun(r *rig, rng *rand.Rand) {
	r.netns("ns1", "ns2", "ns3", "ns4")
	var mu sync.Mutex // appliers ask at the same time
	faults := rand.New(rand.NewPCG(rng.Uint64(), 2))
	w := &world{nets: map[int]bool{1: true}, apps: map[int]int{}, acl: map[int]int{}, off: map[int]bool{},
		kind: map[int]int{}, link: map[int]int{}}
	links := []string{"vm1", "vm2", "vm3", "vm4", "lan1", "lan2", "lan3"}
	ifaces := []netstate.Interface{{
		Name: "uplink0", Up: true, MTU: 1500,
		Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
		DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))},
	}}
	for i, l := range links {
		if r.host.SetLink(l, true); i >= 4 {
			ifaces = append(ifaces, netstate.Interface{Name: l, Up: true, MTU: 1500})
		}
	}
	r.host.SetInterfaces(ifaces...)
	for range 20 {
		for range 1 + rng.IntN(3) {
			w.change(rng)
		}
		r.apply(w.doc())
		switch rng.IntN(6) {
		case 0:
			r.stop()
			r.start()
		case 1:
			r.host.SetFault(func(netstate.Owner, netstate.Op) *fake.OpFault {
				mu.Lock()
				defer mu.Unlock()
				return randomFault(faults)
			})
		case 2:
			r.host.SetFault(nil)
		case 3:
			r.netns("ns1")
			r.host.SetNetns("ns2", rng.IntN(2) == 0)
		case 4:
			r.host.SetLink(links[rng.IntN(4)], rng.IntN(2) == 0)
		}
		r.settle(time.Duration(rng.IntN(400)) * time.Millisecond)
	}
	r.host.SetFault(nil)
	r.netns("ns1", "ns2", "ns3", "ns4")
	for _, l := range links {
		r.host.SetLink(l, true)
	}
	var ids []string
	for n := 1; n <= 3; n++ {
		if w.nets[n] = true; w.kind[n] == len(kinds)-1 {
			w.kind[n] = 0
		}
		ids = append(ids, "ni/"+niID(n))
	}
	for a := range w.apps {
		ids = append(ids, "app/"+appID(a))
	}
	r.apply(w.doc())
	r.ready(3*time.Minute, ids...)
	r.apply("{}")
	r.settle(3 * time.Minute)
	for n := 0; n <= 4; n++ {
		if s := r.host.State(n); len(s) > 0 {
			r.Errorf("owner %d still has:\n%s", n, s)
		}
	}
}

func randomFault(rng *rand.Rand) *fake.OpFault {
	switch rng.IntN(20) {
	case 0:
		return &fake.OpFault{Err: errors.New("injected")}
	case 1:
		return &fake.OpFault{Half: true}
	case 2:
		return &fake.OpFault{Panic: true}
	case 3:
		return &fake.OpFault{Hang: true}
	}
	return nil
}
