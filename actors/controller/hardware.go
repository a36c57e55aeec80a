package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/pubsub/backoff"
)

// computeDesired computes a node's desired config, or the reason why there is none. It returns nil while the layers of
// its kind are being read.
func (a *fleetActor) computeDesired(r *record) map[string]fleet.Touched {
	if a.fleet == nil || r.versions == (layers.Versions{}) && !r.asked {
		return nil
	}
	id := a.ids[r.name]
	k, set := a.fleet.Kind(r.versions)
	has := a.kinds[k.Name]
	if has == nil {
		has = &kind{learnt: k.Learnt}
		a.kinds[k.Name] = has
		a.readKind(kindAgain{has, k, r.versions.Board})
	}
	switch {
	case has.reading:
		return nil
	case has.err != nil:
		return a.keepDesired(r, has.err)
	case !set:
		a.d.Fail(fmt.Errorf("kind %q was read and is not in the fleet", k.Name))
		return nil
	}
	if bad := a.damageOf(r.name); bad != nil {
		return a.keepDesired(r, bad)
	}
	var counted fleet.Counted
	if e, ok := a.counted[id]; ok {
		if err := json.Unmarshal(e.Value, &counted); err != nil {
			return map[string]fleet.Touched{r.name: {Node: r.name,
				Desired: fleet.Desired{For: r.versions, Fault: "generations in the store: " + err.Error()}}}
		}
	}
	touched, err := a.fleet.Put(r.name, r.versions, a.auto[r.name], a.own[r.name], counted)
	if err != nil {
		return map[string]fleet.Touched{r.name: {Node: r.name, Desired: fleet.Desired{For: r.versions, Fault: err.Error()}}}
	}
	r.kind = k.Name
	out := map[string]fleet.Touched{}
	for _, t := range touched {
		out[t.Node] = t
	}
	return out
}

// keepDesired is the result for a node whose config can't be computed: it keeps the config it has.
func (a *fleetActor) keepDesired(r *record, err error) map[string]fleet.Touched {
	a.fleet.Remove(r.name)
	r.kind = ""
	return map[string]fleet.Touched{r.name: {Node: r.name, Desired: fleet.Desired{For: r.versions, Fault: err.Error()}}}
}

// kindAgain retries a failed read of a kind's layers.
type kindAgain struct {
	has   *kind
	kind  fleet.Kind
	board string
}

// kindWaits are the delays between failed reads.
var kindWaits = backoff.Backoff{First: storage.StoreBackoff, Max: time.Minute}

// readKind starts to read the layers of a kind, unless the kind has been replaced. Failed reads are retried with
// back-off as long as the kind exists.
func (a *fleetActor) readKind(m kindAgain) {
	if a.kinds[m.kind.Name] != m.has || m.has.reading {
		return
	}
	m.has.reading, m.has.wait = true, kindWaits.Next(m.has.wait)
	learnt, wait := a.learnt[m.board], m.has.wait
	a.d.Leaf("kind", func() {
		set, err := a.d.readKind(m.kind, learnt)
		if err != nil {
			a.d.After(wait, func() { a.d.Send(a.self, m) })
		}
		a.d.Send(a.self, kindRead{m.kind, set, err})
	})
}

// readKind is the leaf that reads the layers of a kind.
func (d *deps) readKind(k fleet.Kind, learnt *baseConfig) (layers.Set, error) {
	if !k.Learnt {
		return d.Base.Read(k.Choice)
	}
	set, err := d.Base.Read(layers.Choice{Firmware: k.Firmware})
	if err != nil {
		return set, err
	}
	if learnt == nil {
		return set, errors.New("proposals of the board were removed")
	}
	set[layers.Base], set[layers.Hardware] = learnt.Base[k.Base], learnt.Hardware[k.Hardware]
	return set, nil
}

// setKind stores the layers of a kind and computes the desired configs of its nodes. A fault in the kind's files
// concerns those nodes only.
func (a *fleetActor) setKind(m kindRead) map[string]fleet.Touched {
	has := a.kinds[m.kind.Name]
	if has == nil || !has.reading {
		return nil
	}
	before := has.err
	*has = kind{set: m.set, err: m.err, learnt: has.learnt, wait: has.wait}
	touched := map[string]fleet.Touched{}
	if m.err == nil {
		more, err := a.fleet.SetKind(m.kind, m.set[layers.Base], m.set[layers.Firmware], m.set[layers.Hardware])
		if err != nil {
			a.d.Fail(err)
		}
		for _, t := range more {
			touched[t.Node] = t
		}
	} else if before == nil || before.Error() != m.err.Error() {
		a.d.Log.Error("read the layers of a kind of nodes", zap.Error(m.err))
	}
	for _, r := range a.nodes {
		if k, _ := a.fleet.Kind(r.versions); r.asked && k.Name == m.kind.Name {
			if r.kind != m.kind.Name || m.err != nil {
				maps.Copy(touched, a.computeDesired(r))
			}
		}
	}
	a.d.dir.setKind(m)
	return touched
}

// setHardware updates the fleet from the base files and the accepted boards. Nodes whose kind changed or had faults are
// computed again.
func (a *fleetActor) setHardware() map[string]fleet.Touched {
	h := fleet.Hardware{Library: *a.library, Learnt: map[string]layers.Library{}}
	merged, rules := a.d.Metadata, map[string]*metadata.Metadata{}
	for _, board := range slices.Sorted(maps.Keys(a.learnt)) {
		b := a.learnt[board]
		h.Learnt[board] = b.Library(board)
		if b.Metadata == nil {
			continue
		}
		next, conflicts, faults := merged.Merge(b.Metadata)
		if len(conflicts) > 0 || len(faults) > 0 {
			a.d.Log.Warn("metadata of a board", zap.String("board", board), zap.Error(faults),
				zap.String("conflicts", conflicts.Error()))
		}
		if len(faults) == 0 {
			merged = next
			rules[board], _, _ = a.d.Metadata.Merge(b.Metadata)
		}
	}
	a.fleet.SetHardware(h)
	maps.DeleteFunc(a.kinds, func(_ string, k *kind) bool { return k.learnt }) // their content may have changed
	a.d.dir.setHardware(h, maps.Clone(a.learnt), merged, rules)
	touched := map[string]fleet.Touched{}
	for _, r := range a.nodes {
		if !r.asked {
			continue
		}
		k, _ := a.fleet.Kind(r.versions)
		if r.kind != k.Name || a.kinds[k.Name] == nil {
			maps.Copy(touched, a.computeDesired(r))
		}
	}
	return touched
}

// baseConfig is what a node reported of its hardware and an operator accepted.
type baseConfig struct {
	*fleet.LearntBase
	proposal proposal // the accepted one
}
