package tape

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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
	known int               // secrets
	words map[string]string // of them, in each of their forms
	// begins are the secrets by their first minSecret octets, the longest first, and pairs whether one begins with two
	// octets: a text is looked through once, however many secrets there are.
	begins map[string][]string
	pairs  *[1 << 16]bool
	full   bool // some were too many: nothing may be written any more
}

// minLine is the length of the shortest line of a secret of several lines that is replaced by itself.
const minLine = 8

func newMasks() *masks {
	m := &masks{key: make([]byte, sha256.Size), words: map[string]string{}, begins: map[string][]string{},
		pairs: &[1 << 16]bool{}}
	if _, err := rand.Read(m.key); err != nil {
		panic(err) // documented never to happen
	}
	return m
}

// learn takes the texts in a value for secrets, and reports whether one was unknown; a key may be the path of a file,
// which is none.
func (m *masks) learn(v reflect.Value, name string) (taught bool) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); name != "Key" || !strings.HasPrefix(s, "/") {
			return m.add(s)
		}
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			return m.learn(v.Elem(), name)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			taught = m.learn(it.Value(), name) || taught
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			taught = m.learn(v.Index(i), name) || taught
		}
	case reflect.Struct:
		for i := range v.NumField() {
			taught = m.learn(v.Field(i), name) || taught
		}
	}
	return taught
}

// add takes a text for a secret, and reports whether it was unknown.
func (m *masks) add(s string) bool {
	if s == "" || m.word(s) != "" {
		return false
	}
	word, forms := m.made(s), formsOf(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.words[s] != "" {
		return false
	}
	if m.known >= maxSecrets {
		m.full = true
		return false
	}
	m.known++
	for _, form := range forms {
		if m.words[form] != "" {
			continue
		}
		if m.words[form] = word; len(form) < minSecret {
			continue
		}
		same := append(m.begins[form[:minSecret]], form)
		slices.SortFunc(same, func(a, b string) int { return len(b) - len(a) })
		m.begins[form[:minSecret]], m.pairs[pair(form, 0)] = same, true
	}
	return true
}

// made returns the word that replaces a secret.
func (m *masks) made(s string) string {
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte(s))
	return "secret-" + hex.EncodeToString(h.Sum(nil)[:6])
}

// formsOf returns the forms of a secret in texts: as it is, as Go and JSON quote it, and its lines, which programs
// print one by one. The lines of PEM around a key only say that it is one.
func formsOf(s string) []string {
	out := []string{s}
	for _, quoted := range []string{strconv.Quote(s), strconv.QuoteToASCII(s), jsonText(s)} {
		if quoted = quoted[1 : len(quoted)-1]; quoted != s {
			out = append(out, quoted)
		}
	}
	if strings.Contains(s, "\n") {
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				out = append(out, line)
			}
		}
	}
	return out
}

// word returns what a secret is replaced by; "" if it is none.
func (m *masks) word(s string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.words[s]
}

// pair returns two octets of a text as a number.
func pair(s string, i int) int { return int(s[i])<<8 | int(s[i+1]) }

// text returns a text without secrets, however short if it is free, and without those of URLs.
func (m *masks) text(s string, free bool) string {
	s = m.urls(s)
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

// urls returns a text without the passwords in its URLs, or the users where there are none: those are tokens. They are
// replaced there alone: who can make a program print a URL must not choose the words that are secrets.
func (m *masks) urls(s string) string {
	var out strings.Builder
	for {
		before, rest, is := strings.Cut(s, "://")
		if !is {
			break
		}
		out.WriteString(before)
		out.WriteString("://")
		s = rest
		if end := strings.IndexAny(rest, "/?#\" \t\n"); end >= 0 {
			rest = rest[:end]
		}
		at := strings.LastIndexByte(rest, '@')
		if at <= 0 {
			continue
		}
		from := 0
		if colon := strings.IndexByte(rest[:at], ':'); colon >= 0 {
			from = colon + 1
		}
		if out.WriteString(rest[:from]); from < at {
			out.WriteString(m.made(rest[from:at]))
		}
		s = s[at:]
	}
	if out.Len() == 0 {
		return s
	}
	out.WriteString(s)
	return out.String()
}

func (m *masks) isFull() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.full
}
