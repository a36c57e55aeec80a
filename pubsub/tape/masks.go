package tape

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

const (
	// minSecret is the length of the shortest secret that is replaced where it stands alone or in a text for people, and
	// minPart that of the shortest one that is replaced in the middle of any other text: shorter ones are parts of
	// ordinary words, names and numbers.
	minSecret  = 4
	minPart    = 8
	maxSecrets = 4096
)

// ErrSecrets is why a recording ends before its process: it says nothing of the secrets.
var ErrSecrets = fmt.Errorf("more than %d secrets: any other could no longer be replaced", maxSecrets)

// masks replaces secrets by words that say nothing of them. The same secret has the same word in all of one recording,
// so that a replay decides as the recorded run did: cores compare secrets and pass them on, and look into none.
type masks struct {
	key []byte // forgotten with the process: no secret can be tried against the words

	mu    sync.RWMutex
	words map[string]string
	// begins are the secrets by their first minSecret octets, the longest first, and pairs whether one begins with two
	// octets: a text is looked through once, however many secrets there are.
	begins map[string][]string
	pairs  *[1 << 16]bool
	full   bool // some were too many: nothing may be written any more
}

func newMasks() *masks {
	m := &masks{key: make([]byte, sha256.Size), words: map[string]string{}, begins: map[string][]string{},
		pairs: &[1 << 16]bool{}}
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
	if len(s) < minSecret {
		return
	}
	same := append(m.begins[s[:minSecret]], s)
	slices.SortFunc(same, func(a, b string) int { return len(b) - len(a) })
	m.begins[s[:minSecret]], m.pairs[pair(s, 0)] = same, true
}

// word returns what a secret is replaced by; "" if it is none.
func (m *masks) word(s string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.words[s]
}

// pair returns two octets of a text as a number.
func pair(s string, i int) int { return int(s[i])<<8 | int(s[i+1]) }

// text returns a text without secrets, however short if it is free. The password in a URL is one.
func (m *masks) text(s string, free bool) string {
	for _, password := range passwordsIn(s) {
		m.add(password)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.begins) == 0 || len(s) < minSecret {
		return s
	}
	if word := m.words[s]; word != "" {
		return word
	}
	var out strings.Builder
	from := 0
	for i := 0; i+minSecret <= len(s); i++ {
		if !m.pairs[pair(s, i)] {
			continue
		}
		for _, secret := range m.begins[s[i:i+minSecret]] {
			if (free || len(secret) >= minPart) && strings.HasPrefix(s[i:], secret) {
				out.WriteString(s[from:i])
				out.WriteString(m.words[secret])
				from = i + len(secret)
				i = from - 1
				break
			}
		}
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// passwordsIn returns the passwords of the URLs in a text.
func passwordsIn(s string) (out []string) {
	for {
		_, rest, is := strings.Cut(s, "://")
		if !is {
			return out
		}
		s = rest
		if end := strings.IndexAny(rest, "/?# \t\n"); end >= 0 {
			rest = rest[:end]
		}
		user, _, named := strings.Cut(rest, "@")
		if _, password, has := strings.Cut(user, ":"); named && has && password != "" {
			out = append(out, password)
		}
	}
}

func (m *masks) isFull() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.full
}
