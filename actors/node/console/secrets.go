package console

import (
	"encoding/json"
	"sync"

	"edgespan/actors/node/api"
	"edgespan/config/layers/redact"
)

// Secrets masks the secrets of the node's configs in texts. It forgets none: old messages have old secrets.
type Secrets struct {
	Topics *api.Topics

	mu     sync.Mutex
	of     uint64 // generation that was learnt last
	learnt bool
	known  redact.Redactor
}

// shortest is the length of the shortest text that can hold a secret that is masked by its value.
const shortest = 4

// Mask returns a text without the secrets that configs have had, and those that have the usual forms.
func (s *Secrets) Mask(text string) string {
	if len(text) < shortest {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.Topics.Source.Get("", "node"); ok && (!s.learnt || now.Generation != s.of) {
		s.learnt, s.of = true, now.Generation
		s.learn()
	}
	if s.known.Forgotten() > 0 {
		return redact.Mark // one that was not learnt may be in it
	}
	return string(s.known.Text([]byte(text)))
}

// learn reads the configs that are published.
func (s *Secrets) learn() {
	for _, e := range s.Topics.NetworkConfig.All() {
		s.from(e.Value)
	}
	for _, e := range s.Topics.AppConfig.All() {
		s.from(e.Value)
	}
	for _, e := range s.Topics.TaskConfig.All() {
		s.from(e.Value)
	}
	for _, e := range s.Topics.PortConfig.All() {
		s.from(e.Value)
	}
	if p, ok := s.Topics.SysParams.Get("", "node"); ok {
		s.from(p)
	}
}

// from learns the values of fields that have the name of a secret.
func (s *Secrets) from(config any) {
	text, err := json.Marshal(config)
	if err != nil {
		return
	}
	var v any
	if json.Unmarshal(text, &v) == nil {
		s.known.Names(v)
	}
}
