package actors

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

var seeds = flag.Int("seeds", 60, "random runs of TestRandomConfigsConverge")

// world is a random config: for each app the network it is on, or none.
type world struct {
	nets map[int]bool
	apps map[int]int // app -> network
	acl  map[int]int // app -> a port its rule names, so that its config can change
	off  map[int]bool
}

func (w *world) doc() string {
	var b strings.Builder
	b.WriteString("ports:\n  wan: {ifName: uplink0, uplink: true}\n")
	b.WriteString("networkInstances:\n")
	any := false
	for n := range w.nets {
		any = true
		fmt.Fprintf(&b, "  %s: {displayName: net%d, type: local, port: wan, ipv4: {subnet: 10.%d.0.0/24}}\n", niID(n), n, n)
	}
	if !any {
		b.Reset()
		b.WriteString("ports:\n  wan: {ifName: uplink0, uplink: true}\n")
	}
	if len(w.apps) > 0 {
		b.WriteString("appNetworks:\n")
	}
	for a, n := range w.apps {
		fmt.Fprintf(&b, "  %s: {displayName: app%d, activate: %v, adapters: {0: {networkInstance: %s, attach: {kind: veth, netns: ns%d},"+
			" acl: {r: {action: allow, direction: egress, match: {protocol: tcp, port: %d}}}}}}\n", appID(a), a, !w.off[a], niID(n), a, 1000+w.acl[a])
	}
	return b.String()
}

func (w *world) change(rng *rand.Rand) {
	n, a := 1+rng.IntN(3), 1+rng.IntN(4)
	switch rng.IntN(6) {
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

// Random configs in a row, with faults, drift, crashes and restarts between them:
// once all networks are there and the host is healthy, every app gets ready, and
// an empty config leaves nothing. The host in memory refuses an adapter on two
// networks and every op out of order.
func TestRandomConfigsConverge(t *testing.T) {
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onRig(t, func(r *rig) { randomRun(r, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomRun(r *rig, rng *rand.Rand) {
	r.netns("ns1", "ns2", "ns3", "ns4")
	var mu sync.Mutex // appliers ask at the same time
	faults := rand.New(rand.NewPCG(rng.Uint64(), 2))
	w := &world{nets: map[int]bool{1: true}, apps: map[int]int{}, acl: map[int]int{}, off: map[int]bool{}}
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
			r.host.SetFault(func(netstate.Owner, netstate.Op) *fake.Fault {
				mu.Lock()
				defer mu.Unlock()
				return randomFault(faults)
			})
		case 2:
			r.host.SetFault(nil)
		case 3:
			r.netns("ns1")
			r.host.SetNetns("ns2", rng.IntN(2) == 0)
		}
		r.settle(time.Duration(rng.IntN(400)) * time.Millisecond)
	}
	r.host.SetFault(nil)
	r.netns("ns1", "ns2", "ns3", "ns4")
	var ids []string
	for n := 1; n <= 3; n++ {
		w.nets[n] = true
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

func randomFault(rng *rand.Rand) *fake.Fault {
	switch rng.IntN(20) {
	case 0:
		return &fake.Fault{Err: errors.New("injected")}
	case 1:
		return &fake.Fault{Half: true}
	case 2:
		return &fake.Fault{Panic: true}
	case 3:
		return &fake.Fault{Hang: true}
	}
	return nil
}
