package firewall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
	"edgespan/platform/nft"
	"edgespan/platform/proc"
)

const (
	dumpTimeout = 5 * time.Second
	// The cost of listings, in rules of a dump: a command that lists one chain costs listCost rules, and the dump
	// command costs that much in addition to its rules.
	listCost = 150
	dumpCost = 250
	// readers is how many listings run concurrently for one caller.
	readers = 3
)

// tableOrder is the order in which tables commit when chains are added: filter verdicts take effect before translation
// and separate tracking. Removal uses the reverse order.
var tableOrder = []string{"filter", "nat", "raw"}

// Firewall is the packet filter of one network namespace.
type Firewall struct {
	run    *proc.Runner
	nft    *nft.Conn
	folder func(number int) string       // absolute path of an owner's run folder
	dumps  map[string]*dump.Shared[view] // by table, as text
	sums   map[string]*dump.Shared[view] // the same as digests
	native *dump.Shared[native]          // nftables tables of edgespan
	// counters shares reads of the legacy backend's counters.
	counters *dump.Shared[counters]
	remove   *remover
	noARP    atomic.Bool // the kernel has no arp tables, and one is desired
	age      age
	legacy   legacy
	writes   writes

	looking atomic.Int32 // callers that are reading chains
	detect  detector

	mu     sync.Mutex
	stores map[int]*store
}

// New returns a Firewall; folder returns an owner's run folder by its number.
func New(run *proc.Runner, conn *nft.Conn, folder func(number int) string) *Firewall {
	f := &Firewall{run: run, nft: conn, remove: newRemover(conn.Remove), folder: folder,
		dumps: map[string]*dump.Shared[view]{}, sums: map[string]*dump.Shared[view]{}, stores: map[int]*store{}}
	for _, name := range tableOrder {
		f.dumps[name] = dump.New(dumpTimeout, untilChange(f, func(ctx context.Context) (view, error) {
			return f.listText(ctx, name)
		}))
		f.sums[name] = dump.New(dumpTimeout, untilChange(f, func(ctx context.Context) (view, error) {
			return f.listSums(ctx, name)
		}))
	}
	f.counters = dump.New(dumpTimeout, f.legacyCounters)
	f.native = dump.New(dumpTimeout, untilChange(f, f.listNative))
	f.writes.turn = dump.NewGathered(f.writes.gather, f.writeTogether)
	return f
}

func (f *Firewall) store(number int) *store {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stores[number]
	if s == nil {
		s = loadStore(filepath.Join(f.folder(number), "chains.json"))
		f.stores[number] = s
	}
	return s
}

// Apply writes whole chains with the jumps into them: those of families bridge and ip6 in one transaction, then all
// iptables chains in one restore that commits the filter table first, then inet tables, which filter what the chains
// accepted, and arp tables. It is idempotent. The next Observe reads the kernel's form of the chains.
func (f *Firewall) Apply(ctx context.Context, number int, items []netstate.Item) error {
	want, err := chainsOf(number, items, func(it netstate.Item) netstate.Object { return it.Want })
	if err != nil {
		return err
	}
	if number == 0 {
		if err := f.recordBase(ctx); err != nil {
			return err
		}
	}
	seen, err := f.write(ctx, number, want, nil)
	if err != nil {
		return err
	}
	for _, family := range []netstate.Family{netstate.InetFamily, netstate.ARPFamily} {
		if err := f.applyNative(ctx, number, want, family); err != nil {
			return err
		}
	}
	return f.store(number).change(func(m map[netstate.ID]entry) {
		for _, c := range want {
			m[c.ID()] = written(c)
		}
		seen.read(m)
	})
}

// Remove deletes chains with the jumps into them, nat before filter, then whole tables. A missing chain is no error.
func (f *Firewall) Remove(ctx context.Context, number int, items []netstate.Item) error {
	gone, err := chainsOf(number, items, func(it netstate.Item) netstate.Object { return it.Have })
	if err != nil {
		return err
	}
	if err := f.drop(ctx, number, gone); err != nil {
		return err
	}
	err = f.store(number).change(func(m map[netstate.ID]entry) {
		for _, c := range gone {
			delete(m, c.ID())
		}
	})
	if err != nil || number != 0 || len(f.store(0).all()) > 0 {
		return err
	}
	return f.dropBase(ctx)
}

// drop removes chains from the kernel: a network's by netlink, batched with those of other networks, and otherwise by a
// restore of their own.
func (f *Firewall) drop(ctx context.Context, number int, gone []netstate.Chain) error {
	if _, counted := f.generation(ctx); counted && number > 0 {
		err := f.remove.remove(ctx, f.removalOf(number, gone))
		if err == nil {
			return nil
		}
		f.store(number).markUncertain()
		if ctx.Err() != nil {
			return err
		}
		// Another jump leads into them: iptables' error says which.
	}
	if _, err := f.write(ctx, number, nil, gone); err != nil {
		return err
	}
	return f.removeNative(number, gone)
}

