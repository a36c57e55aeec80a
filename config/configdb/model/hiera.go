package model

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/config/configdb"
)

// Hiera holds the inputs of lookups over several resources.
type Hiera struct {
	q        HieraQuery
	revision uint64
	stacks   []*stack // the highest first
	etag     string
}

// Hiera collects the inputs of lookups. Each resource is one source: its effective values.
func (s *State) Hiera(q HieraQuery, m *configdb.Meter) (*Hiera, error) {
	if len(q.Resources) > MaxResources || len(q.Keys) > MaxKeys {
		return nil, tooLarge("lookup: too large (%d keys in %d resources): must be at most %d and %d", len(q.Keys),
			len(q.Resources),
			MaxKeys, MaxResources)
	}
	size := 0
	for _, k := range q.Keys {
		size += len(k)
	}
	if size > MaxKeyBytes {
		return nil, tooLarge("lookup: the keys are too long (%d bytes): must be at most %d", size, MaxKeyBytes)
	}
	at, f := s.site(q.Environment, q.Levels)
	if f == nil {
		f = s.checkKnown(at)
	}
	if f != nil {
		return nil, f
	}
	h := &Hiera{q: q, revision: s.head.Revision}
	v := &view{s: s, m: m, site: at, at: s.head.Revision} // the newest revision needs no reads
	var b strings.Builder
	fmt.Fprintf(&b, "hiera %q %s\n", q.Keys, encode(q.Merge))
	known := map[string]*stack{} // a resource may be named several times
	for _, name := range q.Resources {
		if t := known[name]; t != nil {
			h.stacks = append(h.stacks, t)
			fmt.Fprintf(&b, "%q again\n", name)
			continue
		}
		d, f := s.resource(at.environment, Ref{Name: name})
		if f != nil {
			return nil, f
		}
		t, err := v.stack(d, map[string]*stack{}, map[string]*RequestError{})
		if err != nil {
			return nil, err
		}
		if err := t.mark(m, &b, q.Reveal); err != nil {
			return nil, err
		}
		known[name] = t
		h.stacks = append(h.stacks, t)
	}
	h.etag = s.key.quoted(b.String())
	return h, nil
}

// ETag identifies the inputs of the answer, with quotes.
func (h *Hiera) ETag() string { return h.etag }

// Unmodified returns the answer without a body.
func (h *Hiera) Unmodified() Answer {
	return Answer{Secret: slices.ContainsFunc(h.stacks, (*stack).hasSecrets), ETag: h.etag, Revision: h.revision}
}

// Answer computes the answer: an object with the keys that were found or, without keys, all data merged.
func (h *Hiera) Answer(b Blobs) (Answer, error) {
	m := b.Meter()
	sources := make([]configdb.Object, len(h.stacks))
	for i, t := range h.stacks {
		if same := slices.Index(h.stacks, t); same < i {
			sources[i] = sources[same]
			continue
		}
		var err error
		if sources[i], _, err = t.effective(b, Query{Reveal: h.q.Reveal}); err != nil {
			return Answer{}, err
		}
	}
	out := h.Unmodified()
	if h.q.Keys == nil {
		o, err := m.MergeData(h.q.Merge, sources)
		if err == nil {
			out.Body, err = m.JSON(o)
		}
		return out, documentError(err, nil)
	}
	var ms []configdb.Member
	size, lookups := 0, m.LookupKeys(h.q.Merge, sources)
	for _, key := range h.q.Keys {
		v, found, err := lookups.Find(key)
		if err != nil {
			return Answer{}, documentError(err, nil)
		}
		if found {
			if size += len(key) + len(v) + 4; size > configdb.MaxAnswer {
				return Answer{}, tooLarge("the answer: has more than %d MiB: ask for fewer keys at once", configdb.MaxAnswer>>20)
			}
			ms = append(ms, configdb.Member{Key: key, Value: v})
		}
	}
	var err error
	out.Body, err = m.JSON(configdb.NewObject(ms))
	return out, documentError(err, nil)
}
