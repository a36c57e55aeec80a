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
	"edgespan/platform/kernel"
)

// ownedByNumber refuses an object of the kernel that does not carry the owner's
// number (docs/architecture.md, law 3).
func ownedByNumber(o netstate.Owner, obj netstate.Object) error {
	n, ok := 0, false
	switch obj := obj.(type) {
	case netstate.Link:
		n, ok = kernel.LinkOwner(obj)
	case netstate.Port:
		if n, ok = kernel.LinkNumber(obj.Link); !ok { // a name of others': in whose bridge
			n, ok = kernel.LinkNumber(obj.Master)
		}
	case netstate.Address:
		n, ok = kernel.LinkNumber(obj.Link)
	case netstate.Route:
		n, ok = kernel.TableNumber(obj.Table)
	case netstate.Rule:
		n, ok = kernel.PriorityNumber(obj.Priority)
	}
	if !ok || n != o.Number {
		return fmt.Errorf("%s is not of owner %d", obj.ID(), o.Number)
	}
	return nil
}

func (h *Host) ownerFile(n int) string { return filepath.Join(h.folder(n), "owner") }

// markOwner writes who a number belongs to before anything of it is made, so that
// what a crash leaves without a bridge still has a name.
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

// folders are the numbers that have a run folder.
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

// sweep removes a run folder that holds a mark alone, and says whether it did: it is
// what a kill leaves between the mark and what was to follow. Nobody would else: where
// nothing is observed, nothing is done.
func (h *Host) sweep(n int) bool {
	bare, err := h.bare(n)
	return err == nil && bare && os.RemoveAll(h.folder(n)) == nil
}

// bare says whether a run folder holds no more than the mark, a record of borrowed links,
// which is of no use without a bridge, and files on their way (see writeFile).
func (h *Host) bare(n int) (bool, error) {
	entries, err := os.ReadDir(h.folder(n))
	return !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() != "owner" && e.Name() != enslavedName && !strings.HasPrefix(e.Name(), tempPrefix)
	}), err
}

// tidy removes the run folder of an owner once nothing of it is left.
func (h *Host) tidy(ctx context.Context, o netstate.Owner) error {
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
		if len(left) > 0 {
			return nil // the name must last as long as anything does
		}
	}
	if err := os.RemoveAll(h.folder(o.Number)); err != nil {
		return fmt.Errorf("remove run folder: %w", err)
	}
	// The folder above goes with the last network; it is no error that it can't.
	_ = os.Remove(filepath.Join(h.dir, "ni"))
	return nil
}

// linked are the owners that had links when they were observed last.
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
