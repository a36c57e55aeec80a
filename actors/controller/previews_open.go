package controller

import (
	"slices"
	"sync"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/httpapi/fleetapi"
)

// Limits on the open previews of one caller, at each replica: a plan is stored until its lease ends.
const (
	maxPreviews     = 64
	maxPreviewBytes = 32 << 20
)

// previews are the open previews of this replica, by caller.
type previews struct {
	mu sync.Mutex
	of map[string][]openPreview
}

type openPreview struct {
	id    string
	until time.Time
	bytes int
}

// open counts a preview, or returns how long the caller has to wait for a free place.
func (p *previews) open(who string, now time.Time, one openPreview) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string][]openPreview{}
	}
	for caller, all := range p.of { // one entry per name
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

// end removes a preview that could not be stored.
func (p *previews) end(who, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[who] = slices.DeleteFunc(p.of[who], func(o openPreview) bool { return o.id == id })
}

// mayOpen counts a caller's preview and the bytes that it stores; end undoes both.
func (d *deps) mayOpen(by fleetapi.Caller, id string, p plan, bytes int) (end func(), err error) {
	if wait := d.previews.open(by.ShareKey(), d.Now(), openPreview{id, p.Until, bytes}); wait > 0 {
		return nil, storage.RateLimited(wait, "preview: %s has too many open: at most %d, of %d MiB together", by.Name,
			maxPreviews, maxPreviewBytes>>20)
	}
	release, err := d.writes.Reserve(by, bytes)
	if err != nil {
		d.previews.end(by.ShareKey(), id)
		return nil, err
	}
	return func() { d.previews.end(by.ShareKey(), id); release() }, nil
}
