package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/layers/schema"
	"edgespan/platform/fake"
	"edgespan/platform/store/backend"
)

// crowd is a small fleet: replicas of a controller on one store, and nodes, each a town of its own.
type crowd struct {
	store   *fake.Store
	base    bases
	issuer  issuer
	members []*member
	ctx     context.Context // of the links
	endAll  context.CancelFunc
	now     string
	faults  []string
	crashes crashes // of the replicas

	flags    map[string]string
	verbs    map[string]func(*crowd, *rand.Rand)
	clusters *clusters // what people want of clusters; nil: there are none
	changes  *changes  // of a staged fleet; nil: it is none
	patience time.Duration
	clocks   []wallClock // of the machines of the replicas
	ways     []*way      // of the replicas to the store
	mu       sync.Mutex
	replicas []*replica // nil: it does not run
	stopping sync.WaitGroup
}

// member is a node of a fleet.
type member struct {
	*town
	name, id string
	link     *link

	mu   sync.Mutex
	life *life // for the link
}

const (
	crowdNodes    = 2
	crowdReplicas = 2
	// crowdPatience is how long a fleet may take: a push, its confirmation, and one that is undone and repeated.
	crowdPatience = 25 * time.Minute
)

var person = fleetapi.Caller{Name: "alice", Role: fleetapi.Admin}

func newCrowd(nodes int, change ...func(*crowd)) (*crowd, error) {
	f := &crowd{patience: crowdPatience, verbs: fleetVerbs, store: fake.NewStore(), base: bases(schema.NodeBases()), replicas: make([]*replica, crowdReplicas),
		clocks: make([]wallClock, crowdReplicas)}
	f.ctx, f.endAll = context.WithCancel(context.Background())
	for _, by := range change {
		by(f)
	}
	for i := range f.replicas {
		f.ways = append(f.ways, newWay(f.store))
		f.begin(i)
	}
	time.Sleep(time.Minute) // until one leads
	synctest.Wait()
	if err := f.write(ops.SetNetwork{Overrides: config.Object{"sysParams": config.Object{"managedConfig": true}}}); err != nil {
		return nil, err
	}
	for i := range nodes {
		if err := f.join(i); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// join makes a node that joins with a token, and begins its link.
func (f *crowd) join(i int) error {
	name := fmt.Sprint("node", i+1)
	m := &member{name: name, id: fmt.Sprintf("2c000000-0000-4000-8000-%012d", i+1)}
	c := f.replica(0).c
	invited, err := c.Invite(f.ctx, person, name, time.Hour, false)
	if err != nil {
		return err
	}
	if _, err := c.Join(f.ctx, nodeproto.Join{Token: invited.Token, Name: name, Node: m.id, Key: "key of " + name}); err != nil {
		return err
	}
	m.town = newTown(func(w *town) {
		w.place = i
		w.about.Name, w.about.Controller = name, "ctl:8444"
		w.began = func(l *life) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.life = l
		}
	})
	m.known = true // an empty config
	m.link = &link{f: f, m: m, done: make(chan struct{})}
	f.members = append(f.members, m)
	go m.link.run()
	return nil
}

func (m *member) process() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

func (f *crowd) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf("%s: %s", f.now, fmt.Sprintf(format, args...)))
}

// begin starts a replica.
func (f *crowd) begin(i int) {
	name := fmt.Sprint("replica", i+1)
	c, err := controller.Start(controller.Options{Store: f.ways[i], Elector: elector, Replica: name, Log: zap.New(&f.crashes),
		Base: f.base, Metadata: nodeMetadata(), Issuer: &f.issuer, Settings: fleet.Defaults(name), Shared: true,
		MaskKey: []byte("k"), NodeLink: "ctl:8444",
		Now: f.clocks[i].now, Flags: f.flags})
	if err != nil {
		f.fault("start %s: %v", name, err)
		return
	}
	r := &replica{c: c}
	r.ctx, r.end = context.WithCancel(context.Background())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas[i] = r
}

// stop ends a replica; its streams end at once.
func (f *crowd) stop(i int) {
	f.mu.Lock()
	r := f.replicas[i]
	f.replicas[i] = nil
	f.mu.Unlock()
	if r == nil {
		return
	}
	r.end()
	f.stopping.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		_ = r.c.Stop(ctx) // a store that is away may delay it
	})
}

// replica returns a replica that runs, another one in each turn; nil for none.
func (f *crowd) replica(turn int) *replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.replicas {
		if r := f.replicas[(turn+i)%len(f.replicas)]; r != nil {
			return r
		}
	}
	return nil
}

// write changes layers, as a person does at one of the replicas.
func (f *crowd) write(w ops.Write) error {
	r := f.replica(0)
	if r == nil {
		return errors.New("no replica runs")
	}
	ctx, cancel := context.WithTimeout(f.ctx, applyTimeout)
	defer cancel()
	_, err := r.c.Write(ctx, fleetapi.WriteRequest{Caller: person, Write: w, Message: "simulated"})
	return err
}

