package commitconfirm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

// node is a host below a machine: a disk, actions that take effect, restarts. It judges
// whatever the machine does by what a person could know from outside.
type node struct {
	disk   Disk
	gone   *ConfigRecord // pending was, and was taken away without waiting for the disk
	spare  *ConfigRecord // what the copy was before
	m      *Machine
	r      *rand.Rand
	starts int
	boots  int
	log    []string
	wrong  []string

	cut    int  // the power goes at this boundary; 0 for never
	after  bool // and the write at it is on the disk
	passed int
	dead   bool

	published config.Object
	pub, run  int
	diff      config.Object // of the actions that run; nil for none
	restart   string
	nonce     Nonce
	asked     bool
	acted     config.Object // per key: what its action was run for last
	rebooted  any           // r of the config that was published first after a boot
	restarted any           // m, after a start
	first     [2]bool

	direct  map[string]bool // documents that were applied without a time
	heard   map[Generation]bool
	health  map[string]bool
	lived   time.Duration // of the pending record
	crashes int
	seq     uint64
	alone   int // starts that nobody asked for with it published
	bases   map[string]config.Object
}

func (n *node) complain(format string, args ...any) {
	n.wrong = append(n.wrong, fmt.Sprintf(format, args...))
}

func (n *node) boot(machine, asked bool) {
	n.dead, n.diff, n.restart, n.asked = false, nil, "", false
	n.starts++
	if machine {
		n.boots++
	}
	n.first = [2]bool{n.first[0] || machine, true}
	n.m = &Machine{}
	p := n.disk.Pending
	alone := p != nil && p.Seq == n.seq && !asked && n.published != nil && !n.announced(p)
	if alone {
		n.alone++
	}
	n.published = nil
	n.send(Boot{Start: fmt.Sprintf("s%d", n.starts), Machine: fmt.Sprintf("m%d", n.boots), Disk: n.disk, Bases: n.bases})
	if c := n.disk.Clock; alone && n.dead && (c == nil || c.Seq != p.Seq || c.Starts < n.alone) {
		n.alone-- // the power went before that could be noted
	}
}

// announced says whether the power went after a stop or a restart was noted: nobody can
// tell that from what was noted.
func (n *node) announced(p *ConfigRecord) bool {
	clock := n.disk.Clock
	return clock != nil && clock.Seq == p.Seq && clock.Orderly ||
		p.Restart == action.NameRestart || p.Restart == action.NameReboot && p.Machine != fmt.Sprintf("m%d", n.boots)
}

// boundary says whether the power goes here.
func (n *node) boundary() bool {
	n.passed++
	n.dead = n.dead || n.passed == n.cut
	return n.dead
}

func (n *node) send(e Event) {
	if o, ok := e.(Candidate); ok {
		o.Validate = func() (faults config.Faults) {
			if o.Document["bad"] != nil || o.Peer == "bad" {
				faults.Add([]string{"bad"}, "is there", "")
			}
			return faults
		}
		e = o
	}
	queue := []Event{e}
	for len(queue) > 0 && !n.dead {
		e, queue = queue[0], queue[1:]
		n.log = append(n.log, fmt.Sprintf("%T", e))
		for _, f := range n.m.Step(e) {
			n.log = append(n.log, "    "+tell(f))
			w, writes := f.(Write)
			if n.boundary() {
				if writes && n.after {
					n.write(w)
				}
				n.log = append(n.log, "CUT")
				return
			}
			if writes {
				n.write(w)
				queue = append(queue, Stored{})
				continue
			}
			n.obey(f)
		}
	}
	n.look()
}

