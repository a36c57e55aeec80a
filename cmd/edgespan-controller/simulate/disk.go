package simulate

import (
	"io/fs"
	"path/filepath"
	"sync"

	"edgespan/actors/agent"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/platform/store"
)

// writers is the number of concurrent writes of all nodes' files. More are no faster, and each needs a thread.
const writers = 8

// diskTurn admits the writes of all nodes.
var diskTurn = diskTurns{free: writers}

// diskTurns admits some writes at a time. Real nodes have a disk each, and these share one: a pending config, which a
// node stores before it answers, goes before what others store after they have answered. Otherwise those would delay
// it, as no real node does.
type diskTurns struct {
	mu          sync.Mutex
	free        int
	first, rest []chan struct{} // waiting
}

func (d *diskTurns) acquire(first bool) {
	d.mu.Lock()
	if d.free > 0 {
		d.free--
		d.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	if first {
		d.first = append(d.first, turn)
	} else {
		d.rest = append(d.rest, turn)
	}
	d.mu.Unlock()
	<-turn
}

func (d *diskTurns) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, waiting := range []*[]chan struct{}{&d.first, &d.rest} {
		if len(*waiting) > 0 {
			close((*waiting)[0])
			*waiting = (*waiting)[1:]
			return
		}
	}
	d.free++
}

// slots is one node's disk in a folder.
type slots struct{ *store.Slots }

func (m *simulator) diskOf(node int) agent.Disk {
	if m.disk == diskMemory {
		return &memorySlots{files: map[string][]byte{}}
	}
	return slots{store.NewSlots(filepath.Join(m.folder(m.names[node]), "slot"))}
}

func (s slots) Write(name string, content []byte) error {
	diskTurn.acquire(name == string(commitconfirm.SlotPending))
	defer diskTurn.release()
	return s.Slots.Write(name, content)
}

func (s slots) WriteSpare(name string, content []byte) error {
	diskTurn.acquire(false)
	defer diskTurn.release()
	return s.Slots.WriteSpare(name, content)
}

// memorySlots is a disk in memory.
type memorySlots struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (s *memorySlots) Read(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text, has := s.files[name]; has {
		return text, nil
	}
	return nil, fs.ErrNotExist
}

func (s *memorySlots) Write(name string, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = content
	return nil
}

func (s *memorySlots) WriteSpare(name string, content []byte) error { return s.Write(name, content) }

func (s *memorySlots) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, name)
	return nil
}
