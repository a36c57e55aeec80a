package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"edgespan/netinst/netstate"
	"edgespan/platform/ipset"
	"edgespan/platform/kernel"
)

// ownedByNumber refuses a kernel object that does not carry the owner's number (docs/architecture.md, law 3).
func ownedByNumber(o netstate.Owner, obj netstate.Object) error {
	n, ok := 0, false
	switch obj := obj.(type) {
	case netstate.Link:
		n, ok = kernel.LinkOwner(obj)
	case netstate.Port:
		if n, ok = kernel.LinkNumber(obj.Link); !ok { // a foreign link: use its bridge
			n, ok = kernel.LinkNumber(obj.Master)
		}
	case netstate.Address:
		n, ok = kernel.LinkNumber(obj.Link)
		ok = ok && !obj.Foreign
	case netstate.Route:
		n, ok = kernel.TableNumber(obj.Table)
	case netstate.Rule:
		n, ok = kernel.PriorityNumber(obj.Priority)
	case netstate.VPN:
		n, ok = netstate.VPNNameNumber(obj.Name)
	case netstate.Set:
		n, ok = ipset.Number(obj.Name)
	}
	if !ok || n != o.Number {
		return fmt.Errorf("%s is not of owner %d", obj.ID(), o.Number)
	}
	return nil
}

func (h *Host) ownerFile(n int) string { return filepath.Join(h.folder(n), "owner") }

// markOwner records the owner of a number before any object is created, so that leftovers of a crash have a name even
// without a bridge.
func (h *Host) markOwner(o netstate.Owner) error {
	path := h.ownerFile(o.Number)
	if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) == o.Name {
		return nil
	}
	if err := makeFolder(h.folder(o.Number)); err != nil {
		return err
	}
	return writeFile(path, o.Name+"\n")
}

// folders returns the numbers that have a run folder.
func (h *Host) folders() ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(h.dir, "ni"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if _, own := kernel.LinkNumber(bridgeName(n)); err == nil && own && strconv.Itoa(n) == e.Name() {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// sweep removes a run folder that holds only a mark, as a kill right after the mark leaves it, and reports whether it
// did. Nothing else would remove it, because an owner without observed objects gets no op.
func (h *Host) sweep(n int) bool {
	bare, err := h.bare(n)
	return err == nil && bare && os.RemoveAll(h.folder(n)) == nil
}

// bare reports whether a run folder holds at most the mark, a record of enslaved links (useless without a bridge), and
// unfinished files (see writeFile).
func (h *Host) bare(n int) (bool, error) {
	entries, err := os.ReadDir(h.folder(n))
	return !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() != "owner" && e.Name() != enslavedName && !strings.HasPrefix(e.Name(), tempPrefix)
	}), err
}

// removeRunDir removes the run folder of an owner once it has no objects left.
func (h *Host) removeRunDir(ctx context.Context, o netstate.Owner) error {
	bare, err := h.bare(o.Number)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list run folder: %w", err)
	}
	if !bare {
		return nil
	}
	if o.Number > 0 {
		left, err := h.kernel.Observe(ctx, o.Number)
		if err != nil {
			return err
		}
		sets, err := h.sets.Observe(ctx, o.Number)
		if err != nil {
			return err
		}
		if len(left)+len(sets) > 0 {
			return nil // the name must last as long as any object
		}
	}
	if err := os.RemoveAll(h.folder(o.Number)); err != nil {
		return fmt.Errorf("remove run folder: %w", err)
	}
	if o.Number > 0 {
		if err := h.vpn.Forget(o.Name); err != nil {
			return err
		}
	}
	// Remove the parent with the last network; a failure is no error.
	_ = os.Remove(filepath.Join(h.dir, "ni"))
	return nil
}

// linked holds the owners that had links when they were last observed.
type linked struct {
	mu sync.Mutex
	by map[int]bool
}

func (l *linked) has(number int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[number]
}

func (l *linked) saw(number int, s netstate.State) {
	has := false
	for id := range s {
		has = has || id.Kind == netstate.KindLink
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.by, number); has {
		l.by[number] = true
	}
}