// write looks at how a config becomes the confirmed one, then writes.
func (n *node) write(w Write) {
	r := w.Record
	if r != nil && (r.Document["bad"] != nil || r.Peer == "bad") {
		n.complain("an invalid config is stored")
	}
	if w.Slot == SlotConfirmed {
		old, p := n.disk.Confirmed, n.disk.Pending
		sum := bothOf(r)
		switch {
		case old != nil && old.Seq == r.Seq && bothOf(old) == sum: // the same, further on
		case n.direct[sum] && r.Source == Apply:
		case p != nil && p.Seq == r.Seq && n.heard[r.Generation]:
		case r.Source == Rollback && p != nil && r.Seq == p.Seq+1 && sum == n.fallback():
		default:
			n.complain("%s becomes the confirmed config, and nobody said so", short(r.Document))
		}
	}
	if w.Slot == SlotPending {
		if n.gone = nil; r == nil {
			n.gone = n.disk.Pending
		}
	}
	if w.Slot == SlotCopy {
		n.spare = n.disk.Copy
	}
	n.disk.apply(w)
}

// unsynced is what a power cut does to what nobody waited for: it was done or was not.
func (n *node) unsynced() {
	if n.gone != nil && n.disk.Pending == nil && n.r.IntN(2) == 0 {
		n.disk.Pending = n.gone
	}
	if n.spare != nil && n.r.IntN(2) == 0 {
		n.disk.Copy = n.spare
	}
	n.gone, n.spare = nil, nil
}

// both is what tells a document with its PeerConfiguration from any other.
func both(o config.Object, peer string) string { return config.MD5(o) + peer }

func bothOf(r *ConfigRecord) string { return both(r.Document, r.Peer) }

// fallback is what an undo is to go to, as both has it.
func (n *node) fallback() string {
	switch {
	case n.disk.Confirmed != nil:
		return bothOf(n.disk.Confirmed)
	case n.disk.Copy != nil:
		return bothOf(n.disk.Copy)
	}
	return config.MD5(n.bases[latestName(n.bases)])
}

func (n *node) obey(f Effect) {
	switch f := f.(type) {
	case Publish:
		n.publish(f)
	case RunActions:
		if n.diff != nil {
			n.complain("two runs of actions at a time")
		}
		n.run, n.diff = f.ID, f.Diff
	case Restart:
		n.restart = f.Action
	case RequestVerdict:
		n.nonce, n.asked = f.Nonce, true
	}
}

func (n *node) publish(f Publish) {
	p := n.disk.Pending
	sum := both(f.Document, f.Peer)
	fresh := p != nil && (n.disk.Confirmed == nil || p.Seq > n.disk.Confirmed.Seq)
	switch {
	case fresh && p.Undo == nil:
		if sum != bothOf(p) {
			n.complain("%s is published while %s is pending on the disk", short(f.Document), short(p.Document))
		}
		if p.Seq != n.seq {
			n.seq, n.lived, n.alone, n.crashes = p.Seq, 0, 0, 0
		}
		if n.alone > maxStarts {
			n.complain("pending %s is published after %d starts", short(p.Document), n.alone)
		}
	case sum != n.fallback():
		n.complain("%s is published, and neither pending nor confirmed", short(f.Document))
	case f.Keep != (n.disk.Confirmed == nil || n.disk.Confirmed.Fallback):
		n.complain("keep all is %v", f.Keep)
	}
	n.pub, n.published = f.ID, f.Document
	if n.first[0] {
		n.rebooted = f.Document["r"]
	}
	if n.first[1] {
		n.restarted = f.Document["m"]
	}
	n.first = [2]bool{}
}

// look compares what the node says with what is so.
func (n *node) look() {
	if n.dead || n.published == nil {
		return
	}
	if s := n.m.State(); s.Echo == s.Desired {
		n.inForce("it reports " + s.Echo.Generation.String())
	}
}

// inForce says whether every action that the published config needs was run for it.
func (n *node) inForce(when string) {
	keys := maps.Clone(n.published)
	if keys == nil {
		keys = config.Object{}
	}
	maps.Copy(keys, n.acted)
	for key := range keys {
		switch {
		case key == "r" && n.rebooted != n.published[key], key == "m" && n.restarted != n.published[key] &&
			n.rebooted != n.published[key]:
			n.complain("%s, and the restart for %s was not", when, key)
		case key != "r" && key != "m" && n.acted[key] != n.published[key]:
			n.complain("%s, and the action of %s was run for %v, not for %v", when, key, n.acted[key], n.published[key])
		}
	}
}

