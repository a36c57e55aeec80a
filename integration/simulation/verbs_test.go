package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/platform/fake"
)

// verbs are what can happen, by name. All that a verb draws is drawn from the number of its step.
var verbs map[string]func(*town, *rand.Rand)

func init() { // some refer to it
	verbs = map[string]func(*town, *rand.Rand){
		"config":  func(w *town, rng *rand.Rand) { w.apply(drawScene(rng), w.diskFails) },
		"kill":    (*town).crash,
		"kill-op": func(w *town, rng *rand.Rand) { w.life.dieAfter(1+rng.IntN(30), rng.IntN(2) == 0) },
		"restart": func(w *town, _ *rand.Rand) { w.stop(); w.start() },
		"reboot":  (*town).reboot,
		"settle":  func(w *town, _ *rand.Rand) { w.settle() },
		"ops":     (*town).failOps,
		"break":   (*town).breakObject,
		"flush":   func(w *town, rng *rand.Rand) { w.host.Flush(rng.IntN(2) == 0) },
		"lost":    (*town).loseEvents,
		"echo":    func(w *town, rng *rand.Rand) { w.host.SetEcho(rng.IntN(3) > 0) },
		"stopped": (*town).stopHelper,
		"flap":    (*town).flap,
		"helper":  (*town).endHelper,
		"namespace": func(w *town, rng *rand.Rand) {
			w.host.SetNetns(fmt.Sprint("ns", 1+rng.IntN(maxApps)), rng.IntN(2) == 0)
		},
		"link":      (*town).setLink,
		"uplink":    (*town).setUplink,
		"probes":    (*town).setProbes,
		"tunnel":    (*town).setTunnel,
		"disk":      (*town).setDisk,
		"drain":     (*town).drain,
		"forward":   func(w *town, rng *rand.Rand) { w.host.SetForwarding(rng.IntN(2) == 0) },
		"address":   (*town).takeAddress,
		"explain":   (*town).explain,
		"upgrade":   (*town).becomeOld,
		"downgrade": (*town).beDowngraded,
		"tracked": func(w *town, rng *rand.Rand) {
			w.host.SetMaxTracked([]int{0, 1 << 12, 1 << 16}[rng.IntN(3)])
		},
		"clock": func(w *town, rng *rand.Rand) { w.clock.jump(rng) },
	}
}

// nodeVerbs are those that need no config of a person at the node, and leave it its disk.
func nodeVerbs() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(verbs)), func(v string) bool {
		return slices.Contains([]string{"config", "settle", "upgrade", "downgrade"}, v)
	})
}

// crash kills the process; sometimes the clock is set before the next one begins.
func (w *town) crash(rng *rand.Rand) {
	w.kill()
	if rng.IntN(3) == 0 {
		w.clock.jump(rng)
	}
	w.start()
}

// reboot is a power cut; a machine without a battery has another time afterwards.
func (w *town) reboot(rng *rand.Rand) {
	w.kill()
	w.boots()
	w.host.Reboot()
	if rng.IntN(2) == 0 {
		w.clock.jump(rng)
	}
	w.start()
}

// failOps makes some ops of one network, or of all, fail, hang, take effect and fail, or panic.
func (w *town) failOps(rng *rand.Rand) {
	owner, share, drawn := rng.IntN(maxNetworks+2)-1, 1+rng.IntN(50), rand.New(rand.NewPCG(rng.Uint64(), 1))
	kinds := 1 + rng.IntN(15)
	w.host.SetFault(func(o netstate.Owner, _ netstate.Op) *fake.OpFault {
		if owner >= 0 && o.Number != owner || drawn.IntN(100) >= share {
			return nil
		}
		faults := []*fake.OpFault{{Err: errors.New("injected")}, {Hang: true}, {Half: true}, {Panic: true}}
		if i := drawn.IntN(len(faults)); kinds&(1<<i) != 0 {
			return faults[i]
		}
		return nil
	})
}

