package controller

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"edgespan/config/history"
	"edgespan/config/httpapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/revision"
)

// What previews one caller may have open at a time, at each replica: a plan is stored until its lease ends.
const (
	maxPreviews     = 64
	maxPreviewBytes = 32 << 20
)

// spend takes what a write stores from what its caller may have stored. An admin has no bound: who forgets history,
// brings a fleet back and removes operators must be able to, also where the store is nearly full. give undoes it, for
// what the store has surely not kept.
func (d *deps) spend(by fleetapi.Caller, bytes int) (give func(), err error) {
	if by.Role.May(fleetapi.Admin) {
		return func() {}, nil
	}
	if err := d.Store.Scarce(); err != nil {
		return nil, fmt.Errorf("write: %w: only an admin may write: %w", fleetapi.ErrBusy, err)
	}
	if wait := d.Stored.Spend(by.Who(), d.Now(), float64(bytes)); wait > 0 {
		return nil, tooMuch(wait, "write: %s has stored too much: at most %d MiB at once and %d KiB a second, for all but admins", by.Name, httpapi.StoredBurst>>20, httpapi.StoredRate>>10)
	}
	return func() { d.Stored.Spend(by.Who(), d.Now(), -float64(bytes)) }, nil
}

func tooMuch(wait time.Duration, format string, args ...any) error {
	return &fleetapi.TooManyError{Text: fmt.Sprintf(format, args...) + fmt.Sprintf(": wait %d s", int(math.Ceil(wait.Seconds()))), Wait: wait}
}

// sizeOf is about what the store keeps of a plan.
func sizeOf(p history.Plan) (n int) {
	for _, txn := range p.Txns {
		n += revision.Txn{Then: txn.Then}.Size()
	}
	return n
}

// previews are the open ones of this replica, by caller.
type previews struct {
	mu sync.Mutex
	of map[string][]openPreview
}

type openPreview struct {
	id    string
	until time.Time
	bytes int
}

// open counts a preview, or says how long it takes until there may be one more.
func (p *previews) open(who string, now time.Time, one openPreview) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string][]openPreview{}
	}
	for caller, all := range p.of { // as many as there are names
		if all = slices.DeleteFunc(all, func(o openPreview) bool { return !now.Before(o.until) }); len(all) == 0 {
			delete(p.of, caller)
		} else {
			p.of[caller] = all
		}
	}
	all, bytes := p.of[who], one.bytes
	for _, o := range all {
		bytes += o.bytes
	}
	if len(all) > 0 && (len(all) >= maxPreviews || bytes > maxPreviewBytes) {
		next := slices.MinFunc(all, func(a, b openPreview) int { return a.until.Compare(b.until) })
		return max(next.until.Sub(now), time.Second)
	}
	p.of[who] = append(all, one)
	return 0
}

// end forgets one that the store did not take.
func (p *previews) end(who, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[who] = slices.DeleteFunc(p.of[who], func(o openPreview) bool { return o.id == id })
}

// mayOpen counts a preview of a caller, and what it stores. end undoes it.
func (d *deps) mayOpen(by fleetapi.Caller, id string, p plan, bytes int) (end func(), err error) {
	if wait := d.previews.open(by.Who(), d.Now(), openPreview{id, p.Until, bytes}); wait > 0 {
		return nil, tooMuch(wait, "preview: %s has too many open: at most %d, of %d MiB together", by.Name, maxPreviews, maxPreviewBytes>>20)
	}
	give, err := d.spend(by, bytes)
	if err != nil {
		d.previews.end(by.Who(), id)
		return nil, err
	}
	return func() { d.previews.end(by.Who(), id); give() }, nil
}
