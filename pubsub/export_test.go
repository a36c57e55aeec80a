package pubsub

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
