package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/nodeconf/commitconfirm"
)

// The staged fleets: each change goes to one node, then to half of them, then to all, never to more than two at once.
const (
	stagedNodes  = 5
	stagedCanary = 1
	stagedLimit  = 2
	// stagedPatience is for all batches, each of which may be tried again.
	stagedPatience = time.Hour
)

var stagedFlags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "50",
	"config_rollout_canary": fmt.Sprint(stagedCanary), "config_rollout_batch_limit": fmt.Sprint(stagedLimit),
	"config_batch_timeout_s": "180"}

// changes is a model of staged rollouts: what left the controllers for each node, and what each node has confirmed on
// its disk. Each change carries its number in the name of a network that every node has.
type changes struct {
	mu    sync.Mutex
	last  int
	all   map[int]*change
	calm  bool // nothing is on its way: all has settled
	wrong []string
}

// change is one change of the layers.
type change struct {
	calm            bool // it was made when nothing else was on its way
	disturbed       bool // something happened since
	resumed         int  // how often a person let it go on after a halt
	sent, confirmed map[string]bool
}

// markedNetwork is the network that carries the number of the change.
const markedNetwork = 1

var marks = regexp.MustCompile(fmt.Sprintf(`net%d-r(\d+)`, markedNetwork))

// markOf returns the number of the change that a document carries, 0 for none.
func markOf(doc []byte) int {
	if m := marks.FindSubmatch(doc); m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	return 0
}

// next begins a change.
func (x *changes) next() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last++
	x.all[x.last] = &change{calm: x.calm, sent: map[string]bool{}, confirmed: map[string]bool{}}
	x.calm = false
	return x.last
}

// disturb notes that something happens.
func (x *changes) disturb() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.all {
		c.disturbed = true
	}
}

// confirm notes which node has confirmed which change, by its disk.
func (x *changes) confirm(node string, disk []byte) {
	if c := x.all[markOf(disk)]; c != nil {
		c.confirmed[node] = true
	}
}

// push notes that a change left for a node, and judges whether it may: until one node has confirmed it, only the canary
// may have it, and later no more nodes than a batch has may be without an answer.
func (x *changes) push(node string, number int) {
	c := x.all[number]
	if c == nil || c.sent[node] {
		return
	}
	c.sent[node] = true
	open := 0
	for n := range c.sent {
		if !c.confirmed[n] {
			open++
		}
	}
	canary, batch := c.bounds()
	switch names := slices.Sorted(maps.Keys(c.sent)); {
	case len(c.confirmed) == 0 && len(c.sent) > canary:
		x.wrong = append(x.wrong, fmt.Sprintf("change %d is on %v before a node has confirmed it, want %d", number, names, canary))
	case open > batch:
		x.wrong = append(x.wrong, fmt.Sprintf("change %d is on %v, of which %d have not confirmed it, want %d", number, names, open,
			batch))
	}
}

// bounds returns how many nodes may have a change before one has confirmed it, and how many may have it without an
// answer. The nodes of a batch that another change found under way get that at once. One node that went offline before
// it took the change may be without an answer beside the batch; each time that a person lets a halted rollout go on,
// another batch may go.
func (c *change) bounds() (canary, batch int) {
	canary = stagedCanary + c.resumed*stagedLimit
	batch = stagedLimit + c.resumed*stagedLimit
	if c.disturbed || !c.calm {
		batch++
	}
	if !c.calm {
		canary, batch = canary+stagedLimit+1, batch+stagedLimit+1
	}
	return canary, batch
}

// pushed is called for each config that leaves a controller.
func (f *crowd) pushed(m *member, doc []byte) {
	x := f.changes
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, other := range f.members {
		x.confirm(other.name, other.confirmed())
	}
	x.push(m.name, markOf(doc))
}

// confirmed returns the config that a node has confirmed, from its disk.
func (m *member) confirmed() []byte {
	text, err := m.files.Read(string(commitconfirm.SlotConfirmed))
	if err != nil {
		return nil
	}
	return text
}

func newStaged() (*crowd, error) {
	f, err := newCrowd(stagedNodes, func(f *crowd) {
		f.flags, f.changes, f.patience = stagedFlags, &changes{all: map[int]*change{}}, stagedPatience
		f.verbs = stagedVerbs
	})
	if err != nil {
		return nil, err
	}
	return f, f.change(scene{}, "", false)
}

// change makes a scene the config of all nodes. A write that fails leaves it unknown which one they have.
func (f *crowd) change(s scene, ifName string, mayFail bool) error {
	if s.networks == nil {
		s = scene{networks: map[int]int{}, apps: map[int]app{}}
	}
	s.networks[markedNetwork] = 0
	s.mark = f.changes.next()
	text := s.document()
	if ifName != "" {
		text = strings.ReplaceAll(text, "ifName: uplink", "ifName: "+ifName)
	}
	err := f.overrideAll(text)
	for _, m := range f.members {
		if m.known = err == nil && ifName == ""; m.known || ifName == "" {
			m.want = s
		}
	}
	if err != nil && !mayFail {
		f.fault("write: %v", err)
	}
	return err
}

