package tape

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"sync"
)

const (
	// minSecret is the length of the shortest secret that is replaced wherever it stands: shorter ones are parts of
	// ordinary words.
	minSecret  = 4
	maxSecrets = 4096
)

// masks replaces secrets by words that say nothing of them. The same secret has the same word in all of one recording,
// so that a replay decides as the recorded run did: cores compare secrets and pass them on, and look into none.
type masks struct {
	key []byte // forgotten with the process: nobody can try secrets against the words

	mu      sync.RWMutex
	words   map[string]string
	replace *strings.Replacer // nil: no secret is known
	full    bool              // some were too many: nothing may be written any more
}

func newMasks() *masks {
	m := &masks{key: make([]byte, sha256.Size), words: map[string]string{}}
	if _, err := rand.Read(m.key); err != nil {
		panic(err) // documented never to happen
	}
	return m
}

// learn takes the texts in a value for secrets; a key may be the path of a file, which is none.
func (m *masks) learn(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); name != "Key" || !strings.HasPrefix(s, "/") {
			m.add(s)
		}
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			m.learn(v.Elem(), name)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			m.learn(it.Value(), name)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			m.learn(v.Index(i), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			m.learn(v.Field(i), name)
		}
	}
}

func (m *masks) add(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == "" || m.words[s] != "" {
		return
	}
	if len(m.words) >= maxSecrets {
		m.full = true
		return
	}
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte(s))
	m.words[s] = "secret-" + hex.EncodeToString(h.Sum(nil)[:6])
	all := make([]string, 0, len(m.words))
	for s := range m.words {
		if len(s) >= minSecret {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, s, m.words[s])
	}
	m.replace = strings.NewReplacer(pairs...)
}

// text returns a text without secrets.
func (m *masks) text(s string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.replace == nil {
		return s
	}
	if word := m.words[s]; word != "" {
		return word
	}
	if len(s) < minSecret {
		return s
	}
	return m.replace.Replace(s)
}

func (m *masks) isFull() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.full
}
