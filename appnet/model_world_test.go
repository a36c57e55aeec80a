package appnet_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
)

// topic is one retained key as its reader finds it: every published value, nil for withdrawn, and the position of the
// reader.
type topic[V any] struct {
	values []*V
	read   int
}

func (t *topic[V]) put(v *V)     { t.values = append(t.values, v) }
func (t *topic[V]) behind() bool { return t.read < len(t.values) }
func (t *topic[V]) now() *V      { return t.before(len(t.values)) }
func (t *topic[V]) replay() *V   { t.read = len(t.values); return t.now() }
func (t *topic[V]) have() bool   { return t.now() != nil }
func (t *topic[V]) seen() *V     { return t.before(t.read) }
func (t *topic[V]) before(n int) *V {
	if n == 0 {
		return nil
	}
	return t.values[n-1]
}

// next lets the reader skip to any later value, or read the last one again.
func (t *topic[V]) next(r *rand.Rand) *V {
	if t.behind() {
		t.read += 1 + r.IntN(len(t.values)-t.read)
	}
	return t.seen()
}

type (
	place  = appnet.AdapterScope
	config = appnet.AppNetworkConfig
	key    = netinst.AdapterKey
)

// world is the topics, the networks, the router and one app's actor.
type world struct {
	r        *rand.Rand
	log      []string
	healthy  bool
	nis      []uuid.UUID
	nets     map[uuid.UUID]*network
	epoch    uint64
	now      time.Time
	app      uuid.UUID
	desired  topic[config]
	all      []place
	adapters map[place]*topic[netinst.AppAdapterConfig]
	statuses map[place]*topic[netinst.AppAdapterStatus]
	shown    *appnet.AppNetworkStatus
	journal  appnet.JournalRecord
	m        *appnet.Machine
	takenUp  bool                               // its first configs are published
	crashed  bool                               // m is nil; its supervisor restarts it, the app desired or not
	view     map[place]netinst.AppAdapterStatus // statuses the machine was notified of, newest version
	nisSeen  map[uuid.UUID]bool                 // online according to the machine's notifications
	// forgotten are the networks of which the machine is not notified.
	forgotten map[uuid.UUID]bool
	timers    []appnet.ResendDue
	highest   map[place]uint64 // version published at a place
	excused   map[place]bool   // left without an answer of a network that seemed offline
	broken    string
}

func newWorld(seed uint64) *world {
	w := &world{
		r:        rand.New(rand.NewPCG(seed, 7)),
		app:      uuid.UUID{15: 0xaa},
		nets:     map[uuid.UUID]*network{},
		now:      time.Unix(1000, 0),
		adapters: map[place]*topic[netinst.AppAdapterConfig]{},
		statuses: map[place]*topic[netinst.AppAdapterStatus]{},
		highest:  map[place]uint64{},
		excused:  map[place]bool{},
	}
	for i := range 3 {
		ni := uuid.UUID{15: byte(i + 1)}
		w.nis = append(w.nis, ni)
		w.nets[ni] = newNetwork(w, i+1)
		for k := range 3 {
			p := place{Scope: ni, Key: key{AppUUID: w.app, Index: k}}
			w.all = append(w.all, p)
			w.adapters[p] = &topic[netinst.AppAdapterConfig]{}
			w.statuses[p] = &topic[netinst.AppAdapterStatus]{}
		}
	}
	return w
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.say("BROKEN: %s", w.broken)
	}
}

// places lists every possible place, in order.
func (w *world) places() []place { return w.all }

func name(p place) string { return fmt.Sprintf("%d#%d", p.Scope[15], p.Key.Index) }

// ---- the bridge managers and the router

func (w *world) answer(p place, s *netinst.AppAdapterStatus) {
	if s == nil {
		if w.statuses[p].have() {
			w.say("bm %s: withdraws its status", name(p))
			w.statuses[p].put(nil)
		}
		return
	}
	if now := w.statuses[p].now(); now == nil || *now != *s { // an equal publish is no event
		w.say("bm %s: v%d activated=%v %s", name(p), s.TargetVersion, s.Activated, s.Error)
		w.statuses[p].put(s)
	}
}

// pardon ends the excuse of every place of a network whose bridge manager has read everything, and which neither is on
// the host nor is being created there.
func (w *world) pardon(n *network) {
	for _, p := range n.places() {
		if !w.excused[p] || n.active[p.Key] || n.crashed {
			continue
		}
		if n.mgr == nil || !w.adapters[p].behind() && n.applier.req == nil {
			delete(w.excused, p)
		}
	}
}

// ---- the app's actor

// start starts the first or next incarnation of the app's actor: every retained input is replayed before Synchronized.
func (w *world) start() {
	var left []appnet.PublishedConfig
	for _, p := range w.places() {
		if c := w.adapters[p].now(); c != nil {
			left = append(left, appnet.PublishedConfig{Scope: p.Scope, Config: *c})
		}
	}
	w.say("app: starts, journal v%d", w.journal.TargetVersion)
	w.crashed = false
	w.m = appnet.NewMachine(w.app, w.journal, left)
	w.view, w.nisSeen = map[place]netinst.AppAdapterStatus{}, map[uuid.UUID]bool{}
	w.forgotten = map[uuid.UUID]bool{}
	for _, ni := range w.nis {
		if s := w.nets[ni].online.replay(); s != nil {
			w.tell(appnet.NetworkOnline{NI: ni, Status: *s})
		}
	}
	for _, p := range w.places() {
		if s := w.statuses[p].replay(); s != nil {
			w.tell(appnet.AdapterStatusChanged{Scope: p.Scope, Status: *s})
		}
	}
	if c := w.desired.replay(); c != nil {
		w.tell(appnet.ConfigChanged{Config: *c})
	}
	w.tell(appnet.Synchronized{})
	w.takenUp = w.takenUp || w.m != nil
}

