package controller

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// end heals all faults, waits until the fleet is quiet, and checks the final state.
func (w *faulty) end() {
	w.note("all is healed")
	if w.heal != nil {
		w.heal()
	}
	for _, name := range faultyReplicas {
		if w.replicas[name] == nil {
			w.start(name)
		}
		w.ways[name].become(wayGood)
	}
	w.work.Wait()
	w.s.late.Wait()
	for _, n := range w.nodes {
		n.mu.Lock()
		n.reject, n.unhealthy, n.silent = "", "", false
		n.mu.Unlock()
	}
	if !w.until("all nodes are connected", w.allThere) {
		return
	}
	on := len(w.audit.flags) > 0 && w.audit.flags[len(w.audit.flags)-1].on
	if on && w.audit.last() > 0 && !w.until("the rollout ends, halts or is paused", w.rolloutRests) {
		return
	}
	w.lastChange()
	w.look()
	w.checkWrites()
	w.checkCommands()
}

// until waits for a condition, checks it at every step, and fails the test if it does not come true.
func (w *faulty) until(what string, match func() bool) bool {
	w.Helper()
	for range 240 {
		w.nap(5 * time.Second)
		if w.look(); w.Failed() {
			return false
		}
		if match() {
			return true
		}
	}
	for name, n := range w.nodes {
		if c := w.replicas["a"]; c != nil {
			_, why := w.state(c, name)
			w.Logf("%s, online %v: %s", name, n.online(), why)
		}
	}
	if last := w.audit.last(); last > 0 {
		w.Logf("%s", decisions(w.explain(last)))
	}
	w.Errorf("it does not come: %s", what)
	return false
}

func (w *faulty) allThere() bool {
	all := true
	for _, name := range w.names {
		if !w.nodes[name].online() {
			all = false
			w.come(name, w.some())
		}
	}
	return all
}

func (w *faulty) explain(number uint64) fleetapi.RolloutDetail {
	w.Helper()
	d, err := w.some().ExplainRollout(w.Context(), number)
	if err != nil {
		w.Error(err)
	}
	return d
}

// rolloutRests reports whether the newest rollout has stopped, and checks that it gives a reason.
func (w *faulty) rolloutRests() bool {
	d := w.explain(w.audit.last())
	if d.State == "running" || d.State == "" {
		return false
	}
	if len(d.Decisions) == 0 || d.Next == "" {
		w.Errorf("rollout %d is %s and does not say why", d.Revision, d.State)
	}
	return true
}

// lastChange resumes what is paused, retries all that failed, and writes a last revision, which every managed node
// gets.
func (w *faulty) lastChange() {
	if last := w.audit.last(); last > 0 {
		if s := w.audit.rollouts[last]; s.End == "" && s.Machine.Paused {
			w.command(alice, fleetapi.ResumeRollout)
			w.work.Wait()
		}
	}
	w.ask(alice, "last", ops.SetNetwork{Overrides: w.doc(`{"envParams":{"LAST":"1"}}`)}, nil)
	w.work.Wait()
	w.until("every node has what it is to have", w.inSync)
}

// inSync reports whether all nodes run what the layers define.
func (w *faulty) inSync() bool {
	state, err := history.Head(storage.NewReader(w.Context(), w.s.Store))
	if err != nil {
		w.Error(err)
		return false
	}
	network := w.version(state, history.Layer{Kind: history.Network}).Document
	base, _ := config.ParseObject([]byte(w.base.docs["RELEASE_M20"]))
	for _, name := range w.names {
		n := w.nodes[name]
		if !n.online() {
			w.come(name, w.some())
			return false
		}
		want, _ := layers.Set{
			layers.Base: base, layers.Network: network,
			layers.Node: w.version(state, history.Layer{Kind: history.Node, Name: name}).Document,
			layers.Auto: w.version(state, history.Layer{Kind: history.Auto, Name: name}).Document,
		}.Effective()
		for _, c := range w.replicas {
			n.mu.Lock()
			now, to, pending := n.md5, n.to, n.pending
			n.mu.Unlock()
			got, _ := w.state(c, name)
			switch {
			case want["sysParams"].(config.Object)["managedConfig"] != true:
				if to == c && got != string(fleet.Unmanaged) {
					return false
				}
			case now != config.MD5(want) || pending != nil || to == c && got != string(fleet.InSync):
				return false
			}
		}
	}
	return true
}

func (w *faulty) version(s history.State, l history.Layer) history.Version {
	w.Helper()
	v, err := s.Layer(l)
	if err != nil {
		w.Error(err)
	}
	return v
}

var revertOfRollout = regexp.MustCompile(`^revert revision (\d+) with its rollout$`)

