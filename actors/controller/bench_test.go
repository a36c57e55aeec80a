package controller

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// quickNode applies each push at once.
type quickNode struct {
	c          *Controller
	id         uint64
	node       string
	md5        string
	generation nodeproto.Generation
	pushes     *atomic.Int64
	confirmed  *atomic.Int64
}

func (n *quickNode) ID() uint64 { return n.id }
func (n *quickNode) End(string) {}
func (n *quickNode) Send(m nodeproto.FromController) error {
	switch m := m.(type) {
	case nodeproto.Push:
		n.md5, n.generation = m.MD5, m.Generation
		n.c.Received(n, nodeproto.Result{Attempt: m.Attempt, Generation: m.Generation, MD5: m.MD5,
			Outcome: nodeproto.Accepted})
		n.c.Received(n, n.report(true))
		n.pushes.Add(1)
	case nodeproto.Probe:
		n.c.Received(n, nodeproto.Probed{Number: m.Number, Generation: n.generation, MD5: n.md5})
	case nodeproto.Confirm:
		n.c.Received(n, n.report(false))
		n.confirmed.Add(1)
	case nodeproto.Request:
		n.c.Received(n, nodeproto.Answer{ID: m.ID, Data: []byte("{}")})
	}
	return nil
}

func (n *quickNode) report(pending bool) nodeproto.Report {
	on := true
	r := nodeproto.Report{MD5: n.md5, Generation: n.generation, Software: "RELEASE_M20", Managed: &on, Settled: true}
	if pending {
		r.Pending = &nodeproto.PendingReport{Generation: n.generation, Settled: true, Remaining: time.Minute}
	}
	return r
}

// bigBase is a config of about 4 KB.
func bigBase() string {
	text := `{"sysParams":{"managedConfig":true}`
	for i := range 40 {
		text += fmt.Sprintf(`,"group%d":{"alpha":"value %d","beta":%d,"gamma":[1,2,3],"delta":{"x":true,"y":null}}`, i, i, i)
	}
	return text + "}"
}

// BenchmarkNetworkOverride measures one network override until all nodes have confirmed it, with a store in memory and
// nodes that answer at once. It also reports the floor: making each node's config and its MD5 once.
func BenchmarkNetworkOverride(b *testing.B) {
	for _, own := range []bool{false, true} {
		b.Run(fmt.Sprintf("own=%v", own), func(b *testing.B) {
			overrideOf(b, own, 10_000, func(i int) ops.Write {
				return ops.SetNetwork{Overrides: config.Object{"envParams": config.Object{"A": fmt.Sprint(i)}}}
			})
		})
	}
}

// BenchmarkNodeOverride measures the override of one node among 10,000 until that node has confirmed it.
func BenchmarkNodeOverride(b *testing.B) {
	overrideOf(b, false, 1, func(i int) ops.Write {
		return ops.SetNodes{Overrides: config.Object{"n00007": config.Object{"envParams": config.Object{"A": fmt.Sprint(i)}}}}
	})
}

