package firewall

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
	"edgespan/pubsub/backoff"
)

// watchWindows are the periods whose changes are reported together. The first is used until others keep changing within
// watchRest, then the next: changing edgespan's or the built-in chains hundreds of times a second causes one
// observation a second.
var watchWindows = backoff.Backoff{First: 20 * time.Millisecond, Max: time.Second}

const (
	watchRest = 2 * time.Second
	// legacyEvery is the polling interval of the legacy backend's tables.
	legacyEvery = time.Second
)

// Detecting the iptables backend is limited to modeTime and repeated after modePause: the command may hang.
const (
	modeTime  = 3 * time.Second
	modePause = 10 * time.Second
)

// Changed lists what others changed: chains, tables and jumps by owner number, 0 for host.
type Changed struct {
	Owners []int
	All    bool // unknown change: anything may have changed
}

// Watch emits others' changes of edgespan's chains and tables until ctx ends (then it returns nil) or it can no longer
// listen to the kernel. It calls listening once it hears of every later change in nf_tables: what was read before may
// be outdated. It ignores changes of foreign chains, except the built-in chains that begin with edgespan's jumps. The
// next Observe reads the changed chains.
func (f *Firewall) Watch(ctx context.Context, listening func(), emit func(Changed)) error {
	ctx, cancel := context.WithCancel(ctx)
	in, failed := make(chan touches), make(chan error, 2)
	send := func(t touches) {
		select {
		case in <- t:
		case <-ctx.Done():
		}
	}
	var watchers sync.WaitGroup
	watchers.Go(func() {
		failed <- f.nft.Watch(ctx, func() {
			f.invalidate(Changed{All: true})
			listening()
		}, func(changes []nft.Change, lost bool) {
			t := touches{all: lost}
			for _, ch := range changes {
				if ch.Gone && isShared(ch.Table) {
					t.all = true // also by edgespan itself: it had to write the table anew
				} else if n, own := ownerOfChange(ch); own && !f.nft.Own(ch) {
					t.add(ch.Port, place{n, ch.Chain})
				}
			}
			if t.all || len(t.by) > 0 {
				send(t)
			}
		})
	})
	watchers.Go(func() {
		if err := f.pollLegacy(ctx, func() { send(touches{all: true, paced: true}) }); err != nil {
			failed <- err
		}
	})
	defer watchers.Wait()
	defer cancel()
	return f.gather(ctx, in, failed, emit)
}

// pollLegacy polls the tables of legacy iptables, for which the kernel sends no notifications, until ctx ends; with
// nf_tables it does nothing.
func (f *Firewall) pollLegacy(ctx context.Context, tell func()) error {
	for ctx.Err() == nil {
		ask, cancel := context.WithTimeout(ctx, modeTime)
		mode, err := f.mode(ask)
		cancel()
		if err == nil && mode != "legacy" {
			return nil
		}
		if err == nil {
			if err := f.legacy.open(f.run); err != nil {
				return err
			}
			defer f.legacy.close()
			f.poll(ctx, tell)
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(modePause):
		}
	}
	return nil
}

// place is a chain of an owner that was changed, or "" for a table or an element that leads to no chain.
type place struct {
	owner int
	chain string
}

// touches holds, per netlink port, the places that that port changed.
type touches struct {
	by  map[uint32]map[place]bool
	all bool
	// paced changes arrive at most once per legacyEvery, so they need no long gathering.
	paced bool
}

func (t *touches) add(port uint32, at place) {
	if t.by == nil {
		t.by = map[uint32]map[place]bool{}
	}
	if t.by[port] == nil {
		t.by[port] = map[place]bool{}
	}
	t.by[port][at] = true
}

func (t *touches) join(o touches) {
	t.all = t.all || o.all
	for port, places := range o.by {
		for at := range places {
			t.add(port, at)
		}
	}
}

// byOthers returns the changes that edgespan's own commands did not make. A change of a chain of host is also one of
// each network that has a jump there: the network's own chains may be as they were.
func (f *Firewall) byOthers(t touches) Changed {
	owners, parents := map[int]bool{}, map[string]bool{}
	for port, places := range t.by {
		if f.run.Ran(int(port)) {
			continue
		}
		for at := range places {
			owners[at.owner] = true
			if at.owner == 0 && at.chain != "" {
				parents[at.chain] = true
			}
		}
	}
	if len(parents) > 0 {
		f.mu.Lock()
		stores := maps.Clone(f.stores)
		f.mu.Unlock()
		for n, st := range stores {
			owners[n] = owners[n] || st.leadsFrom(parents)
		}
	}
	maps.DeleteFunc(owners, func(_ int, touched bool) bool { return !touched })
	return Changed{slices.Sorted(maps.Keys(owners)), t.all}
}

// poll polls the tables of the legacy backend.
func (f *Firewall) poll(ctx context.Context, emit func()) {
	tick := time.NewTicker(legacyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if changed, err := f.legacy.changed(); changed || err != nil {
			emit()
		}
	}
}

// gather merges changes that arrive together. It looks up who made them when it emits them: by then, a command that
// edgespan has just started is known.
func (f *Firewall) gather(ctx context.Context, in <-chan touches, failed <-chan error, emit func(Changed)) error {
	var t touches
	var reported time.Time
	window, running := watchWindows.First, false
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case more := <-in:
			t.join(more)
			if running {
				continue
			}
			running = true
			if more.paced || time.Since(reported) > watchRest {
				window = watchWindows.First
			}
			timer.Reset(window)
		case <-timer.C:
			c := f.byOthers(t)
			t, running = touches{}, false
			if len(c.Owners) == 0 && !c.All {
				continue
			}
			window, reported = watchWindows.Next(window), time.Now()
			f.invalidate(c)
			emit(c)
		}
	}
}

// invalidate makes the next Observe read the kernel.
func (f *Firewall) invalidate(c Changed) {
	for _, n := range c.Owners {
		f.store(n).markUncertain()
	}
	if !c.All {
		return
	}
	f.mu.Lock()
	stores := slices.Collect(maps.Values(f.stores))
	f.mu.Unlock()
	for _, st := range stores {
		st.markUncertain()
	}
}

// ownerOfChange returns the owner of a change: the owner of the table or chain, and host for built-in chains, in
// which only host's jumps are, and for what no network owns in a shared table.
func ownerOfChange(ch nft.Change) (int, bool) {
	if ch.Table.Family.Native() {
		if n, own := owner(ch.Chain); own && isShared(ch.Table) {
			return n, true
		}
		return tableOwner(ch.Table)
	}
	if ch.Table.Family != netstate.IPv4 || !slices.Contains(tableOrder, ch.Table.Name) {
		return 0, false
	}
	if n, own := owner(ch.Chain); own {
		return n, true
	}
	return 0, ch.Chain == "" || isBuiltin(ch.Chain)
}
