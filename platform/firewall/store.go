package firewall

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"edgespan/netinst/netstate"
)

// entry is one chain as we left it: what was wanted and how the kernel spells it.
type entry struct {
	Family netstate.Family `json:"family"`
	Table  string          `json:"table,omitempty"`
	Name   string          `json:"name"`
	Rules  []string        `json:"rules"`
	Hooks  []netstate.Hook `json:"hooks,omitempty"`
	Kernel string          `json:"kernel"`
}

func (e entry) chain() netstate.Chain {
	return netstate.Chain{Family: e.Family, Table: e.Table, Name: e.Name, Rules: e.Rules, Hooks: e.Hooks}
}

// ownRules is the kernel's spelling of the rules alone.
func (e entry) ownRules() []string {
	var rules []string
	for _, l := range strings.Split(e.Kernel, "\n") {
		if strings.HasPrefix(l, "-") {
			rules = append(rules, l)
		}
	}
	return rules
}

// store holds the chains of one owner, in memory and in a file of its run folder.
type store struct {
	path string
	mu   sync.Mutex
	m    map[netstate.ID]entry
}

// loadStore reads a store. One that can't be read is empty: then the kernel's
// text matches nothing and the chains are written anew.
func loadStore(path string) *store {
	s := &store{path: path, m: map[netstate.ID]entry{}}
	b, err := os.ReadFile(path)
	if err != nil {
		return s
	}
	var list []entry
	if json.Unmarshal(b, &list) != nil {
		return s
	}
	for _, e := range list {
		s.m[e.chain().ID()] = e
	}
	return s
}

func (s *store) all() map[netstate.ID]entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.m)
}

// change applies f and writes the file if something changed; an empty store has
// no file.
func (s *store) change(f func(map[netstate.ID]entry)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.m)
	f(next)
	if maps.EqualFunc(s.m, next, equalEntry) {
		return nil
	}
	s.m = next
	if len(next) == 0 {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove chain store: %w", err)
		}
		return nil
	}
	ids := slices.SortedFunc(maps.Keys(next), func(a, b netstate.ID) int { return strings.Compare(a.Name, b.Name) })
	list := make([]entry, len(ids))
	for i, id := range ids {
		list[i] = next[id]
	}
	b, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return fmt.Errorf("write chain store: %w", err)
	}
	// No fsync: after a power cut the chains are gone too, and after a crash of
	// ours alone the page cache still holds the file.
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return fmt.Errorf("write chain store: %w", err)
	}
	tmp := s.path + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("write chain store: %w", err)
	}
	if err := os.Rename(tmp, s.path); err != nil {
		return fmt.Errorf("write chain store: %w", err)
	}
	return nil
}

func equalEntry(a, b entry) bool {
	return a.Kernel == b.Kernel && a.chain().Text() == b.chain().Text()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