func overrideOf(b *testing.B, own bool, touched int, change func(int) ops.Write) {
	const nodes = 10_000
	store := newMemory()
	o := Options{
		Store: store, Elector: elector, Replica: "a", Log: zap.NewNop(), Metadata: testMetadata,
		Issuer: &issuer{}, MaskKey: []byte("k"),
		Base: &base{docs: map[string]string{"RELEASE_M20": bigBase()}}, Settings: fleet.Defaults("a"),
	}
	for i := range nodes {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012x", i)
		name := fmt.Sprintf("n%05d", i)
		if _, err := store.Model().Commit(kv.Txn{Then: []kv.Op{
			kv.Put(history.NodeKey(id), storage.Encode(history.JoinedNode{ID: id, Name: name})),
			kv.Put(history.NameKey(name), []byte(id)),
		}}); err != nil {
			b.Fatal(err)
		}
	}
	before := heap()
	c, err := Start(o)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Stop(context.Background())
	if own { // each node has its own layer
		layer := config.Object{}
		for i := range nodes {
			layer[fmt.Sprintf("n%05d", i)] = config.Object{"envParams": config.Object{"NAME": fmt.Sprint(i)}}
		}
		for c.Ready(b.Context()) != nil || len(c.d.dir.handles()) < nodes {
			runtime.Gosched()
		}
		if _, err := c.Write(b.Context(),
			fleetapi.WriteRequest{Caller: alice, Write: ops.SetNodes{Overrides: layer}}); err != nil {
			b.Fatal(err)
		}
	}
	var pushes, confirmed atomic.Int64
	for c.Ready(b.Context()) != nil || len(c.d.dir.handles()) < nodes {
		runtime.Gosched()
	}
	for i := range nodes {
		n := &quickNode{c: c, id: uint64(i + 1), node: fmt.Sprintf("00000000-0000-4000-8000-%012x", i),
			md5: config.MD5(config.Object{}), pushes: &pushes, confirmed: &confirmed}
		h := nodeproto.Hello{Node: n.node, Software: "RELEASE_M20"}
		if err := c.Admit(b.Context(), h); err != nil {
			b.Fatal(err)
		}
		c.Connected(n, h)
		c.Received(n, n.report(false))
	}
	wait := func(n int64) {
		for at := time.Now(); confirmed.Load() < n; runtime.Gosched() {
			if time.Since(at) > time.Minute {
				b.Fatalf("%d of %d confirmed, %d pushes", confirmed.Load(), n, pushes.Load())
			}
		}
	}
	wait(nodes)
	perNode := float64(heap()-before) / nodes
	set, _ := c.d.Base.Read(layers.Choice{Base: "RELEASE_M20"})
	commits := store.Commits()
	b.ResetTimer()
	for i := range b.N {
		if _, err := c.Write(b.Context(), fleetapi.WriteRequest{Caller: alice, Write: change(i)}); err != nil {
			b.Fatal(err)
		}
		wait(int64(nodes + touched*(i+1)))
	}
	b.StopTimer()
	b.ReportMetric(perNode, "B/node")
	b.ReportMetric(float64(store.Commits()-commits)/float64(b.N), "txns/op")
	took := b.Elapsed() / time.Duration(b.N)
	at := time.Now()
	for range touched {
		set[layers.Network] = config.Object{"envParams": config.Object{"A": "1"}}
		effective, _ := set.Effective()
		_ = config.MD5(effective)
	}
	b.ReportMetric(float64(took)/float64(time.Since(at)), "ratio")
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkReport measures what one report of a node in sync costs the controller, not counting its stream.
func BenchmarkReport(b *testing.B) {
	store := newMemory()
	id := "00000000-0000-4000-8000-000000000000"
	if _, err := store.Model().Commit(kv.Txn{Then: []kv.Op{
		kv.Put(history.NodeKey(id), storage.Encode(history.JoinedNode{ID: id, Name: "n"})),
		kv.Put(history.NameKey("n"), []byte(id)),
	}}); err != nil {
		b.Fatal(err)
	}
	c, err := Start(Options{
		Store: store, Elector: elector, Replica: "a", Log: zap.NewNop(), Metadata: testMetadata,
		Issuer: &issuer{}, MaskKey: []byte("k"),
		Base: &base{docs: map[string]string{"RELEASE_M20": bigBase()}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Stop(context.Background())
	var pushes, confirmed atomic.Int64
	n := &quickNode{c: c, id: 1, node: id, md5: config.MD5(config.Object{}), pushes: &pushes, confirmed: &confirmed}
	for c.Admit(b.Context(), nodeproto.Hello{Node: id}) != nil {
		runtime.Gosched()
	}
	c.Connected(n, nodeproto.Hello{Node: id, Software: "RELEASE_M20"})
	c.Received(n, n.report(false))
	for confirmed.Load() == 0 {
		runtime.Gosched()
	}
	r := n.report(false)
	for i := 0; b.Loop(); i++ {
		c.Received(n, r)
		if i%1000 != 0 {
			continue
		}
		if _, err := c.Node(b.Context(), "n"); err != nil { // the node has processed all of them
			b.Fatal(err)
		}
	}
}

// BenchmarkNoPeer measures what peers and clusters cost a rollout for a node that is part of none, in a fleet that has
// some: the controller checks each node whose config may change.
func BenchmarkNoPeer(b *testing.B) {
	peers, clusters, deployments := map[string]peer.Peer{}, map[string]peer.Cluster{}, map[string]peer.Deployment{}
	for i := range 100 {
		name := fmt.Sprintf("p%03d", i)
		peers[name] = peer.Peer{Name: name}
		clusters[name] = peer.Cluster{Name: name, Leader: name, Members: map[string]peer.MemberDescriptor{name: {}}}
		deployments[name] = peer.Deployment{}
	}
	a := &fleetActor{peers: newPeering()}
	a.peers.fleet = peer.NewFleet(peers, clusters, deployments)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	set := layers.Set{}
	b.ReportAllocs()
	for b.Loop() {
		for _, name := range names {
			if with, _ := a.peerConfigurationOf(name, set, ""); with != nil {
				b.Fatal(name)
			}
		}
	}
}
