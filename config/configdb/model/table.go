package model

import (
	"maps"
	"slices"
)

// token identifies the one draft that may change an object in place.
type token struct{ _ byte }

const shardsOfTable = 64

// table is a map that shares unchanged shards with the map from which it was copied.
type table[V any] struct {
	shards [shardsOfTable]shard[V]
}

type shard[V any] struct {
	by *token
	m  map[string]V
}

func shardOf(key string) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return int(h % shardsOfTable)
}

func (t *table[V]) get(key string) (V, bool) {
	v, ok := t.shards[shardOf(key)].m[key]
	return v, ok
}

// ownShard makes a shard private to the draft.
func (t *table[V]) ownShard(by *token, key string) *shard[V] {
	s := &t.shards[shardOf(key)]
	if s.by != by {
		s.by = by
		if s.m = maps.Clone(s.m); s.m == nil {
			s.m = map[string]V{}
		}
	}
	return s
}

func (t *table[V]) put(by *token, key string, v V) { t.ownShard(by, key).m[key] = v }

func (t *table[V]) remove(by *token, key string) {
	if _, there := t.get(key); there {
		delete(t.ownShard(by, key).m, key)
	}
}

// all iterates over the entries, in no order.
func (t *table[V]) all(yield func(string, V) bool) {
	for i := range t.shards {
		for k, v := range t.shards[i].m {
			if !yield(k, v) {
				return
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
