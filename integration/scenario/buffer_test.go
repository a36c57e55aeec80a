package scenario

import (
	"bytes"
	"strings"
	"sync"
)

// syncBuffer is written by a process and read by its test.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) string() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) len() int { return len(s.string()) }

func (s *syncBuffer) has(any ...string) bool {
	text := s.string()
	for _, a := range any {
		if strings.Contains(text, a) {
			return true
		}
	}
	return false
}
