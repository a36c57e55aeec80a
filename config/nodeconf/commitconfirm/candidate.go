package commitconfirm

import (
	"maps"
	"slices"

	"edgespan/config"
)

// acceptCandidate accepts a candidate. A candidate that has faults or that already runs is not written to the disk.
func (m *Machine) acceptCandidate(o Candidate) []Effect {
	live := m.live()
	o.MD5 = o.digest()
	echo := Echo{o.Generation, o.MD5}
	refuse := func(path, what, allowed string) []Effect {
		var fs config.Faults
		if fs.Add(nil, what, allowed); path != "" {
			fs[0].Path = []string{path}
		}
		return []Effect{Announce{What: Rejected, Echo: echo, Faults: fs}}
	}
	switch {
	case o.Document == nil:
		return refuse("", "no document", "must be an explicit mapping; {} removes everything")
	case o.Confirm < 0:
		return refuse("", "negative time to confirm", "must be 0 or more")
	case o.Source == Push && o.Generation == (Generation{}):
		return refuse("", "the push has no generation", "must be one of the controller's")
	case o.Source == File && o.FileDigest == live.FileDigest && !live.Fallback && !o.DryRun:
		return []Effect{Announce{What: Unchanged, Echo: echo}} // applied before, regardless of later configs
	}
	if o.Source == Push && !o.DryRun && !live.Fallback && live.matches(o) {
		return m.renumber(o.Generation, o.Attempt)
	}
	faults := o.Validate()
	switch {
	case len(faults) > 0:
		return []Effect{Announce{What: Rejected, Echo: echo, Faults: faults}}
	case o.DryRun:
		return []Effect{Announce{What: WouldTake, Echo: echo, Diff: config.FullDiff(live.Document, o.Document)}}
	}
	r := m.newRecord(o, live)
	if r.Wait == 0 {
		return m.save(Write{Slot: SlotConfirmed, Record: &r}, func() []Effect {
			m.confirmed = r
			out := append([]Effect{Announce{What: Accepted, Echo: r.Echo()}}, m.dropPending()...) // the pending config is over
			return append(out, m.publish()...)
		}, m.announceRefused(echo))
	}
	return m.save(Write{Slot: SlotPending, Record: &r}, func() []Effect {
		m.pending = &r
		m.clock = Clock{Seq: r.Seq, Remaining: r.Wait}
		return append([]Effect{Announce{What: Accepted, Echo: r.Echo()}}, m.publish()...)
	}, m.announceRefused(echo))
}

// renumber records the generation of a push that changes nothing else: no reconciling, no actions, nothing to confirm.
func (m *Machine) renumber(g Generation, attempt uint64) []Effect {
	r, slot := m.current()
	echo := Echo{g, r.digest()}
	if r.Generation == g && (attempt == 0 || attempt == r.Attempt) {
		return []Effect{Announce{What: Renumbered, Echo: echo}}
	}
	next := *r
	next.Generation, next.Restores, next.Undone = g, Generation{}, nil
	if attempt > 0 { // attempt 0 means no attempt
		next.Attempt = attempt
	}
	return m.save(Write{Slot: slot, Record: &next}, func() []Effect {
		*r = next
		return []Effect{Announce{What: Renumbered, Echo: echo}}
	}, m.announceRefused(echo))
}

func (m *Machine) announceRefused(echo Echo) func(string) []Effect {
	return func(why string) []Effect {
		return []Effect{Announce{What: Refused, Echo: echo, Why: "it can't be stored: " + why}}
	}
}

// newRecord returns the record of a candidate.
func (m *Machine) newRecord(o Candidate, live ConfigRecord) ConfigRecord {
	before, _ := m.current()
	r := ConfigRecord{
		Seq: before.Seq + 1, Authority: m.authority, Source: o.Source, Generation: o.Generation, FileDigest: live.FileDigest,
		Document: o.Document, md5: o.MD5, text: o.Text, Peer: o.Peer, Attempt: o.Attempt, Open: true, Before: m.echo(),
		By: o.By, Restart: before.Restart, Machine: before.Machine,
		Due: mergeKeys(before.Due, config.FullDiff(live.Document, o.Document)), Wait: o.Confirm, Good: m.goodItems(),
	}
	if o.Source == File {
		r.FileDigest = o.FileDigest
	}
	if r.Generation == (Generation{}) {
		r.Generation = Generation{Authority: r.Authority, Counter: r.Seq}
	}
	if o.Source == Push && r.Wait == 0 {
		r.Wait = DefaultConfirm
	}
	if m.pending != nil { // an undo returns to the config before both
		r.Good = m.pending.Good
	}
	return r
}

// dropPending drops the pending config and writes the copy.
func (m *Machine) dropPending() []Effect {
	var out []Effect
	if m.pending != nil {
		m.pending = nil
		out = m.writeRecord(Write{Slot: SlotPending})
	}
	if m.confirmed.Fallback {
		return out
	}
	spare := m.confirmed
	spare.Open, spare.Due, spare.Restart = false, nil, ""
	return append(out, m.writeRecord(Write{Slot: SlotCopy, Record: &spare})...)
}

// mergeKeys merges the keys of two differences; their values do not matter.
func mergeKeys(a, b config.Object) config.Object {
	out := config.Object{}
	maps.Copy(out, a)
	for key, v := range b {
		below, isObject := v.(config.Object)
		old, wasObject := out[key].(config.Object)
		if out[key] = v; isObject || wasObject { // an object carries more keys than a scalar
			out[key] = mergeKeys(old, below)
		}
	}
	return out
}

// goodItems returns the names of the health items that are good now.
func (m *Machine) goodItems() []string {
	var out []string
	for name, good := range m.health {
		if good {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// newlyBadItems returns the items that were good before the pending config and are bad now. An item that vanished with
// the config is not bad.
func (m *Machine) newlyBadItems() []string {
	if m.pending == nil {
		return nil
	}
	var out []string
	for _, name := range m.pending.Good {
		if good, there := m.health[name]; there && !good {
			out = append(out, name)
		}
	}
	return out
}