// give makes a scene the config of a node. A write that fails leaves it unknown which one it has.
func (f *crowd) give(m *member, s scene, mayFail bool) {
	doc, faults := config.ReadObject([]byte(s.document()))
	if faults != nil {
		f.fault("%v", faults)
		return
	}
	err := f.write(ops.SetNodes{Overrides: config.Object{m.name: doc}})
	if m.known = err == nil; m.known {
		m.want = s
	} else if !mayFail {
		f.fault("write: %v", err)
	}
}

// again gives a node the config that it is to have.
func (f *crowd) again(m *member, mayFail bool) {
	if f.changes != nil {
		_ = f.change(copyOf(m.want), "", mayFail)
	} else {
		f.give(m, m.want, mayFail)
	}
}

// look judges what must be true at all times.
func (f *crowd) look() {
	for _, m := range f.members {
		m.now = f.now + ": " + m.name
		m.look()
		f.faults = append(f.faults, m.faults...)
		m.faults = nil
	}
	for _, c := range f.crashes.taken() {
		f.fault("an actor of a replica crashed: %s", c)
	}
	f.lookAtChanges()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.replicas {
		if r == nil {
			continue
		}
		select {
		case err := <-r.c.Done():
			f.faults = append(f.faults, fmt.Sprintf("%s: replica %d ended: %v", f.now, i+1, err))
		default:
		}
	}
}

// mend ends all that is wrong with the surroundings.
func (f *crowd) mend() {
	f.mendStore()
	for i := range f.replicas {
		f.mu.Lock()
		gone := f.replicas[i] == nil
		f.mu.Unlock()
		if gone {
			f.begin(i)
		}
	}
	for _, m := range f.members {
		m.link.set(func(l *link) { l.cut, l.mute, l.delay = false, false, 0 })
		m.revive()
		m.mend()
	}
}

// settle mends the surroundings, and judges whether each node has what its layers say within the time, and each replica
// knows.
func (f *crowd) settle() {
	f.mend()
	for end := time.Now().Add(5 * time.Minute); f.mendClusters() != nil; time.Sleep(5 * time.Second) {
		if time.Now().After(end) {
			f.fault("the cluster: %v", f.mendClusters())
			return
		}
	}
	for _, m := range f.members {
		for end := time.Now().Add(5 * time.Minute); !m.known; time.Sleep(5 * time.Second) {
			f.again(m, time.Now().Before(end)) // once the store can be written
			if len(f.faults) > 0 {
				return
			}
		}
	}
	for end := time.Now().Add(f.patience); ; time.Sleep(5 * time.Second) {
		synctest.Wait()
		f.carryOn()
		wrong := slices.Concat(f.unfinished(), f.wrongInClusters())
		for _, m := range f.members {
			m.revive()
			for _, what := range slices.Concat(m.wrong(), f.notInSync(m)) {
				wrong = append(wrong, m.name+": "+what)
			}
		}
		if len(wrong) == 0 {
			f.look()
			return
		}
		if time.Now().After(end) {
			f.fault("%v after everything works: %s", f.patience, strings.Join(wrong, "; "))
			return
		}
	}
}

// notInSync returns what the replicas say of a node, but that it is in sync with its layers: at one of them, and that
// the others know.
func (f *crowd) notInSync(m *member) (list []string) {
	inSync := 0
	for i := range f.replicas {
		f.mu.Lock()
		r := f.replicas[i]
		f.mu.Unlock()
		d, err := r.c.Node(f.ctx, m.name)
		switch {
		case err != nil:
			list = append(list, fmt.Sprintf("replica %d: %v", i+1, err))
		case d.State == string(fleet.InSync):
			inSync++
		case d.State == string(fleet.RolledBack): // undone while something was wrong: a person asks for another try
			_ = r.c.Command(f.ctx, person, m.name, fleetapi.Retry) // its effect is judged
			fallthrough
		case d.State == string(fleet.NeedsAdoption): // it was forgotten and joined again
			_ = r.c.Command(f.ctx, person, m.name, fleetapi.AdoptReplace)
			fallthrough
		default:
			list = append(list, fmt.Sprintf("replica %d: %s: %s", i+1, d.State, strings.Join(d.Explain, ", ")))
		}
	}
	if inSync == len(f.replicas) {
		return nil
	}
	return list
}

// happens lets one step happen.
func (f *crowd) happens(s step) []string {
	if f.now = s.String(); f.changes != nil {
		f.changes.disturb()
	}
	f.verbs[s.verb](f, rand.New(rand.NewPCG(s.number, 3)))
	f.look()
	return f.faults
}

func (f *crowd) ends(well bool) []string {
	f.now = "the end"
	if well {
		f.end()
	} else {
		f.leave()
	}
	return f.faults
}

// end judges the end: empty layers leave nothing on any node.
func (f *crowd) end() {
	if f.settle(); len(f.faults) == 0 {
		f.empty()
		f.settle()
		time.Sleep(quiet)
		for _, m := range f.members {
			m.leavesNothing()
		}
		f.look()
	}
	f.leave()
}

