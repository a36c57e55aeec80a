package firewall

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
	"edgespan/platform/nft"
)

// Writing and reading back together. A restore reads the chains of host's that every network
// hangs in, so that a thousand restores of one network each cost by the square of their
// number; and so does it to list, for each, what was written. Networks that write while a
// restore is under way go together in the next, and share what is listed after it.

const (
	togetherTime = 2 * time.Second       // of a restore for several networks
	togetherEach = 40 * time.Millisecond // and for each of them beside
	// crowd is how many write at once before they go together: what hangs in one of so few
	// networks delays no other.
	crowd = 3
)

// writes are the restores of networks that are under way.
type writes struct {
	turn *dump.Batch[*writing]

	mu     sync.Mutex
	single int // restores of one network each
	joined int // networks that go together
}

// enter says whether a network goes together with others; leave is called when it is done.
func (w *writes) enter() (together bool, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &w.single
	if together = w.joined > 0 || w.single >= crowd; together {
		n = &w.joined
	}
	*n++
	return together, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		*n--
	}
}

// writing is what one network wants written, and what became of it.
type writing struct {
	ctx    context.Context // ends when nobody waits for it any more
	number int
	want   []netstate.Chain
	after  *after
	err    error
}

// after is what stood after a restore for several networks; nil after one for one alone, which
// is listed while flows are looked through.
type after struct {
	tables map[string]view
	whole  map[nft.Table]string
}

// writeTogether does one restore for all that wait. Where that fails each is to write alone:
// one must not fail for another.
func (f *Firewall) writeTogether(list []*writing) {
	// One that was given up has failed; something else may be desired by now.
	list = slices.DeleteFunc(list, func(x *writing) bool { return x.ctx.Err() != nil })
	limit := togetherTime + time.Duration(len(list))*togetherEach
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var edits []*edit
	for _, x := range list {
		// Here, and not before: a listing begins anew at each commit, and where a thousand
		// networks commit when they like none would end.
		if x.err = f.applyWhole(x.number, x.want, netstate.BridgeFamily); x.err == nil {
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

// observeAfter lists the tables that edits wrote to, and the whole tables of nftables. What can't
// be listed now is looked at later.
func (f *Firewall) observeAfter(ctx context.Context, edits []*edit) *after {
	a := &after{tables: map[string]view{}}
	for _, name := range tableOrder {
		if !slices.ContainsFunc(edits, func(e *edit) bool { return e.name == name }) {
			continue
		}
		if v, err := f.dumps[name].Get(ctx); err == nil {
			a.tables[name] = v
		}
	}
	if whole, err := f.whole.Get(ctx); err == nil {
		a.whole = whole
	}
	return a
}

// read marks as read what was written and was found as it was written.
func (a *after) read(m map[netstate.ID]entry) {
	if a == nil {
		return
	}
	hooks := map[string]hooked{}
	for name := range a.tables {
		hooks[name] = hookedIn(inTable(m, name), nil)
	}
	for id, e := range m {
		if !e.Unread {
			continue
		}
		if e.Family.Whole() {
			if text := a.whole[nft.Table{Family: e.Family, Name: e.Name}]; text != "" {
				m[id] = read(e.chain(), text)
			}
			continue
		}
		if found, there := a.tables[e.Table].found(e, hooks[e.Table]); there {
			m[id] = found
		}
	}
}

// joined is one input of iptables-restore for edits that add, of several networks.
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

// together writes chains of a network, with those of others where many write, and says what
// stood afterwards, if that is known.
func (f *Firewall) together(ctx context.Context, number int, want []netstate.Chain) (*after, error) {
	together, leave := f.writes.enter()
	defer leave()
	if !together {
		if err := f.applyWhole(number, want, netstate.BridgeFamily); err != nil {
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
