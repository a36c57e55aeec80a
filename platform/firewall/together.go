package firewall

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
	"edgespan/platform/nft"
)

// This file batches writing and reading back. A restore reads host's chains, in which every network hangs, so the cost
// of a thousand separate restores grows with the square of the number of networks; so does listing the result for each.
// Networks that write during a restore are batched into the next one and share the listing after it.

const (
	togetherTime = 2 * time.Second       // time limit of a restore for several networks
	togetherEach = 40 * time.Millisecond // extra time per network
	// crowd is the number of concurrent writers from which they are batched: with fewer networks, one that hangs delays
	// no other.
	crowd = 3
	// comingTime is how long a network that was observed to have no chain is expected to write some, and gatherTime how
	// long a restore for several waits for all that are expected.
	comingTime = 250 * time.Millisecond
	gatherTime = 40 * time.Millisecond
)

// writes counts the restores in progress, and those that are about to come.
type writes struct {
	turn *dump.Batch[*writing]

	mu     sync.Mutex
	single int               // restores of one network each
	joined int               // batched networks
	coming map[int]time.Time // networks that are expected to write, and since when
	came   chan struct{}     // closed once none is expected; nil if no restore waits for that
}

// expect notes that a network is about to write.
func (w *writes) expect(number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.coming == nil {
		w.coming = map[int]time.Time{}
	}
	w.coming[number] = time.Now()
}

// expected returns the number of networks that are about to write. Call it with w.mu held.
func (w *writes) expected() int {
	maps.DeleteFunc(w.coming, func(_ int, since time.Time) bool { return time.Since(since) > comingTime })
	if len(w.coming) == 0 && w.came != nil {
		close(w.came)
		w.came = nil
	}
	return len(w.coming)
}

// enter reports whether a network is batched with others; call leave when it is done.
func (w *writes) enter(number int) (together bool, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &w.single
	delete(w.coming, number)
	if together = w.joined > 0 || w.single+w.expected() >= crowd; together {
		n = &w.joined
	}
	*n++
	return together, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		*n--
	}
}

// gather waits for the networks that are about to write, at most for gatherTime.
func (w *writes) gather() {
	w.mu.Lock()
	came := make(chan struct{})
	w.came = came
	left := w.expected()
	w.mu.Unlock()
	if left == 0 {
		return
	}
	select {
	case <-came:
	case <-time.After(gatherTime):
	}
}

// writing is one network's write request and its result.
type writing struct {
	ctx    context.Context // ends once no caller waits for it
	number int
	want   []netstate.Chain
	after  *after
	err    error
}

// after is the state after a restore for several networks; nil after one for a single network, which is listed while
// flows are walked.
type after struct {
	tables map[string]view
	native native
}

// writeTogether does one restore for all waiting networks. If that fails, each must write alone: one must not make
// another fail.
func (f *Firewall) writeTogether(list []*writing) {
	// An abandoned write has failed; other rules may be desired by now.
	list = slices.DeleteFunc(list, func(x *writing) bool { return x.ctx.Err() != nil })
	limit := togetherTime + time.Duration(len(list))*togetherEach
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var edits []*edit
	// Only now: each commit restarts a listing, and with a thousand networks that commit at any time none would finish.
	f.applyShared(ctx, list)
	for _, x := range list {
		if x.err == nil {
			edits = append(edits, f.edits(x.number, x.want, nil)...)
		}
	}
	err := f.restore(ctx, joined(edits))
	var seen *after
	if err == nil && len(list) > 1 {
		seen = f.observeAfter(ctx, edits)
	}
	for _, x := range list {
		x.after, x.err = seen, errors.Join(x.err, err)
	}
}

// applyShared writes the chains of nftables of several networks in one transaction. If that fails, each network
// writes alone.
func (f *Firewall) applyShared(ctx context.Context, list []*writing) {
	var all []nft.Update
	for _, x := range list {
		all = append(all, f.updates(x.number, x.want, nil)...)
	}
	if f.nft.Update(all...) == nil {
		return
	}
	for _, x := range list {
		x.err = f.applyNative(ctx, x.number, x.want, sharedFamilies...)
	}
}

// anyNetwork is a number that is not host's.
const anyNetwork = 1

// observeAfter lists the tables that edits wrote to, and the nftables tables. A failed listing is repeated by a
// later observation.
func (f *Firewall) observeAfter(ctx context.Context, edits []*edit) *after {
	a := &after{tables: map[string]view{}}
	for _, name := range tableOrder {
		if !slices.ContainsFunc(edits, func(e *edit) bool { return e.name == name }) {
			continue
		}
		if v, err := f.viewOf(ctx, anyNetwork, name); err == nil {
			a.tables[name] = v
		}
	}
	if native, err := f.native.Get(ctx); err == nil {
		a.native = native
	}
	return a
}

// read marks the entries that were found as written as read.
func (a *after) read(m map[netstate.ID]entry) {
	if a == nil {
		return
	}
	hooks := map[string]hooked{}
	for name := range a.tables {
		hooks[name] = hooksOf(inTable(m, name), nil)
	}
	for id, e := range m {
		if !e.Unread {
			continue
		}
		if e.Family.Native() {
			if found, there := a.native.found(e); there {
				m[id] = found
			}
			continue
		}
		if found, ok := a.tables[e.Table].confirmed(e, hooks[e.Table]); ok {
			m[id] = found
		} // a later observation lists what is not as written
	}
}

// joined returns one iptables-restore input for the adding edits of several networks.
func joined(edits []*edit) string {
	var text strings.Builder
	for _, name := range tableOrder {
		var all lines
		for _, e := range edits {
			if e.name == name {
				all.add(e.lines())
			}
		}
		text.WriteString(all.text(name))
	}
	return text.String()
}

// together writes the chains of a network, batched with others under load, and returns the resulting state if it is
// known.
func (f *Firewall) together(ctx context.Context, number int, want []netstate.Chain) (*after, error) {
	together, leave := f.writes.enter(number)
	defer leave()
	if !together {
		if err := f.applyNative(ctx, number, want, sharedFamilies...); err != nil {
			return nil, err
		}
		return nil, f.restore(ctx, restoreText(f.edits(number, want, nil)))
	}
	x := &writing{ctx: ctx, number: number, want: want}
	if err := f.writes.turn.Do(ctx, x); err != nil {
		return nil, err
	}
	return x.after, x.err
}