// breakObject removes an object behind the daemon's back, seen or unseen.
func (w *town) breakObject(rng *rand.Rand) {
	n := rng.IntN(maxNetworks + 1)
	ids := slices.SortedFunc(maps.Keys(w.host.State(n)), func(a, b netstate.ID) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	if len(ids) == 0 {
		return
	}
	if id := ids[rng.IntN(len(ids))]; rng.IntN(3) == 0 && id.Kind == netstate.KindChain {
		w.host.RemoveSilently(n, id)
	} else {
		w.host.Break(n, id)
	}
}

// loseEvents overflows the socket of events, once or again and again.
func (w *town) loseEvents(rng *rand.Rand) {
	for range 1 + rng.IntN(20)*rng.IntN(2) {
		w.host.Resync()
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
	}
}

// stopHelper stops a network's DNS server, which is there and answers no more, or lets it continue.
func (w *town) stopHelper(rng *rand.Rand) {
	n := 1 + rng.IntN(maxNetworks)
	w.host.SetBroken(n)
	if rng.IntN(3) == 0 {
		return
	}
	for id := range w.host.State(n) {
		if id.Kind == netstate.KindProcess {
			w.host.SetBroken(n, netstate.OpFailure{ID: id, Observe: true, Err: "self-test: DNS of the gateway: no answer"})
		}
	}
}

// flap lets an uplink go and come, fast or slowly.
func (w *town) flap(rng *rand.Rand) {
	i, pause := rng.IntN(uplinks), time.Duration(50+rng.IntN(2000))*time.Millisecond
	for turn := range 2 * (1 + rng.IntN(15)) {
		to := w.uplink(i)
		to.Up = turn%2 == 1
		w.setInterfaces(to.Name, &to)
		time.Sleep(pause)
	}
}

func (w *town) endHelper(rng *rand.Rand) {
	n := 1 + rng.IntN(maxNetworks)
	for id := range w.host.State(n) {
		if id.Kind == netstate.KindProcess {
			w.host.Kill(n, id.Name)
			return
		}
	}
}

func (w *town) setLink(rng *rand.Rand) {
	w.host.SetLink(fmt.Sprint("vm", 1+rng.IntN(maxApps)), rng.IntN(2) == 0)
}

// setUplink changes an uplink.
func (w *town) setUplink(rng *rand.Rand) {
	i := rng.IntN(uplinks)
	to := w.uplink(i)
	switch rng.IntN(7) {
	case 0:
		to.Up = false
	case 1:
		to.Addresses, to.DefaultRoutes = nil, nil
	case 2:
		to.DefaultRoutes = nil
	case 3:
		to.Addresses = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("198.18.%d.9/24", i))}
		to.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr(fmt.Sprintf("198.18.%d.1", i)))}
	case 4:
		to.MTU = 1280 + rng.IntN(220)
	case 5: // it is gone
		w.setInterfaces(to.Name, nil)
		return
	}
	w.setInterfaces(to.Name, &to)
}

func (w *town) setInterfaces(name string, to *netstate.Interface) {
	w.ifaces = slices.DeleteFunc(slices.Clone(w.ifaces), func(i netstate.Interface) bool { return i.Name == name })
	if to != nil {
		w.ifaces = append(w.ifaces, *to)
	}
	w.host.SetInterfaces(w.ifaces...)
}

// setProbes loses a share of the probes of a port; some of the others are slow.
func (w *town) setProbes(rng *rand.Rand) {
	lost := maps.Clone(w.lost)
	if lost == nil {
		lost = map[string]int{}
	}
	lost[[]string{"wan", "lte"}[rng.IntN(2)]] = []int{0, 20, 60, 100}[rng.IntN(4)]
	w.lost = lost
	drawn, slow := rand.New(rand.NewPCG(rng.Uint64(), 2)), rng.IntN(2)*rng.IntN(3000)
	w.host.SetProbes(func(id probe.ID) error { // under the host's lock
		switch {
		case drawn.IntN(100) < lost[id.Port]:
			return context.DeadlineExceeded
		case slow > 0 && drawn.IntN(4) == 0:
			return fake.Slow(time.Duration(drawn.IntN(slow)) * time.Millisecond)
		}
		return nil
	})
}

// setTunnel makes a tunnel ask in vain, or its process hang.
func (w *town) setTunnel(rng *rand.Rand) {
	n := 1 + rng.IntN(maxNetworks)
	switch rng.IntN(3) {
	case 0:
		w.host.SetTunnel(n, tunnel(n, 0))
	case 1:
		w.host.SetTunnel(n, tunnel(n, 1000+rng.Uint64N(1e6)))
	case 2:
		w.host.HangTunnel(n, rng.IntN(2) == 0)
	}
}

var errFull = errors.New("no space left on device")

// setDisk fills the disk, or makes it hang for a while.
func (w *town) setDisk(rng *rand.Rand) {
	w.mendDisk()
	w.diskFails = true
	switch rng.IntN(3) {
	case 0:
		w.diskFails = false
	case 1:
		w.files.Fail(errFull)
	case 2:
		free := make(chan struct{})
		w.files.Block(free)
		timer := time.AfterFunc(time.Duration(1+rng.IntN(120))*time.Second, func() { close(free) })
		w.unhang = func() {
			if timer.Stop() {
				close(free)
			}
			w.files.Block(nil)
		}
	}
}

// takeAddress lets an app use an address, its own or another's.
func (w *town) takeAddress(rng *rand.Rand) {
	for range 1 + rng.IntN(20) {
		w.host.Announce(netstate.ObservedAddress{Link: fmt.Sprintf("es%da%d", 1+rng.IntN(maxNetworks), 1+rng.IntN(maxApps)),
			MAC: fmt.Sprintf("02:00:00:00:00:%02x", rng.IntN(256)),
			IP:  netip.AddrFrom4([4]byte{10, byte(1 + rng.IntN(maxNetworks)), 0, byte(rng.IntN(256))})})
	}
}

// explain asks for everything that a person can ask for.
func (w *town) explain(*rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), applyTimeout)
	defer cancel()
	for _, kind := range nodeapi.Kinds() {
		list, err := w.life.node.List(ctx, kind)
		if err != nil && !w.life.dead() && !w.diskFails {
			w.fault("list %s: %v", kind, err)
		}
		if kind != "ni" && kind != "app" {
			continue
		}
		for _, r := range list {
			if _, err := w.life.node.Explain(ctx, kind, r.ID); err != nil && !w.life.dead() {
				w.fault("explain %s %s: %v", kind, r.ID, err)
			}
		}
	}
}
