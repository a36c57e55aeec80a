package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"edgespan/netinst/netstate"
)

// enslavedName is the record, in an owner's run folder, of foreign links that were down when they were enslaved: their
// indexes by name.
const enslavedName = "lent.json"

// enslavedMu guards all records: they are small and seldom written.
var enslavedMu sync.Mutex

// enslave puts a foreign link into the owner's bridge and sets it up. It first records whether the link was down, so
// that a crash in between loses nothing.
func (h *Host) enslave(o netstate.Owner, p netstate.Port) error {
	index, up, in, err := h.kernel.Borrowed(p)
	if err != nil {
		return err
	}
	if !in && index != 0 {
		if err := h.noteEnslaved(o, p.Link, index, !up); err != nil {
			return err
		}
	}
	return h.kernel.SetPort(p)
}

// release removes the link from the bridge, and sets it down if it was down before. It sets it down first: a crash then
// leaves it in the bridge, where it is found.
func (h *Host) release(o netstate.Owner, p netstate.Port) error {
	index, _, in, err := h.kernel.Borrowed(p)
	if err != nil {
		return err
	}
	record, err := h.enslavedBy(o)
	if err != nil {
		return err
	}
	if in && index != 0 && record[p.Link] == index {
		if err := h.kernel.LowerBorrowed(p); err != nil {
			return err
		}
	}
	if err := h.kernel.ClearPort(p); err != nil {
		return err
	}
	if _, noted := record[p.Link]; !noted {
		return nil
	}
	return h.noteEnslaved(o, p.Link, 0, false)
}

func (h *Host) enslavedPath(o netstate.Owner) string {
	return filepath.Join(h.folder(o.Number), enslavedName)
}

func (h *Host) enslavedBy(o netstate.Owner) (map[string]int, error) {
	record := map[string]int{}
	b, err := os.ReadFile(h.enslavedPath(o))
	if errors.Is(err, fs.ErrNotExist) {
		return record, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the record of borrowed links: %w", err)
	}
	if err := json.Unmarshal(b, &record); err != nil {
		return nil, fmt.Errorf("parse the record of borrowed links: %w", err)
	}
	return record, nil
}

// noteEnslaved records whether a link was down.
func (h *Host) noteEnslaved(o netstate.Owner, link string, index int, down bool) error {
	enslavedMu.Lock()
	defer enslavedMu.Unlock()
	record, err := h.enslavedBy(o)
	if err != nil {
		return err
	}
	if had, ok := record[link]; ok == down && (!down || had == index) {
		return nil
	}
	if delete(record, link); down {
		record[link] = index
	}
	if len(record) == 0 {
		return os.Remove(h.enslavedPath(o))
	}
	b, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write the record of borrowed links: %w", err)
	}
	return writeFile(h.enslavedPath(o), string(b))
}