func (n *node) finishActions() {
	var restart string
	var results []action.Result
	for key := range n.diff {
		switch key {
		case "r":
			restart = action.NameReboot
		case "m":
			if restart == "" {
				restart = action.NameRestart
			}
		default:
			n.acted[key] = n.published[key]
			results = append(results, action.Result{Action: key, State: action.Done})
		}
	}
	n.diff = nil
	n.send(ActionsDone{n.run, results, restart})
}

func (n *node) halfActions() {
	for key := range n.diff {
		if key != "r" && key != "m" && n.r.IntN(2) == 0 {
			n.acted[key] = "half"
		}
	}
}

func (n *node) tick(d time.Duration) {
	p := n.disk.Pending
	if p != nil && p.Undo == nil && p.Seq == n.seq && n.disk.Confirmed != nil && p.Seq > n.disk.Confirmed.Seq {
		n.lived += d
		if limit := p.Wait + time.Duration(n.crashes)*2*clockInterval + clockInterval; n.lived > limit {
			n.complain("pending for %v of %v, with %d crashes", n.lived, p.Wait, n.crashes)
		}
	}
	n.send(Tick{d})
}

func (n *node) anyDoc() config.Object {
	o := config.Object{}
	for _, key := range []string{"a", "b", "c"} {
		if v := n.r.IntN(4); v > 0 {
			o[key] = int64(v)
		}
	}
	for _, key := range []string{"r", "m"} {
		if n.r.IntN(5) == 0 {
			o[key] = int64(n.r.IntN(2) + 1)
		}
	}
	if n.r.IntN(12) == 0 {
		o["bad"] = true
	}
	return o
}

// anyPeer is a PeerConfiguration; of one document there are several.
func (n *node) anyPeer() string {
	return []string{"", "p", "p", "q", "bad"}[n.r.IntN(5)]
}

// happen is one thing that goes on in the world.
func (n *node) happen(i int) {
	switch {
	case n.dead:
		n.halfActions()
		n.unsynced()
		n.crashes++
		if n.cut, n.after = 0, !n.after; n.r.IntN(2) == 0 { // and again, soon
			n.cut = n.passed + 1 + n.r.IntN(40)
		}
		n.boot(n.r.IntN(4) > 0, false)
		return
	case n.restart != "":
		reboot := n.restart == action.NameReboot
		if n.send(Stopping{}); !n.dead {
			n.boot(reboot, true)
		}
		return
	}
	switch n.r.IntN(14) {
	case 0, 1:
		g := c(uint64(i + 2))
		n.send(Candidate{Source: Push, Generation: g, Document: n.anyDoc(), Peer: n.anyPeer()})
	case 2:
		if o := n.anyDoc(); n.r.IntN(2) == 0 {
			n.direct[config.MD5(o)] = true
			n.send(Candidate{Source: Apply, Document: o})
		} else {
			n.send(Candidate{Source: Apply, Document: o, Confirm: time.Minute})
		}
	case 3, 4:
		n.send(Settled{ID: n.pub, Items: n.health})
	case 5:
		n.send(TimedOut{n.pub})
	case 6, 7:
		if n.diff != nil {
			n.finishActions()
		}
	case 8:
		if p := n.m.pending; p != nil && p.Undo == nil && n.r.IntN(3) == 0 {
			n.heard[p.Generation] = true
			n.send(Confirmed{})
		}
	case 9:
		if p := n.m.pending; n.asked && p != nil {
			if len(n.m.newlyBadItems()) == 0 {
				n.heard[p.Generation] = true
			}
			n.send(ControllerAnswered{n.nonce, p.Generation})
		}
	case 10:
		n.health["x"], n.health["y"] = n.r.IntN(4) > 0, n.r.IntN(4) > 0
		n.send(HealthChanged{n.health})
	case 11:
		if n.r.IntN(4) == 0 {
			n.send(RollbackAsked{})
		}
	case 12:
		if n.r.IntN(4) == 0 {
			if n.send(Stopping{}); !n.dead {
				n.halfActions()
				n.boot(n.r.IntN(2) == 0, true)
			}
		}
	default:
		n.tick(time.Duration(n.r.IntN(5000)+1) * time.Millisecond)
	}
}