// tell steps the machine and carries out the effects; a crash may come after any of them.
func (w *world) tell(e appnet.Event) {
	if w.m == nil {
		return
	}
	switch e := e.(type) {
	case appnet.AdapterStatusChanged:
		p := place{Scope: e.Scope, Key: e.Status.Key()}
		if e.Status.TargetVersion >= w.view[p].TargetVersion {
			w.view[p] = e.Status
		}
	case appnet.AdapterStatusGone:
		delete(w.view, place{Scope: e.Scope, Key: e.Key})
	case appnet.NetworkOnline:
		w.nisSeen[e.NI] = true
	case appnet.NetworkOffline:
		delete(w.nisSeen, e.NI)
	}
	fx := w.m.Step(e)
	crash := -1
	if !w.healthy && w.r.IntN(40) == 0 {
		crash = w.r.IntN(len(fx) + 1)
	}
	for i, f := range fx {
		if i == crash {
			break
		}
		w.do(f)
	}
	if crash >= 0 && w.m != nil {
		w.say("app: crashes after %d of %d effects of %T", crash, len(fx), e)
		w.crash()
	}
}

// follow notifies the machine again of networks that it has forgotten and that a config names.
func (w *world) follow(c *config) {
	for _, ni := range w.nis {
		if !w.forgotten[ni] || !names(c, ni) {
			continue
		}
		delete(w.forgotten, ni)
		if s := w.nets[ni].online.replay(); s != nil {
			w.tell(appnet.NetworkOnline{NI: ni, Status: *s})
		}
	}
}

// forget lets the machine forget each network that the config does not name and where nothing is left.
func (w *world) forget() {
	c := w.desired.seen()
	for _, ni := range w.nis {
		if w.m == nil || c == nil || w.forgotten[ni] || names(c, ni) || w.m.Uses(ni) {
			continue
		}
		w.say("app: forgets %d", ni[15])
		for _, p := range w.nets[ni].places() {
			if _, told := w.view[p]; told || w.adapters[p].have() {
				w.fail("network %d may be forgotten while %s is left", ni[15], name(p))
			}
		}
		w.forgotten[ni] = true
		delete(w.nisSeen, ni)
		w.tell(appnet.NetworkForgotten{NI: ni})
	}
}

func names(c *config, ni uuid.UUID) bool {
	for _, a := range c.Adapters {
		if a.NetworkInstance == ni {
			return true
		}
	}
	return false
}

func (w *world) crash() { w.m, w.timers, w.crashed = nil, nil, true }

func (w *world) do(f appnet.Effect) {
	switch f := f.(type) {
	case appnet.Record:
		if f.Journal.TargetVersion < w.journal.TargetVersion {
			w.fail("the journal goes back from %d to %d", w.journal.TargetVersion, f.Journal.TargetVersion)
		}
		w.journal = f.Journal
	case appnet.PublishAdapterConfig:
		p, c := place{Scope: f.Scope, Key: f.Config.Key()}, f.Config
		w.say("app: publish %s v%d activate=%v", name(p), c.TargetVersion, c.Activate)
		if c.TargetVersion < w.highest[p] || c.TargetVersion != w.journal.TargetVersion {
			w.fail("%s is published with version %d after %d, journal %d", name(p), c.TargetVersion, w.highest[p],
				w.journal.TargetVersion)
		}
		if c.Activate && w.journal.Deleted {
			w.fail("%s comes back with the version %d that it went with", name(p), c.TargetVersion)
		}
		if w.shown == nil || !w.shown.Pending {
			w.fail("%s is published beside a status that is not pending", name(p))
		}
		w.highest[p] = c.TargetVersion
		w.adapters[p].put(&c)
	case appnet.UnpublishAdapterConfig:
		w.unpublish(place{Scope: f.Scope, Key: f.Key})
	case appnet.ResendAdapterConfig:
		p := place{Scope: f.Scope, Key: f.Key}
		w.say("app: resend %s", name(p))
		if t := w.adapters[p]; t.have() { // the reader reads it again
			t.read = min(t.read, len(t.values)-1)
		}
	case appnet.PublishStatus:
		w.say("app: v%d pending=%v %s", f.Status.TargetVersion, f.Status.Pending, f.Status.Error)
		if w.shown != nil && f.Status.TargetVersion < w.shown.TargetVersion {
			w.fail("the status goes back from version %d to %d", w.shown.TargetVersion, f.Status.TargetVersion)
		}
		w.shown = &f.Status
		w.checkPending()
	case appnet.WithdrawStatus:
		w.shown = nil
	case appnet.ResendAfter:
		w.timers = append(w.timers, appnet.ResendDue{Key: f.Key, Token: f.Token})
	case appnet.Done:
		w.say("app: done")
		if len(w.view) > 0 {
			w.fail("done while %v is left", w.view)
		}
		w.m, w.timers, w.takenUp = nil, nil, false
	}
}

func (w *world) unpublish(p place) {
	w.say("app: unpublish %s", name(p))
	s, answered := w.view[p]
	if w.nisSeen[p.Scope] && (!answered || s.Activated || s.TargetVersion != w.journal.TargetVersion) {
		w.fail("%s is unpublished although %+v is its answer", name(p), s)
	}
	if c := w.adapters[p].now(); !w.nisSeen[p.Scope] && (!answered || c != nil && s.TargetVersion != c.TargetVersion) {
		// This network seems to be offline and has not answered the config that is withdrawn: it may be starting with that
		// config. The design treats it as inactive, and so does this model, until its bridge manager reads the removal.
		w.excused[p] = true
	}
	w.adapters[p].put(nil)
}