// checkWrites checks the history of the layers against what operators sent and what they were answered. Each
// acknowledged write is one revision, with its author and content. A write of unknown outcome is there at most once. No
// revision is there that no operator sent. The order of the revisions is possible given when each was requested.
func (w *faulty) checkWrites() {
	r := storage.NewReader(w.Context(), w.s.Store)
	state, err := history.Head(r)
	if err != nil {
		w.Fatal(err)
	}
	records, err := state.Log(0)
	if err != nil {
		w.Fatal(err)
	}
	slices.Reverse(records)
	by := map[string]*sent{}
	for _, o := range w.ops {
		by[o.message] = o
	}
	found, times := map[string]uint64{}, map[string]int{}
	written := map[history.Layer][]uint64{}
	for _, rec := range records {
		times[rec.Author+rec.Message]++
		if before := found[rec.Message]; before != 0 && rec.Author != storage.LeaderAuthor.Name &&
			times[rec.Author+rec.Message] > w.mayBe(rec) {
			w.Errorf("revisions %d and %d are both %q", before, rec.Number, rec.Message)
		}
		found[rec.Message] = rec.Number
		changed, err := history.ChangedLayers(r, rec.Number)
		if err != nil {
			w.Fatal(err)
		}
		for _, layer := range changed {
			written[layer] = append(written[layer], rec.Number)
		}
		w.checkRecord(r, rec, changed, by[rec.Message])
	}
	for _, o := range w.ops {
		w.checkAnswer(o, found[o.message], written)
	}
	w.checkOrder(found)
}

// mayBe returns how often a revision may be there: as often as its author asked for the revert of a rollout, otherwise
// once.
func (w *faulty) mayBe(rec history.RevisionRecord) (n int) {
	m := revertOfRollout.FindStringSubmatch(rec.Message)
	if m == nil {
		return 1
	}
	number, _ := strconv.ParseUint(m[1], 10, 64)
	for _, o := range w.ops {
		if o.command == fleetapi.RevertRollout && o.by.Name == rec.Author && o.rollout >= number {
			n++
		}
	}
	return n
}

// checkRecord checks one revision against what its author sent.
func (w *faulty) checkRecord(r storage.Reader, rec history.RevisionRecord, changed []history.Layer, o *sent) {
	w.Helper()
	if rec.Author == storage.LeaderAuthor.Name {
		for _, layer := range changed {
			if layer.Kind != history.Auto {
				w.Errorf("revision %d is the controller's own, and changes %s", rec.Number, layer)
			}
		}
		return
	}
	before, err := history.At(r, rec.Number-1)
	if err != nil {
		w.Fatal(err)
	}
	var want map[history.Layer]config.Object
	if m := revertOfRollout.FindStringSubmatch(rec.Message); m != nil {
		number, _ := strconv.ParseUint(m[1], 10, 64)
		if !slices.ContainsFunc(w.ops, func(o *sent) bool {
			return o.command == fleetapi.RevertRollout && o.by.Name == rec.Author && o.rollout >= number
		}) {
			w.Errorf("revision %d: nobody sent it: %s", rec.Number, rec)
		}
		want = w.reverted(before, number)
	} else {
		if o == nil || o.write == nil || o.dry || o.by.Name != rec.Author {
			w.Errorf("revision %d: nobody sent it: %s, %+v", rec.Number, rec, o)
			return
		}
		if o.ended != 0 && o.err != nil && refused(o.err) {
			w.Errorf("revision %d was refused: %v", rec.Number, o.err)
		}
		for l, at := range o.ifMatch {
			if have := w.version(before, l).Revision; have != at {
				w.Errorf("revision %d is bound to %d of %s, which was at %d", rec.Number, at, l, have)
			}
		}
		want = w.meant(before, o)
	}
	after, err := history.At(r, rec.Number)
	if err != nil {
		w.Fatal(err)
	}
	for l, doc := range want {
		if got := w.version(after, l).Document; plain(got) != plain(doc) {
			w.Errorf("revision %d: %s is %s, the writer wrote %s", rec.Number, l, plain(got), plain(doc))
		}
	}
	for _, layer := range changed {
		_, meant := want[layer]
		topology := o != nil && o.what == "topology" && (layer.Kind == history.Auto || layer.Kind == history.Topology)
		if !meant && !topology {
			w.Errorf("revision %d changes %s, which its writer did not: %s", rec.Number, layer, rec)
		}
	}
}

// plain normalizes a document; none equals an empty one.
func plain(o config.Object) string {
	if o == nil {
		o = config.Object{}
	}
	return string(config.AppendCanonical(nil, o))
}

func (w *faulty) reverted(before history.State, number uint64) map[history.Layer]config.Object {
	w.Helper()
	c, err := before.Revert(number)
	if err != nil {
		w.Errorf("revision %d is reverted by %d, which can't be: %v", number, before.Number+1, err)
	}
	return c.Layers
}

