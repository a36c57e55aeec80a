package pubsub

// Holding counts who changes a key of a topic with a journal, or waits to.
func (t *Topic[V]) Holding(scope, key string) int {
	t.holds.mu.Lock()
	defer t.holds.mu.Unlock()
	if k := t.holds.held[Ref{scope, key}]; k != nil {
		return k.waiting
	}
	return 0
}

// Scopes counts the scopes that the topic keeps anything for.
func (t *Topic[V]) Scopes() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return max(len(t.retained), len(t.scoped))
}

// Pending counts the entries that a reader has not drained.
func (s *Subscription[V]) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for e := s.first; e != nil; e = e.next {
		n++
	}
	return max(n, len(s.pending))
}
