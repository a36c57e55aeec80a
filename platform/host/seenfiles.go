package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
)

// All files of all networks are compared with the desired ones each minute. Reading them took more than the rest of
// that: so a file is read again only if its inode, size, mode or times have changed.

// seenFile is a file or folder as it was read, and what a folder holds, as absolute paths.
type seenFile struct {
	stamp   dump.Stamp
	telling bool
	object  netstate.Object
	entries []string
}

// seenFolder is a conf folder as it was last observed. It is replaced as a whole, never changed.
type seenFolder struct {
	files map[string]seenFile // by absolute path
	state netstate.State
}

// seenFiles holds the conf folders of all owners.
type seenFiles struct {
	mu sync.Mutex
	by map[int]seenFolder // by owner number
}

func (s *seenFiles) get(number int) seenFolder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[number]
}

func (s *seenFiles) set(number int, f seenFolder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[int]seenFolder{}
	}
	if delete(s.by, number); len(f.files) > 0 {
		s.by[number] = f
	}
}

// observeFiles lists the files and folders below an owner's conf folder. Names with a leading dot are unfinished files
// (see writeFile). The caller must not change the result.
func (h *Host) observeFiles(number int) (netstate.State, error) {
	old := h.files.get(number)
	if old.isUnchanged() {
		return old.state, nil
	}
	w := fileWalk{root: h.dir, old: old.files, found: map[string]seenFile{}}
	if err := w.visit(filepath.Join(h.folder(number), confName)); err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	s := make(netstate.State, len(w.found))
	for _, f := range w.found {
		s.Add(f.object)
	}
	h.files.set(number, seenFolder{w.found, s})
	return s, nil
}

// isUnchanged reports whether all is known to be as it was: a file that comes or goes changes its folder.
func (s seenFolder) isUnchanged() bool {
	for path, f := range s.files {
		if now, err := dump.StampOf(path); err != nil || !f.telling || now != f.stamp {
			return false
		}
	}
	return len(s.files) > 0
}

// fileWalk visits a folder and all that is below.
type fileWalk struct {
	root       string // what paths of objects are relative to
	old, found map[string]seenFile
}

// visit observes a file or folder; one that is missing is left out.
func (w *fileWalk) visit(path string) error {
	began := time.Now()
	now, err := dump.StampOf(path)
	f, known := w.old[path]
	if err == nil && (!known || !f.telling || now != f.stamp) {
		f, err = w.read(path, now.IsFolder())
		f.stamp, f.telling = now, now.IsTelling(began)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	w.found[path] = f
	for _, e := range f.entries {
		if err := w.visit(e); err != nil {
			return err
		}
	}
	return nil
}

// read reads a file or folder.
func (w *fileWalk) read(path string, isFolder bool) (f seenFile, err error) {
	rel, err := filepath.Rel(w.root, path)
	if err != nil {
		return f, err
	}
	if f.object, err = observeFile(path, rel); err != nil || !isFolder {
		return f, err
	}
	list, err := os.ReadDir(path)
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), ".") {
			f.entries = append(f.entries, filepath.Join(path, e.Name()))
		}
	}
	return f, err
}