// meant returns the layers as an operator meant them to be, given a state.
func (w *faulty) meant(before history.State, o *sent) map[history.Layer]config.Object {
	out := map[history.Layer]config.Object{}
	merged := func(l history.Layer, section string, x config.Object) {
		doc, _ := config.ParseObject([]byte(plain(w.version(before, l).Document)))
		below, _ := doc[section].(config.Object)
		below = maps.Clone(below)
		if below == nil {
			below = config.Object{}
		}
		maps.Copy(below, x[section].(config.Object))
		doc[section] = below
		out[l] = doc
	}
	switch x := o.write.(type) {
	case ops.SetNetwork:
		l := history.Layer{Kind: history.Network}
		if out[l] = x.Overrides; x.Modify {
			merged(l, "envParams", x.Overrides)
		}
	case ops.SetNodes:
		for name, doc := range x.Overrides {
			out[history.Layer{Kind: history.Node, Name: name}] = doc.(config.Object)
		}
	case ops.SetE2E:
		merged(history.Layer{Kind: history.E2E, Name: ownFile}, "flags", x.Config)
	case ops.Revert:
		return w.reverted(before, x.Revision)
	}
	return out
}

// checkAnswer checks what an operator was answered against the history.
func (w *faulty) checkAnswer(o *sent, at uint64, written map[history.Layer][]uint64) {
	w.Helper()
	switch {
	case o.ended == 0:
		w.Errorf("op %d was never answered", o.id)
	case o.write == nil:
	case o.err == nil && o.out.Changed && !o.dry && at != o.out.Revision:
		w.Errorf("op %d was acknowledged as revision %d, and is lost or another: %d", o.id, o.out.Revision, at)
	case o.err == nil && (!o.out.Changed || o.dry) && at != 0:
		w.Errorf("op %d changes nothing, it was told, and is revision %d", o.id, at)
	case o.err != nil && len(o.ifMatch) > 0 && strings.Contains(o.err.Error(), "bound to revision"):
		for l, bound := range o.ifMatch {
			if !w.wasAnother(written[l], bound, o.first, o.last) {
				w.Errorf("op %d was refused, and %s was at %d all along: %v", o.id, l, bound, o.err)
			}
		}
	}
}

// wasAnother reports whether a layer, which these revisions wrote, was at a revision other than bound at any time
// between two revisions.
func (w *faulty) wasAnother(written []uint64, bound, first, last uint64) bool {
	was := uint64(0) // as of first
	for _, n := range written {
		if n <= first {
			was = n
		} else if n <= last && n != bound {
			return true
		}
	}
	return was != bound
}

// checkOrder checks that a write requested after the answer to another comes after it.
func (w *faulty) checkOrder(found map[string]uint64) {
	w.Helper()
	type told struct {
		*sent
		at      uint64
		changed bool
	}
	var all []told
	for _, o := range w.ops {
		switch at := found[o.message]; {
		case o.write != nil && at != 0 && o.err == nil:
			all = append(all, told{o, at, true})
		case o.write != nil && at != 0: // it was done some time after the request
			late := *o
			late.ended = 1 << 30
			all = append(all, told{&late, at, true})
		case o.err == nil && (o.write != nil || o.what == "read"):
			all = append(all, told{o, o.out.Revision, false})
		}
	}
	for _, a := range all {
		for _, b := range all {
			if a.ended < b.began && (b.at < a.at || b.changed && b.at == a.at) {
				w.Errorf("op %d was answered with %d before op %d was asked for, which is %d", a.id, a.at, b.id, b.at)
			}
		}
	}
}

// checkCommands checks that each acknowledged command is recorded by its rollout once, and that no command is recorded
// that no operator sent.
func (w *faulty) checkCommands() {
	words := map[fleetapi.RolloutCommand]string{
		fleetapi.PauseRollout: "paused", fleetapi.ResumeRollout: "resumed", fleetapi.AbortRollout: staged.EndAborted,
		fleetapi.RevertRollout: staged.EndAborted,
	}
	asked, reported := map[string]int{}, map[string]int{}
	for _, o := range w.ops {
		if o.command != "" {
			asked[fmt.Sprintf("%d %s by %s", o.rollout, words[o.command], o.by.Name)]++
		}
	}
	for d := range w.audit.decided {
		reported[d[:strings.Index(d, " at ")]]++
	}
	for what, n := range reported {
		if n > asked[what] {
			w.Errorf("rollout %s, %d times; %d times it was asked for", what, n, asked[what])
		}
	}
	for _, o := range w.ops {
		now := fmt.Sprintf("%d %s by %s", o.rollout, words[o.command], o.by.Name)
		if o.command != "" && o.command != fleetapi.RevertRollout && o.err == nil && reported[now] == 0 {
			w.Errorf("op %d was acknowledged: rollout %s; nothing tells of it", o.id, now)
		}
	}
}
