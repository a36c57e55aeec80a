package firewall

import (
	"context"
	"maps"
	"slices"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
	"edgespan/pubsub/backoff"
)

// What others change within the first of watchWindows is told together. Where they go on with it within watchRest, the
// next one counts: somebody who changes our chains, or the built-in ones, hundreds of times a second makes us look once
// a second.
var watchWindows = backoff.Backoff{First: 20 * time.Millisecond, Max: time.Second}

const (
	watchRest = 2 * time.Second
	// legacyEvery is how often the tables of the legacy backend are looked at.
	legacyEvery = time.Second
)

// Asking which backend iptables has ends after modeTime and is done again after modePause: the
// command may hang as any other.
const (
	modeTime  = 3 * time.Second
	modePause = 10 * time.Second
)

// Changed is what others have changed: chains, tables and jumps of owners by number, 0 for
// host's.
type Changed struct {
	Owners []int
	All    bool // what it was is not known: it may have been anything
}

// Watch tells what others change of ours until ctx ends (then it returns nil) or the kernel
// can't be listened to. Changes of chains that are not ours are not told, but for those of
// the built-in chains in which our jumps stand first. What is told is looked at by the next
// Observe.
func (f *Firewall) Watch(ctx context.Context, emit func(Changed)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, failed := make(chan touches), make(chan error, 2)
	send := func(t touches) {
		select {
		case in <- t:
		case <-ctx.Done():
		}
	}
	go func() {
		failed <- f.nft.Watch(ctx, func(changes []nft.Change, lost bool) {
			t := touches{all: lost}
			for _, ch := range changes {
				if n, own := concerns(ch); own && !f.nft.Own(ch) {
					t.add(ch.Port, n)
				}
			}
			if lost || len(t.by) > 0 {
				send(t)
			}
		})
	}()
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		if err := f.pollLegacy(ctx, func() { send(touches{all: true, paced: true}) }); err != nil {
			failed <- err
		}
	}()
	defer func() { cancel(); <-polled }()
	return f.gather(ctx, in, failed, emit)
}

// pollLegacy looks at the tables of legacy iptables, of which the kernel tells no change, until
// ctx ends; with nf_tables there is nothing to look at.
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

// touches are owners by the port of whom has changed what is theirs.
type touches struct {
	by  map[uint32]map[int]bool
	all bool
	// paced: they come once in legacyEvery at most, so that nothing has to be gathered for long.
	paced bool
}

func (t *touches) add(port uint32, owner int) {
	if t.by == nil {
		t.by = map[uint32]map[int]bool{}
	}
	if t.by[port] == nil {
		t.by[port] = map[int]bool{}
	}
	t.by[port][owner] = true
}

func (t *touches) join(o touches) {
	t.all = t.all || o.all
	for port, owners := range o.by {
		for n := range owners {
			t.add(port, n)
		}
	}
}

// byOthers are the touches that were not by commands of ours.
func (f *Firewall) byOthers(t touches) Changed {
	owners := map[int]bool{}
	for port, ns := range t.by {
		if !f.run.Ran(int(port)) {
			maps.Copy(owners, ns)
		}
	}
	return Changed{slices.Sorted(maps.Keys(owners)), t.all}
}

// poll looks at the tables of the legacy backend.
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

// gather tells together what comes together. Who it was is asked when it is told: a command
// of ours that has just begun is known by then.
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
			f.doubt(c)
			emit(c)
		}
	}
}

// doubt has the next Observe look.
func (f *Firewall) doubt(c Changed) {
	for _, n := range c.Owners {
		f.store(n).doubt()
	}
	if !c.All {
		return
	}
	f.mu.Lock()
	stores := slices.Collect(maps.Values(f.stores))
	f.mu.Unlock()
	for _, st := range stores {
		st.doubt()
	}
}

// concerns says whose a change is: who owns the table or the chain, and host for built-in
// chains, in which only host's jumps stand.
func concerns(ch nft.Change) (int, bool) {
	if ch.Table.Family.Whole() {
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
