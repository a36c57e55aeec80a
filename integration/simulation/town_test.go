package simulation

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// town is a machine with its surroundings, and the processes of the daemon that follow each other on it. Its methods are
// for the goroutine of the plan.
type town struct {
	host    *fake.Host
	execs   *fake.Executors
	journal *fake.Journal
	files   *fake.Files
	about   agent.NodeFacts
	life    *life
	place   int // among the nodes of a fleet: each has addresses of its own
	boot    uint64
	machine int
	booted  time.Time // the machine
	clock   wallClock
	drains  map[string]*drained // of each port, by label
	killed  sync.WaitGroup      // processes that go on for a while
	now     string              // the step, for faults

	want   scene
	known  bool   // want is the config that the node has
	unhang func() // ends a hang of the disk
	// diskFails means that the disk may refuse or delay a config.
	diskFails bool

	ifaces []netstate.Interface
	lost   map[string]int // of the probes of each port, in percent
	began  func(*life)    // called for each process
	tapes  *[]*memory     // the recording of each process; nil: none is recorded

	faults []string
}

// facts are those of a machine of which nothing is known.
type facts struct{}

func (facts) Read(context.Context) (netstate.Facts, error) { return netstate.Facts{}, nil }

// commands do nothing.
type commands struct{}

func (commands) Run(context.Context, ...string) error { return nil }
func (commands) RestartAgent() error                  { return nil }

// nodeMetadata is the metadata of nodes.
var nodeMetadata = sync.OnceValue(func() *metadata.Metadata {
	m, faults := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
	if faults != nil {
		panic(faults)
	}
	return m
})

func newTown(change ...func(*town)) *town {
	w := &town{host: fake.New(), execs: fake.NewExecutors(), journal: fake.NewJournal(), files: fake.NewFiles(),
		about: agent.NodeFacts{Name: "n", Software: "EDGESPAN-0-1-0", Metadata: nodeMetadata(), Bases: schema.NodeBases()}}
	w.unhang, w.began = func() {}, func(*life) {}
	w.booted, w.drains = time.Now(), map[string]*drained{}
	for _, f := range change {
		f(w)
	}
	w.mend()
	w.start()
	return w
}

func (w *town) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("%s: %s", w.now, fmt.Sprintf(format, args...)))
}

// boots makes the machine boot.
func (w *town) boots() {
	w.machine++
	w.booted = time.Now()
	w.bootDrains()
}

// start begins the next process of the daemon.
func (w *town) start() {
	w.boot++
	l := newLife(w.host, w.journal)
	n, err := node.Start(node.Options{
		Host: l, Executors: lifeExecutors{w.execs, l}, Echo: w.execs.Echo, Files: lifeFiles{w.files, l}, Facts: facts{}, About: w.about,
		Machine: fmt.Sprint("machine ", w.machine), Commands: commands{}, Journal: lifeJournal{l}, RunDir: "/run/edgespan",
		Boot: w.boot, Log: zap.New(l.crashes), Notify: l.notify,
		Tape: w.record(l), Now: w.clock.now, Uptime: w.uptime(),
	})
	if err != nil {
		w.fault("start the node: %v", err)
		l.end()
		w.life = l
		return
	}
	l.node, w.life = n, l
	w.began(l)
	synctest.Wait()
}

// uptime returns the clock that no one sets, of this boot.
func (w *town) uptime() func() time.Duration {
	booted := w.booted
	return func() time.Duration { return time.Since(booted) }
}

// kill ends the process at once, and waits for nothing.
func (w *town) kill() {
	l := w.life
	w.look()
	l.end()
	if l.node != nil {
		w.killed.Go(func() { _ = l.node.Stop(context.Background()) }) // its leaves fail
	}
}

// revive starts the daemon again if it has died, as systemd does.
func (w *town) revive() {
	if w.life.dead() {
		w.kill()
		w.start()
	}
}

// stopTimeout bounds a stop by systemd: what hangs is killed at its deadline.
const stopTimeout = 90 * time.Second

// stop ends the process as systemd does.
func (w *town) stop() {
	w.look()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := w.life.node.Stop(ctx); err != nil {
		w.fault("stop the node: %v", err)
	}
	w.life.end()
}

// applyTimeout is how long a person waits.
const applyTimeout = time.Minute

// apply applies a config. One that is refused for the disk leaves it unknown which one runs.
func (w *town) apply(s scene, mayFail bool) {
	ctx, cancel := context.WithTimeout(context.Background(), applyTimeout)
	defer cancel()
	_, err := w.life.node.Apply(ctx, []byte(s.document()), nodeapi.ApplyOptions{})
	if w.known = err == nil; w.known {
		w.want = s
	} else if !mayFail && !w.life.dead() {
		w.fault("apply: %v\n%s", err, s.document())
	}
}

// mend ends all that is wrong with the surroundings.
func (w *town) mend() {
	w.mendDisk()
	w.host.SetFault(nil)
	w.host.SetProbes(nil)
	w.host.SetEcho(false)
	w.lost = nil
	for n := 1; n <= maxOwners; n++ {
		w.host.SetBroken(n)
	}
	for i := 1; i <= maxApps; i++ {
		w.host.SetNetns(fmt.Sprint("ns", i), true)
		w.host.SetLink(fmt.Sprint("vm", i), true)
		w.host.HangTunnel(i, false)
		w.host.SetTunnel(i, tunnel(i, 0))
	}
	w.host.SetLink(clusterLink, true)
	w.ifaces = nil
	for i := range uplinks {
		w.ifaces = append(w.ifaces, w.uplink(i))
	}
	for n := 1; n <= maxNetworks; n++ {
		w.host.SetLink(fmt.Sprint("lan", n), true)
		w.ifaces = append(w.ifaces, netstate.Interface{Name: fmt.Sprint("lan", n), Up: true, MTU: 1500})
	}
	w.host.SetInterfaces(w.ifaces...)
	if w.life == nil || w.life.node == nil {
		return
	}
	w.life.dieAfter(0, false)                      // an end that was still to come
	for _, label := range []string{"wan", "lte"} { // a process that has just begun may know no ports; a drain ends by itself
		if _, err := w.life.node.Undrain(context.Background(), label); err == nil {
			delete(w.drains, label)
		}
	}
}

func (w *town) mendDisk() {
	w.unhang()
	w.unhang, w.diskFails = func() {}, false
	w.files.Fail(nil)
}

// maxOwners is above the numbers of all networks.
const maxOwners = 2 * maxNetworks

const uplinks = 2

// uplink is an uplink as it is when nothing is wrong with it.
func (w *town) uplink(i int) netstate.Interface {
	at := []string{"192.0.2", "203.0.113"}[i]
	return netstate.Interface{Name: fmt.Sprint("uplink", i), Up: true, MTU: 1500,
		Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("%s.%d/24", at, 2+w.place)),
			netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::%d/64", i, 2+w.place))},
		DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr(at + ".1")),
			netstate.DefaultVia(netip.MustParseAddr(fmt.Sprintf("fe80::%d", i+1)))}}
}

// tunnel is a WireGuard tunnel that has sent some octets, and received as many.
func tunnel(n int, silent uint64) netstate.TunnelStatus {
	return netstate.TunnelStatus{Number: n, Kind: "wireguard", By: "process", Link: netstate.VPNLink(n), Up: silent == 0,
		Peers: []netstate.TunnelPeer{{Name: "hub", Identity: "hub", Endpoint: "198.51.100.1:51820", Up: silent == 0,
			Received: 1000, Sent: 1000 + silent}}}
}