// live lets a node live through events, with one cut and whatever else seed says, and then
// lets it come to rest. The agent may crash in place of the machine, and cuts may follow each other.
func live(seed uint64, events, cut int, after bool) *node {
	start := config.Object{"a": int64(1), "r": int64(1)}
	n := &node{
		r: rand.New(rand.NewPCG(seed, 5)), cut: cut, after: after,
		direct: map[string]bool{}, heard: map[Generation]bool{}, health: map[string]bool{"x": true, "y": false},
		acted: config.Object{"a": int64(1)},
		bases: map[string]config.Object{"RELEASE_M9": {"b": int64(9)}, "RELEASE_M10": {"b": int64(1)}},
	}
	if seed%5 > 0 { // else it has nothing but its image
		n.disk.Confirmed = &ConfigRecord{Seq: 1, Authority: "j", Source: Push, Generation: c(1), Document: start, Peer: "p"}
		n.disk.Copy = n.disk.Confirmed
	} else {
		n.acted = config.Object{"b": int64(1)}
	}
	n.boot(true, true)
	for i := range events {
		n.happen(i)
	}
	for i := 0; i < 400 && (n.dead || n.restart != "" || n.m.phase != steady || n.m.pending != nil); i++ {
		n.rest()
	}
	if s := n.m.State(); s.Pending || s.Echo != s.Desired || n.m.phase != steady {
		n.complain("it does not come to rest: %+v", s)
	}
	n.inForce("it is at rest")
	return n
}

// rest is a second in which nobody does anything.
func (n *node) rest() {
	switch {
	case n.dead || n.restart != "":
		n.happen(0)
	case n.diff != nil:
		n.finishActions()
	case n.m.phase == reconciling:
		n.send(TimedOut{n.pub})
	default:
		n.tick(time.Second)
	}
}

func (n *node) verdict() string {
	if n.wrong == nil {
		return ""
	}
	return strings.Join(n.wrong, "\n") + "\n\n" + strings.Join(n.log, "\n")
}

// Power cuts at every boundary of many lives: before and after each write, and between all
// other effects. There is always a valid config; it is a confirmed one, or pending within
// its time; actions are run at least once; and in the end it is confirmed or undone.
func TestTenThousandPowerCuts(t *testing.T) {
	cuts, bad, enough := 0, 0, 10_000
	if testing.Short() {
		enough = 2000
	}
	for seed := uint64(1); cuts < enough; seed++ {
		whole := live(seed, 60, 0, false)
		if why := whole.verdict(); why != "" {
			t.Fatalf("life %d without a cut: %s", seed, why)
		}
		for cut := 1; cut <= whole.passed && cuts < enough; cut++ {
			for _, after := range []bool{false, true} {
				cuts++
				if why := live(seed, 60, cut, after).verdict(); why != "" {
					if bad++; bad == 1 {
						t.Errorf("life %d, cut at %d, written %v: %s", seed, cut, after, why)
					}
				}
			}
		}
	}
	t.Logf("%d of %d cuts went wrong", bad, cuts)
}

// Any life with any one cut.
func TestPropertyANodeEndsConfirmedOrUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, events := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 200).Draw(t, "events")
		cut, after := rapid.IntRange(0, 400).Draw(t, "cut"), rapid.Bool().Draw(t, "after")
		if why := live(seed, events, cut, after).verdict(); why != "" {
			t.Fatal(why)
		}
	})
}
