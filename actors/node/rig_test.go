package node

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"edgespan/actors/agent"
	core "edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// stored returns the confirmed config in its canonical form.
func (r *rig) stored() string {
	r.Helper()
	text, err := r.files.Read("confirmed")
	if err != nil {
		r.Fatal(err)
	}
	record, err := commitconfirm.DecodeRecord(text)
	if err != nil {
		r.Fatal(err)
	}
	return string(core.AppendCanonical(nil, record.Document))
}

// lastGood is an earlier version's last good config, nil for none.
func (r *rig) lastGood() []byte {
	text, _ := r.files.ReadLastGood() // there is none
	return text
}

// canonical returns a document in its canonical form.
func canonical(t testing.TB, text string) string {
	t.Helper()
	o, faults := core.ReadObject([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	return string(core.AppendCanonical(nil, o))
}

// commands records the commands that a node ran.
type commands struct {
	mu     sync.Mutex
	ran    []string
	ends   int
	failed error
}

func (c *commands) Run(_ context.Context, argv ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran = append(c.ran, strings.Join(argv, " "))
	return c.failed
}

func (c *commands) RestartAgent() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends++
	return nil
}

// rig is a node on a host in memory, on the fake clock.
type rig struct {
	*testing.T
	host    *fake.Host
	execs   *fake.Executors
	journal *fake.Journal
	files   *fake.Files
	facts   memFacts
	about   agent.NodeFacts
	ran     commands
	node    *Node
	boot    uint64
	machine string                 // its boot ID; "" for another one at each start
	level   atomic.Pointer[string] // of the log, as the config sets it
	stick   atomic.Pointer[func()] // runs in the config actor, when it sets the level
	mu      sync.Mutex
	beats   int
	flows   memFlows
	change  func(*Options) // of each start; nil for none
}

// fed returns how often the watchdog was notified.
func (r *rig) fed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beats
}

// onRig runs f with a node in a bubble of fake time.
func onRig(t *testing.T, f func(r *rig)) {
	t.Helper()
	onHost(t, func(r *rig) {
		r.start()
		f(r)
	})
}

// onHost is onRig with a node that is not started yet.
func onHost(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, host: fake.New(), execs: fake.NewExecutors(),
			journal: fake.NewJournal(), files: fake.NewFiles()}
		r.host.SetInterfaces(netstate.Interface{
			Name: "uplink0", Up: true, MTU: 1500,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))},
		})
		m, faults := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
		if faults != nil {
			t.Fatal(faults)
		}
		r.about = agent.NodeFacts{Name: "n", Software: "EDGESPAN-0-1-0", Metadata: m, Bases: schema.NodeBases()}
		defer func() { r.stop() }() // after a Fatal too: the bubble ends only then
		f(r)
		if v := r.host.Violations(); len(v) > 0 {
			t.Errorf("ops out of order:\n%s", strings.Join(v, "\n"))
		}
	})
}

func (r *rig) start() {
	r.Helper()
	r.boot++
	log := zap.NewNop()
	if os.Getenv("EDGESPAN_TEST_LOG") != "" {
		log = zaptest.NewLogger(r.T, zaptest.Level(zap.InfoLevel))
	}
	machine := r.machine
	if machine == "" {
		machine = fmt.Sprint("m", r.boot)
	}
	o := Options{
		Host: r.host, Executors: r.execs, Echo: r.execs.Echo, Files: r.files, Facts: &r.facts, About: r.about,
		Machine: machine, Commands: &r.ran, Journal: r.journal, RunDir: "/run/edgespan", Boot: r.boot, Log: log,
		FlowStore: &r.flows,
		SetLevel: func(word string) {
			r.level.Store(&word)
			if f := r.stick.Load(); f != nil {
				(*f)()
			}
		},
		Notify: func(s string) {
			if s == "WATCHDOG=1" {
				r.mu.Lock()
				r.beats++
				r.mu.Unlock()
			}
		},
	}
	if r.change != nil {
		r.change(&o)
	}
	n, err := Start(o)
	if err != nil {
		r.Fatal(err)
	}
	r.node = n
	r.settle(0)
}

func (r *rig) stop() {
	r.Helper()
	if r.node == nil { // its start failed
		return
	}
	if err := r.node.Stop(context.Background()); err != nil {
		r.Errorf("stop the node: %v", err)
	}
	// The library counts dead letters for a second after the first one, such as the result of an op that hung until its
	// deadline and whose actor has stopped. The bubble must not end before that.
	r.settle(40 * time.Second)
}

// settle lets d pass on the fake clock and waits for everything that follows.
func (r *rig) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) apply(doc string) {
	r.Helper()
	if _, err := r.node.Apply(context.Background(), []byte(doc), nodeapi.ApplyOptions{}); err != nil {
		r.Fatalf("apply: %v", err)
	}
	r.settle(0)
}

// ready fails the test unless every ID, as "ni/…" or "app/…", is ready within d.
func (r *rig) ready(d time.Duration, ids ...string) {
	r.Helper()
	end := time.Now().Add(d)
	for _, id := range ids {
		kind, name, _ := strings.Cut(id, "/")
		for {
			got, err := r.node.Ready(context.Background(), kind, name)
			if err != nil {
				r.Fatal(err)
			}
			if got.Ready {
				break
			}
			if !time.Now().Before(end) {
				r.Fatalf("%s is not ready after %v: %s", id, d, got.Why)
			}
			r.settle(10 * time.Millisecond)
		}
	}
}

func niID(n int) string  { return fmt.Sprintf("0a000000-0000-4000-8000-%012d", n) }
func appID(n int) string { return fmt.Sprintf("1b000000-0000-4000-8000-%012d", n) }

// doc returns a config of networks 1..nets and apps 1..apps, each with one adapter on network 1 + (app-1) % nets.
func doc(nets, apps int) string {
	var b strings.Builder
	b.WriteString("ports:\n  wan: {ifName: uplink0, uplink: true, dnsServers: 198.51.100.53}\n")
	if nets > 0 {
		b.WriteString("networkInstances:\n")
	}
	for n := 1; n <= nets; n++ {
		fmt.Fprintf(&b, "  %s: {displayName: net%d, type: local, port: wan, ipv4: {subnet: 10.%d.0.0/24}, dns: {domain: "+
			"edge}}\n", niID(n), n, n)
	}
	if apps > 0 {
		b.WriteString("appNetworks:\n")
	}
	for a := 1; a <= apps; a++ {
		fmt.Fprintf(&b, "  %s: {displayName: app%d, activate: true, adapters: {0: {networkInstance: %s, attach: {kind: "+
			"veth, netns: ns%d},"+
			" acl: {all: {action: allow, direction: egress}}}}}\n", appID(a), a, niID(1+(a-1)%nets), a)
	}
	return b.String()
}

func (r *rig) netns(names ...string) {
	for _, n := range names {
		r.host.SetNetns(n, true)
	}
}

// memFacts are the facts of a machine in memory.
type memFacts struct{ netstate.Facts }

func (m *memFacts) Read(context.Context) (netstate.Facts, error) { return m.Facts, nil }