// overrideAll writes the layer of all nodes.
func (f *crowd) overrideAll(text string) error {
	doc, faults := config.ReadObject([]byte(text))
	if faults != nil {
		return fmt.Errorf("%v", faults)
	}
	doc["sysParams"] = config.Object{"managedConfig": true}
	return f.write(ops.SetNetwork{Overrides: doc})
}

// carryOn is what a person does about rollouts that have halted while something was wrong.
func (f *crowd) carryOn() {
	r := f.replica(0)
	if f.changes == nil || r == nil {
		return
	}
	list, err := r.c.Rollouts(f.ctx)
	if err != nil || len(list) == 0 || list[0].State != "halted" {
		return
	}
	f.changes.mu.Lock()
	for _, c := range f.changes.all {
		c.resumed++
	}
	f.changes.mu.Unlock()
	_ = r.c.CommandRollout(f.ctx, person, list[0].Revision, fleetapi.ResumeRollout) // its effect is judged
}

// unfinished returns the staged rollouts that have not ended.
func (f *crowd) unfinished() (list []string) {
	if f.changes == nil {
		return nil
	}
	all, err := f.replica(0).c.Rollouts(f.ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, r := range all {
		if r.Staged && (r.State == "running" || r.State == "halted" || r.State == "paused") {
			list = append(list, fmt.Sprintf("the rollout of revision %d is %s", r.Revision, r.State))
		}
	}
	return list
}

// lookAtChanges judges what left the controllers so far.
func (f *crowd) lookAtChanges() {
	if f.changes == nil {
		return
	}
	f.changes.mu.Lock()
	defer f.changes.mu.Unlock()
	for _, w := range f.changes.wrong {
		f.fault("%s", w)
	}
	f.changes.wrong = nil
}

// goodChange gives all nodes a config when nothing is wrong and nothing happens, but that some are slower than others: it
// must reach all of them in batches, without a person's help.
func (f *crowd) goodChange(rng *rand.Rand) {
	if f.settle(); len(f.faults) > 0 {
		return
	}
	for _, m := range f.members {
		m.link.set(func(l *link) { l.delay = time.Duration(rng.IntN(2)*rng.IntN(900)) * time.Millisecond })
	}
	f.changes.calm = true
	if err := f.change(drawScene(rng), "", false); err != nil {
		return
	}
	time.Sleep(15 * time.Minute)
	synctest.Wait()
	for _, m := range f.members {
		if got := markOf(m.confirmed()); got != m.want.mark {
			f.fault("%s has confirmed change %d, want %d", m.name, got, m.want.mark)
		}
	}
	for _, what := range f.unfinished() {
		f.fault("%s after 15m of nothing else", what)
	}
}

// badChange gives all nodes a config with which none of them works, while one node may be cut off, or its process or
// machine be killed. It must reach the canary alone, be undone there, and halt.
func (f *crowd) badChange(rng *rand.Rand) {
	if f.settle(); len(f.faults) > 0 {
		return
	}
	before := f.members[0].want
	f.changes.calm = true
	if err := f.change(copyOf(before), "missing", false); err != nil {
		f.fault("the bad change: %v", err)
		return
	}
	number, one := f.changes.last, f.one(rng)
	f.changes.disturb()
	time.Sleep(time.Duration(rng.IntN(200)) * time.Second)
	switch rng.IntN(4) {
	case 0:
		one.link.set(func(l *link) { l.cut = true })
	case 1:
		one.crash(rng)
	case 2:
		one.reboot(rng)
	}
	time.Sleep(10 * time.Minute)
	one.link.set(func(l *link) { l.cut = false })
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	for _, m := range f.members {
		m.revive()
		m.want = before
		for _, what := range m.wrong() {
			f.fault("%s has not undone the bad change %d: %s", m.name, number, what)
		}
		if got := markOf(m.confirmed()); got != before.mark {
			f.fault("%s has confirmed change %d, want %d", m.name, got, before.mark)
		}
	}
	if list, err := f.replica(0).c.Rollouts(f.ctx); err != nil || list[0].State != "halted" {
		f.fault("the rollout of the bad change %d has not halted: %+v, %v", number, list[:min(1, len(list))], err)
	}
	f.lookAtChanges()
	_ = f.change(copyOf(before), "", true)
}

// copyOf returns a scene whose maps are its own.
func copyOf(s scene) scene { return scene{networks: maps.Clone(s.networks), apps: maps.Clone(s.apps)} }

// stagedVerbs are what can happen to a staged fleet.
var stagedVerbs = func() map[string]func(*crowd, *rand.Rand) {
	all := maps.Clone(fleetVerbs)
	delete(all, "layers")
	delete(all, "revert")
	all["change"] = func(f *crowd, rng *rand.Rand) { _ = f.change(drawScene(rng), "", true) }
	all["good"], all["bad"] = (*crowd).goodChange, (*crowd).badChange
	return all
}()