func chainsOf(number int, items []netstate.Item, side func(netstate.Item) netstate.Object) ([]netstate.Chain, error) {
	var list []netstate.Chain
	for _, it := range items {
		c, ok := side(it).(netstate.Chain)
		if !ok {
			return nil, fmt.Errorf("%s is no chain", it.ID())
		}
		if err := check(c, number); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func (f *Firewall) restore(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	return f.legacy.writing(func() error {
		_, err := f.run.Run(ctx, text, "iptables-restore", "--noflush", "-w", "5")
		return err
	})
}

// edits plans one edit per table, based on the store.
func (f *Firewall) edits(number int, want, gone []netstate.Chain) []*edit {
	var list []*edit
	for _, name := range tableOrder {
		e := &edit{name: name, stored: map[string]entry{}}
		for _, c := range want {
			if c.Family == netstate.IPv4 && c.Table == name {
				e.want = append(e.want, c)
			}
		}
		for _, c := range gone {
			if c.Family == netstate.IPv4 && c.Table == name {
				e.gone = append(e.gone, c)
			}
		}
		if len(e.want)+len(e.gone) == 0 {
			continue
		}
		for id, st := range f.store(number).all() {
			if id == st.chain().ID() && st.Family == netstate.IPv4 && st.Table == name {
				e.stored[st.Name] = st
			}
		}
		e.hooked = hooksOf(e.stored, slices.Concat(e.want, e.gone))
		e.seen = tableOf(e.stored)
		list = append(list, e)
	}
	return list
}

// tableOf converts stored chains to a table: the chains and the jumps into them.
func tableOf(stored map[string]entry) table {
	t := table{}
	for _, name := range sortedKeys(stored) {
		t.declare(name)
		for _, j := range stored[name].jumps() {
			t[j.parent] = append(t[j.parent], j.rule)
		}
	}
	return t
}

// names lists the chains to read: those that hold jumps and, of the written chains, only host's, because a network's
// chains are flushed.
func (e *edit) names() []string {
	var names []string
	for _, c := range slices.Concat(e.want, e.gone) {
		if hostChain(c.Name) {
			names = append(names, c.Name)
		}
		for _, h := range slices.Concat(c.Hooks, e.stored[c.Name].Hooks) {
			names = append(names, h.Parent)
		}
	}
	return unique(names)
}

// hooksOf returns a hooked that knows the hooks of an owner's chains. A network's chain counts as hooked wherever it
// appears in host's or a built-in chain.
func hooksOf(stored map[string]entry, more []netstate.Chain) hooked {
	known := map[[2]string]bool{}
	for _, st := range stored {
		for _, h := range st.Hooks {
			known[[2]string{h.Parent, st.Name}] = true
		}
	}
	for _, c := range more {
		for _, h := range c.Hooks {
			known[[2]string{h.Parent, c.Name}] = true
		}
	}
	return func(parent, chain string) bool {
		n, own := owner(chain)
		return known[[2]string{parent, chain}] ||
			own && (isBuiltin(parent) || n > 0 && hostChain(parent))
	}
}

// readView lists chains as the kernel shows them. The answer leaves out missing chains.
func (f *Firewall) readView(ctx context.Context, tableName string, chains []string) (view, error) {
	// Concurrent callers share a dump, which is cheaper than separate lists.
	together := f.looking.Add(1)
	defer f.looking.Add(-1)
	if len(chains)*listCost*int(together) >= dumpCost+f.rules() {
		return f.dumps[tableName].Get(ctx)
	}
	found := make([]table, len(chains))
	errs := make([]error, len(chains))
	var wg sync.WaitGroup
	slots := make(chan struct{}, readers)
	for i, c := range chains {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found[i], errs[i] = f.list(ctx, tableName, c)
		})
	}
	wg.Wait()
	all := table{}
	for _, t := range found {
		maps.Copy(all, t)
	}
	return all.view(), errors.Join(errs...)
}

// rules estimates the number of rules in a dump from the chains that edgespan wrote.
func (f *Firewall) rules() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, st := range f.stores {
		n += st.rules()
	}
	return n
}

func (f *Firewall) list(ctx context.Context, tableName, chain string) (table, error) {
	out, err := f.run.Run(ctx, "", "iptables", "-w", "5", "-t", tableName, "-S", chain)
	var e *proc.Error
	if errors.As(err, &e) && ctx.Err() == nil && missing(e.Words) {
		return nil, nil
	}
	return parse(out), err
}

// missing reports whether iptables' message says that a chain does not exist. The nft backend (1.8.9) calls one
// incompatible; the restore flushes an incompatible chain with one of edgespan's names just as it creates a missing
// one.
func missing(words string) bool {
	return strings.Contains(words, "No chain/target/match by that name") || strings.Contains(words, "is incompatible") ||
		strings.Contains(words, "does not exist") || strings.Contains(words, "doesn't exist")
}
