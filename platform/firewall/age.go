package firewall

import (
	"context"
	"sync"
	"time"
)

// age tracks whether the packet filter changed since it was last listed. The kernel counts changes of nf_tables; the
// legacy backend keeps no such count.
type age struct {
	mu    sync.Mutex
	known bool // the backend is known
	nft   bool
}

// generation returns the kernel's count of changes, or false without one. It does not wait for another caller that is
// detecting the backend: that runs a command.
func (f *Firewall) generation(ctx context.Context) (uint32, bool) {
	a := &f.age
	a.mu.Lock()
	known, nft := a.known, a.nft
	a.mu.Unlock()
	if !known {
		mode, err := f.mode(ctx)
		if err != nil {
			return 0, false
		}
		nft = mode == "nf_tables"
		a.mu.Lock()
		a.known, a.nft = true, nft
		a.mu.Unlock()
	}
	if !nft {
		return 0, false
	}
	gen, err := f.nft.Generation()
	return gen, err == nil
}

// keepListing is how long a listing is kept after it was made: it may have megabytes.
const keepListing = 5 * time.Second

// untilChange returns a function that lists something of the packet filter, and lists it again only after a change, or
// after keepListing. The function must not be called concurrently.
func untilChange[T any](f *Firewall, list func(context.Context) (T, error)) func(context.Context) (T, error) {
	var mu sync.Mutex
	var none, last T
	var lastGen uint32
	var known bool
	drop := time.AfterFunc(time.Hour, func() {
		mu.Lock()
		defer mu.Unlock()
		last, known = none, false
	})
	drop.Stop()
	return func(ctx context.Context) (T, error) {
		mu.Lock()
		defer mu.Unlock()
		gen, counted := f.generation(ctx) // before the listing: the listing is as new or newer
		if counted && known && gen == lastGen {
			return last, nil
		}
		last, known = none, false
		t, err := list(ctx)
		if err == nil && counted {
			last, lastGen, known = t, gen, true
			drop.Reset(keepListing)
		}
		return t, err
	}
}

// listText lists a table by iptables.
func (f *Firewall) listText(ctx context.Context, name string) (view, error) {
	out, err := f.run.Run(ctx, "", "iptables-save", "-t", name)
	if err != nil {
		return view{}, err
	}
	return parse(out).view(), nil
}
