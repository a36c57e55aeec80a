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

// entry is one chain as edgespan wrote it: the desired rules and the kernel's spelling.
type entry struct {
	Family netstate.Family `json:"family"`
	Table  string          `json:"table,omitempty"`
	Name   string          `json:"name"`
	Rules  []string        `json:"rules"`
	Hooks  []netstate.Hook `json:"hooks,omitempty"`
	Kernel string          `json:"kernel"`
	// Unread marks a chain that was written and whose Kernel is not known yet: only in memory.
	Unread bool `json:"-"`
}

// written returns the entry of a chain that was just written.
func written(c netstate.Chain) entry {
	return entry{Family: c.Family, Table: c.Table, Name: c.Name, Rules: c.Rules, Hooks: c.Hooks, Unread: true}
}

// read returns the entry of a chain with the kernel's spelling.
func read(c netstate.Chain, kernel string) entry {
	e := written(c)
	e.Kernel, e.Unread = kernel, false
	return e
}

func (e entry) chain() netstate.Chain {
	return netstate.Chain{Family: e.Family, Table: e.Table, Name: e.Name, Rules: e.Rules, Hooks: e.Hooks}
}

// ownRules returns the kernel's spelling of the rules without the jumps.
func (e entry) ownRules() []string {
	var rules []string
	for _, l := range strings.Split(e.Kernel, "\n") {
		if strings.HasPrefix(l, "-") {
			rules = append(rules, l)
		}
	}
	return rules
}

// jumps returns the rules that lead into the chain, in the kernel's spelling or as written.
func (e entry) jumps() []jump {
	var js []jump
	if e.Unread || e.isSummed() {
		for _, h := range e.Hooks {
			js = append(js, jump{parent: h.Parent, rule: join(h.Match, "-j", e.Name)})
		}
		return js
	}
	for _, l := range strings.Split(e.Kernel, "\n") {
		if parent, rule, ok := strings.Cut(l, "> "); ok && !strings.HasPrefix(l, "-") {
			js = append(js, jump{parent: parent, rule: strings.TrimSuffix(rule, moved)})
		}
	}
	return js
}

// store holds the chains of one owner, in memory and in a file of its run folder.
type store struct {
	path string
	mu   sync.Mutex
	m    map[netstate.ID]entry // replaced as a whole, never changed
	objs netstate.State        // the objects of m, nil if they are not made yet
	sure bool                  // the kernel is known to match, and no write has failed since
	// version counts writes, failed ones included, and observations: an observation during which it changes is stale,
	// because plans observe while appliers write.
	version uint64
	// gen is the generation of the ruleset at the last full observation, 0 for none: while it is the same nothing has
	// changed, not even by edgespan.
	gen uint32
	// alone is set after a failed write: a network whose writes fail or hang is not batched with others.
	alone bool
}

func (s *store) isSoleWriter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alone
}

func (s *store) setSoleWriter(alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone = alone
}

func (s *store) isSure() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sure
}

// markUncertain records that the kernel may differ from the store.
func (s *store) markUncertain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sure, s.gen = false, 0
	s.version++
}

// observation is the result of reading the kernel.
type observation struct {
	version uint64 // of the store before the observation
	full    bool   // it read all chains
	gen     uint32 // of the ruleset before the observation, 0 for none
	seen    []entry
}

// saw stores an observation unless something was written meanwhile.
func (s *store) saw(l observation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != l.version {
		return nil
	}
	s.version++
	if l.full {
		s.sure, s.gen = true, l.gen
	}
	next := map[netstate.ID]entry{}
	for _, e := range l.seen {
		next[e.chain().ID()] = e
	}
	return s.replace(next)
}

// unchangedAt reports whether nothing changed since the last full observation.
func (s *store) unchangedAt(gen uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sure && s.gen != 0 && s.gen == gen
}

// loadStore reads a store. An unreadable one is empty: then no kernel text matches and the chains are written again.
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
	m, _ := s.at()
	return m
}

// at returns the whole store, which the caller must not change, and its version.
func (s *store) at() (map[netstate.ID]entry, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m, s.version
}

// shown returns the chains as objects, and false if the kernel's form of one is not known yet.
func (s *store) shown() (netstate.State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objs == nil {
		objs := make(netstate.State, len(s.m))
		for id, e := range s.m {
			if e.Unread {
				return nil, false
			}
			objs[id] = e.chain()
		}
		s.objs = objs
	}
	return maps.Clone(s.objs), true
}

// leadsFrom reports whether one of the chains has a jump in one of these parents.
func (s *store) leadsFrom(parents map[string]bool) bool {
	for _, e := range s.all() {
		if slices.ContainsFunc(e.Hooks, func(h netstate.Hook) bool { return parents[h.Parent] }) {
			return true
		}
	}
	return false
}

func (s *store) rules() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.m {
		n += len(e.Rules)
	}
	return n
}

// change stores the entries that f changes.
func (s *store) change(f func(map[netstate.ID]entry)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	next := maps.Clone(s.m)
	f(next)
	return s.replace(next)
}

// replace makes next the content and writes the file if the content changed; an empty store has no file.
func (s *store) replace(next map[netstate.ID]entry) error {
	if maps.EqualFunc(s.m, next, equalEntry) {
		return nil
	}
	s.m, s.objs = next, nil
	if len(next) == 0 {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove chain store: %w", err)
		}
		return nil
	}
	ids := slices.SortedFunc(maps.Keys(next), func(a, b netstate.ID) int { return strings.Compare(a.Name, b.Name) })
	list := make([]entry, 0, len(ids))
	for _, id := range ids {
		if !next[id].Unread { // the kernel's form is not known yet
			list = append(list, next[id])
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("write chain store: %w", err)
	}
	// No fsync: after a power failure the chains are gone too, and after a crash of this process alone the page cache
	// still holds the file.
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
	return a.Kernel == b.Kernel && a.Unread == b.Unread && slices.Equal(a.Rules, b.Rules) && slices.Equal(a.Hooks, b.Hooks)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
