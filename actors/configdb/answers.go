package configdb

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
)

// cached is a computed answer. It is valid for the state that had seen a revision of the store, and for every state in
// which the query has the same ETag.
type cached struct {
	model.Answer
	seen kv.Revision
}

// answerSource is what an answer is computed from.
type answerSource interface {
	ETag() string
	Unmodified() model.Answer
	Answer(b model.Blobs) (model.Answer, error)
}

// answer answers a query, from the cache if possible.
func (d *deps) answer(ctx context.Context, name string, known []string,
	find func(*model.State, source) (answerSource, error)) (model.Answer, error) {
	state, err := d.currentState(ctx)
	if err != nil {
		return model.Answer{}, err
	}
	seen := state.LastRevision()
	have, ok := d.answers.get(name)
	if ok && have.seen == seen {
		d.answers.use.add(true)
		return omitKnownBody(have.Answer, known), nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	done, err := rest.AcquireTurn(ctx)
	if err != nil {
		return model.Answer{}, err
	}
	defer done()
	src := d.newSource(ctx)
	chain, err := find(state, src)
	if err != nil {
		return model.Answer{}, err
	}
	a := chain.Unmodified()
	same, has := ok && have.ETag == a.ETag, matchesETag(known, a.ETag)
	d.answers.use.add(same || has)
	switch {
	case same:
		a.Body = have.Body
	case has:
		return a, nil
	default:
		if a, err = chain.Answer(src); err != nil {
			return model.Answer{}, err
		}
	}
	d.answers.put(name, cached{a, seen}, len(a.Body)+len(a.ETag))
	return omitKnownBody(a, known), nil
}

// omitKnownBody drops the body of an answer that the caller has.
func omitKnownBody(a model.Answer, known []string) model.Answer {
	if matchesETag(known, a.ETag) {
		a.Body = nil
	}
	return a
}

// matchesETag reports whether an ETag is among the known ones; "*" matches any.
func matchesETag(known []string, etag string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return k == "*" || strings.TrimPrefix(k, "W/") == etag })
}

// Answer answers a query. If its current ETag is among the known ones, the answer has no body.
func (k *Keeper) Answer(ctx context.Context, q model.Query, known []string) (model.Answer, error) {
	return k.d.answer(ctx, queryKey(q), known, func(s *model.State, src source) (answerSource, error) {
		return s.Chain(q, src)
	})
}

// Hiera looks keys up in several resources, at one place in the hierarchy.
func (k *Keeper) Hiera(ctx context.Context, q model.HieraQuery, known []string) (model.Answer, error) {
	return k.d.answer(ctx, hieraKey(q), known, func(s *model.State, src source) (answerSource, error) {
		return s.Hiera(q, src.Meter())
	})
}

// Keys is the operation keys/get.
func (k *Keeper) Keys(ctx context.Context, q model.Query, edit configdb.KeysEdit) (model.Answer, error) {
	return read(ctx, k, func(s *model.State, src source) (model.Answer, error) {
		chain, err := s.Chain(q, src)
		if err != nil {
			return model.Answer{}, err
		}
		return chain.Keys(src, edit)
	})
}

// cacheKey is the unambiguous encoding of a query's parts, as its key in the cache.
type cacheKey []byte

func (n cacheKey) text(parts ...string) cacheKey {
	for _, s := range parts {
		n = append(strconv.AppendInt(n, int64(len(s)), 10), ':')
		n = append(n, s...)
	}
	return n
}

func (n cacheKey) number(v uint64) cacheKey { return append(strconv.AppendUint(n, v, 36), '.') }

func (n cacheKey) flags(flags ...bool) cacheKey {
	for _, f := range flags {
		if f {
			n = append(n, '1')
		} else {
			n = append(n, '0')
		}
	}
	return n
}

func (n cacheKey) levels(levels []model.LevelValue) cacheKey {
	n = n.number(uint64(len(levels)))
	for _, l := range levels {
		n = n.text(l.Level, l.Value)
	}
	return n
}

func queryKey(q model.Query) string {
	n := make(cacheKey, 0, 128)
	n = n.flags(q.Effective, q.Lookup, q.Deep, q.Reveal, q.Key == nil).number(uint64(q.Environment)).levels(q.Levels)
	n = n.number(uint64(q.Resource.ID)).text(q.Resource.Name,
		string(q.Kind)).number(q.Version).number(q.Revision).text(q.Key...)
	return string(n)
}

func hieraKey(q model.HieraQuery) string {
	n := append(make(cacheKey, 0, 256), 'h')
	n = n.flags(q.Reveal, q.Keys == nil, q.Merge.SortMergedArrays,
		q.Merge.MergeHashArrays).number(uint64(q.Environment)).levels(q.Levels)
	n = n.text(string(q.Merge.Strategy),
		q.Merge.KnockoutPrefix).number(uint64(len(q.Resources))).text(q.Resources...).text(q.Keys...)
	return string(n)
}
