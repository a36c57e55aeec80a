package pubsub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Journal stores values that must survive a restart and a power cut. Implementations are safe for concurrent use;
// changes of one key come one at a time, those of different keys concurrently, so that they may share one sync.
type Journal interface {
	// Load returns every value of a topic, by the key that was passed to Put.
	Load(topic string) (map[string][]byte, error)
	// Put returns once the value is on disk. After an error the key has its old or its new value.
	Put(topic, key string, value []byte) error
	// Delete returns once the removal is on disk. An absent key is no error.
	Delete(topic, key string) error
}

var errForeignKey = errors.New("key is not of the form <length>:<scope>/<key>")

// journalKey encodes a ref as one key. The length of the scope comes first, so that no two refs have the same key,
// whatever bytes they contain.
func journalKey(r Ref) string {
	return strconv.Itoa(len(r.Scope)) + ":" + r.Scope + "/" + r.Key
}

func parseJournalKey(s string) (Ref, error) {
	length, rest, found := strings.Cut(s, ":")
	n, err := strconv.Atoi(length)
	if !found || err != nil || n < 0 || n >= len(rest) || rest[n] != '/' || strconv.Itoa(n) != length {
		return Ref{}, errForeignKey
	}
	return Ref{Scope: rest[:n], Key: rest[n+1:]}, nil
}

// Restore loads the topic's journal. Its values are retained without an owner until a publisher claims them by changing
// or adopting them. Call it before the first publish; a key that is already retained keeps its value. If values can't
// be decoded, the error names all of them and nothing is restored (docs/architecture.md, law 14). Without a journal
// Restore does nothing.
func (t *Topic[V]) Restore() error {
	values, bad, err := t.read()
	if err != nil || len(bad) > 0 {
		return errors.Join(append(faultsOf(bad), err)...)
	}
	wakeReaders(t.adopt(values))
	return nil
}

// Salvage is Restore for a caller that must continue: it retains what can be decoded. It names the other values, and
// keeps them in the journal unchanged, under the topic's name with the suffix Aside: a release that knows their form
// may have written them.
func (t *Topic[V]) Salvage() (lost []error, err error) {
	values, bad, err := t.read()
	if err != nil {
		return nil, err
	}
	wakeReaders(t.adopt(values))
	for _, u := range bad {
		if err := t.journal.Put(t.name+Aside, u.key, u.data); err != nil {
			return faultsOf(bad), fmt.Errorf("set aside %s %q: %w", t.name, u.key, err)
		}
		if err := t.journal.Delete(t.name, u.key); err != nil {
			return faultsOf(bad), fmt.Errorf("set aside %s %q: %w", t.name, u.key, err)
		}
	}
	return faultsOf(bad), nil
}

// Aside is the suffix of the name under which the journal keeps undecodable values.
const Aside = ".unreadable"

// undecoded is a journalled value that could not be decoded.
type undecoded struct {
	key   string
	data  []byte
	fault error
}

func faultsOf(bad []undecoded) []error {
	var faults []error
	for _, u := range bad {
		faults = append(faults, u.fault)
	}
	return faults
}

// read decodes the topic's journal; bad is the undecodable values, by key.
func (t *Topic[V]) read() (values map[Ref]V, bad []undecoded, err error) {
	if t.journal == nil {
		return nil, nil, nil
	}
	stored, err := t.journal.Load(t.name)
	if err != nil {
		return nil, nil, fmt.Errorf("restore topic %s: %w", t.name, err)
	}
	values = make(map[Ref]V, len(stored))
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		data := stored[key]
		r, err := parseJournalKey(key)
		if err != nil {
			bad = append(bad, undecoded{key, data, fmt.Errorf("restore topic %s: key %q: %w", t.name, key, err)})
			continue
		}
		v, err := t.decode(data)
		if err != nil {
			bad = append(bad, undecoded{key, data, fmt.Errorf("restore topic %s: decode %s: %w", t.name, r, err)})
			continue
		}
		values[r] = v
	}
	return values, bad, nil
}

// adopt retains restored values in the order of their refs.
func (t *Topic[V]) adopt(values map[Ref]V) []*Subscription[V] {
	t.mu.Lock()
	defer t.mu.Unlock()
	var due []*Subscription[V]
	for _, r := range sortedRefs(values) {
		if _, taken := t.slot(r); taken {
			continue
		}
		t.set(r, slot[V]{value: values[r]})
		due = t.deliver(due, r, none[V](), some(values[r]), false)
	}
	return due
}

// keyLocks serializes the writes of one key to the journal, without delaying other keys or readers.
type keyLocks struct {
	mu   sync.Mutex
	held map[Ref]*keyLock
}

type keyLock struct {
	sync.Mutex
	waiting int // holders and waiters, guarded by holds.mu
}

func (h *keyLocks) acquire(r Ref) {
	h.mu.Lock()
	if h.held == nil {
		h.held = map[Ref]*keyLock{}
	}
	k := h.held[r]
	if k == nil {
		k = &keyLock{}
		h.held[r] = k
	}
	k.waiting++
	h.mu.Unlock()
	k.Lock()
}

func (h *keyLocks) release(r Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.held[r]
	if k.waiting--; k.waiting == 0 {
		delete(h.held, r)
	}
	k.Unlock()
}
