package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// tidy removes the run folder of an owner once nothing of it is left.
func (h *Host) tidy(ctx context.Context, o netstate.Owner) error {
	entries, err := os.ReadDir(h.folder(o.Number))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list run folder: %w", err)
	}
	for _, e := range entries {
		if e.Name() != "owner" {
			return nil
		}
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
