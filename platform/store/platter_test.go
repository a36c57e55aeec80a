package store

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

var errPower = errors.New("the power is off")

// platter is a disk with a cache: a write is visible at once, and on the disk after a sync. After a power cut each
// sector has any of the contents written to it since its last sync, and each name of a folder is there or not, in
// whatever order they were written.
type platter struct {
	t      testing.TB
	dir    string
	sector int
	names  map[string]*spun // as visible
	kept   map[string]*spun // as on the disk
	steps  int
	cut    int          // the step at which the power fails; 0: never
	fails  map[int]bool // steps that end in an error
	syncs  int
}

// spun is the content of a file.
type spun struct {
	size    []int      // it may have any of these
	sectors [][][]byte // for each sector all that it may contain, the visible content last
	dirty   map[int]bool
}

func newPlatter(t testing.TB, dir string, sector int) *platter {
	return &platter{t: t, dir: dir, sector: sector, names: map[string]*spun{}, kept: map[string]*spun{},
		fails: map[int]bool{}}
}

// disk returns the interface that a slot uses.
func (p *platter) disk() disk {
	return disk{sync: p.sync, rename: p.rename, overwrite: p.overwrite, datasync: p.sync}
}

// step returns the outcome of the next step.
func (p *platter) step() error {
	p.steps++
	switch {
	case p.cut > 0 && p.steps >= p.cut:
		return errPower
	case p.fails[p.steps]:
		return unix.EIO
	}
	return nil
}

// record records a file's visible content.
func (p *platter) record(s *spun, path string) {
	text, err := os.ReadFile(path)
	must(p.t, err)
	if len(s.size) == 0 || s.size[len(s.size)-1] != len(text) {
		s.size = append(s.size, len(text))
	}
	for i := 0; i*p.sector < len(text); i++ {
		part := make([]byte, p.sector) // what is not written yet reads as zeros
		if i == len(s.sectors) {
			s.sectors = append(s.sectors, [][]byte{bytes.Clone(part)})
		}
		copy(part, text[i*p.sector:])
		if all := s.sectors[i]; !bytes.Equal(all[len(all)-1], part) {
			s.sectors[i] = append(all, part)
			s.dirty[i] = true
		}
	}
}

// of returns the content behind a name. Nothing of a new file is on the disk.
func (p *platter) of(path string) *spun {
	name := filepath.Base(path)
	if p.names[name] == nil {
		p.names[name] = &spun{size: []int{0}, dirty: map[int]bool{}}
		p.record(p.names[name], path)
	}
	return p.names[name]
}

// sync writes what is dirty. One that fails may or may not have written it, and later syncs won't: the kernel does the
// same.
func (p *platter) sync(f *os.File) error {
	p.syncs++
	fault := p.step()
	if errors.Is(fault, errPower) {
		return fault
	}
	if f.Name() == p.dir {
		if fault == nil {
			p.kept = p.now()
		}
		return fault
	}
	s := p.of(f.Name())
	for i := range s.dirty {
		if all := s.sectors[i]; fault == nil {
			s.sectors[i] = all[len(all)-1:]
		}
	}
	clear(s.dirty)
	if fault == nil {
		s.size = s.size[len(s.size)-1:]
	}
	return fault
}

func (p *platter) overwrite(f *os.File, text []byte) error {
	s := p.of(f.Name())
	fault := p.step()
	if p.cut > 0 && p.steps > p.cut {
		return errPower
	}
	if errors.Is(fault, unix.EIO) { // as on a full disk
		text = text[:len(text)/2]
	}
	_, err := f.WriteAt(text, 0)
	must(p.t, err)
	p.record(s, f.Name())
	for i := 0; i*p.sector < len(text); i++ {
		s.dirty[i] = true // even if the bytes are the same
	}
	return fault
}

func (p *platter) rename(from, to string) error {
	s := p.of(from)
	if err := p.step(); err != nil {
		return err
	}
	delete(p.names, filepath.Base(from))
	p.names[filepath.Base(to)] = s
	return os.Rename(from, to)
}

// now returns the folder's visible content: files are also removed without the interface.
func (p *platter) now() map[string]*spun {
	all := maps.Clone(p.names)
	for name := range all {
		if _, err := os.Lstat(filepath.Join(p.dir, name)); err != nil {
			delete(all, name)
		}
	}
	return all
}

// crash reduces the disk to what the power cut left, and starts over.
func (p *platter) crash(r *rand.Rand) {
	now := p.now()
	all := map[string]bool{}
	for _, names := range []map[string]*spun{now, p.kept} {
		for name := range names {
			all[name] = true
		}
	}
	next := map[string]*spun{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := now[name]
		if r.IntN(2) == 0 {
			s = p.kept[name]
		}
		path := filepath.Join(p.dir, name)
		if s == nil {
			_ = os.Remove(path)
			continue
		}
		var text []byte
		for _, of := range s.sectors {
			text = append(text, of[r.IntN(len(of))]...)
		}
		size := s.size[r.IntN(len(s.size))]
		must(p.t, os.WriteFile(path, append(text, make([]byte, max(0, size-len(text)))...)[:size], 0o600))
		next[name] = &spun{dirty: map[int]bool{}}
		p.record(next[name], path)
		for i, of := range next[name].sectors {
			next[name].sectors[i] = of[len(of)-1:]
		}
	}
	must(p.t, Sweep(p.dir))
	p.names, p.kept = next, maps.Clone(next)
	p.steps, p.cut = 0, 0
	clear(p.fails)
}