// empty gives all nodes an empty config.
func (f *crowd) empty() {
	for _, m := range f.members {
		if m.want = (scene{}); f.changes == nil {
			f.give(m, scene{}, false)
		}
	}
	if err := f.endClusters(); err != nil {
		f.fault("the end of the cluster: %v", err)
	}
	if f.changes == nil {
		return
	}
	if err := f.overrideAll(scene{}.document()); err != nil {
		f.fault("write: %v", err)
	}
}

// leave ends all processes.
func (f *crowd) leave() {
	f.mend()
	f.endLinks()
	for _, m := range f.members {
		m.leave()
	}
	for i := range f.replicas {
		f.stop(i)
	}
	f.stopping.Wait()
	time.Sleep(deadOps)
}

func (f *crowd) endLinks() {
	f.endAll()
	for _, m := range f.members {
		<-m.link.done
	}
}

// fleetVerbs are what can happen to a fleet beside what happens to a node.
var fleetVerbs = map[string]func(*crowd, *rand.Rand){
	// A write may fail: no replica may lead yet, or the store be away.
	"layers": func(f *crowd, rng *rand.Rand) { f.give(f.one(rng), drawScene(rng), true) },
	"settle": func(f *crowd, _ *rand.Rand) { f.settle() },
	"cut": func(f *crowd, rng *rand.Rand) {
		cut := rng.IntN(3) > 0
		f.one(rng).link.set(func(l *link) { l.cut = cut })
	},
	"mute": func(f *crowd, rng *rand.Rand) {
		mute := rng.IntN(3) > 0
		f.one(rng).link.set(func(l *link) { l.mute = mute })
	},
	"slow": func(f *crowd, rng *rand.Rand) {
		delay := time.Duration(rng.IntN(4)*rng.IntN(5)) * time.Second
		f.one(rng).link.set(func(l *link) { l.delay = delay })
	},
	"store":   (*crowd).setStore,
	"clock":   func(f *crowd, rng *rand.Rand) { f.clocks[rng.IntN(crowdReplicas)].jump(rng) },
	"replica": (*crowd).setReplica,
	"revert":  (*crowd).breakAndRevert,
	"node":    (*crowd).happen,
}

func (f *crowd) one(rng *rand.Rand) *member { return f.members[rng.IntN(len(f.members))] }

func (f *crowd) setReplica(rng *rand.Rand) {
	i := rng.IntN(crowdReplicas)
	f.stop(i)
	if rng.IntN(2) == 0 {
		f.begin(i)
	}
}

// breakAndRevert gives a node a config whose uplinks are missing, and the one before again, soon or late.
func (f *crowd) breakAndRevert(rng *rand.Rand) {
	m := f.one(rng)
	doc, faults := config.ReadObject([]byte(strings.ReplaceAll(m.want.document(), "ifName: uplink", "ifName: missing")))
	if faults != nil {
		f.fault("%v", faults)
		return
	}
	if err := f.write(ops.SetNodes{Overrides: config.Object{m.name: doc}}); err != nil {
		m.known = false
		return
	}
	time.Sleep(time.Duration(rng.IntN(300)) * time.Second)
	f.give(m, m.want, true)
}

// happen lets something happen to one node that has nothing to do with its controllers.
func (f *crowd) happen(rng *rand.Rand) {
	m, names := f.one(rng), nodeVerbs()
	verb := names[rng.IntN(len(names))]
	m.now = f.now + ": " + m.name + ": " + verb
	m.revive()
	verbs[verb](m.town, rng)
}

// elector is how replicas elect one.
func elector(s storage.Store) storage.Elect { return backend.Elector(s) }

// bases are the base files.
type bases map[string]config.Object

func (b bases) Library() (l layers.Library, err error) {
	for name := range b {
		l.Base = append(l.Base, name)
	}
	return l, nil
}

func (b bases) Read(c layers.Choice) (layers.Set, error) {
	return layers.Set{layers.Base: b[c.Base]}, nil
}

// issuer makes tokens whose hash is their text.
type issuer struct {
	mu   sync.Mutex
	made int
}

func (i *issuer) Redeem(now time.Time, t controller.Token, j nodeproto.Join) (controller.Token, error) {
	if t.Hash != j.Token {
		return controller.Token{}, errors.New("unknown token")
	}
	t.Used = &controller.TokenUse{Node: j.Node, Key: j.Key, At: now}
	return t, nil
}

func (i *issuer) text() (text, hash string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	text = fmt.Sprint("token ", i.made)
	return text, text, nil
}

func (i *issuer) JoinTokenHash(text string) (string, error) { return text, nil }
func (i *issuer) NewJoinToken(string, time.Time) (text, hash string, err error) {
	return i.text()
}
func (i *issuer) NewOperatorToken(string, string, time.Time) (text, hash string, err error) {
	return i.text()
}
func (i *issuer) Pin() string                          { return "pin" }
func (i *issuer) Revoke([]controller.Revocation) error { return nil }
