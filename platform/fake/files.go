package fake

import (
	"io/fs"
	"sync"
)

// Files are a node's config file and state folder in memory, which outlive the nodes that use them.
type Files struct {
	mu       sync.Mutex
	config   []byte // the config file; nil: there is none
	lastGood []byte // an earlier version's last good config; nil: there is none
	slots    map[string][]byte
	hang     <-chan struct{}
	failing  error // of every write
	aside    []string
}

// NewFiles returns files of a node that has none.
func NewFiles() *Files { return &Files{slots: map[string][]byte{}} }

// Block makes the disk block until free is closed.
func (f *Files) Block(free <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hang = free
}

// Fail makes every write fail with err; nil for none.
func (f *Files) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = err
}

// SetConfig replaces the text of the config file.
func (f *Files) SetConfig(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.config = []byte(text)
}

// SetLastGood sets an earlier version's last good config.
func (f *Files) SetLastGood(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastGood = []byte(text)
}

// SetSlot sets what is stored under a name, whatever Fail says.
func (f *Files) SetSlot(name, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots[name] = []byte(text)
}

// Aside returns what was set aside, as "NAME: TEXT".
func (f *Files) Aside() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.aside
}

// Lose removes everything that the node has stored about its configs.
func (f *Files) Lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.slots)
}

func (f *Files) wait() {
	f.mu.Lock()
	hang := f.hang
	f.mu.Unlock()
	if hang != nil {
		<-hang
	}
}

// ReadConfig returns the text of the config file, and its name; "" if there is none.
func (f *Files) ReadConfig() ([]byte, string, error) {
	f.wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config == nil {
		return nil, "", nil
	}
	return f.config, "node.yaml", nil
}

// ReadLastGood returns what SetLastGood has set, or fs.ErrNotExist.
func (f *Files) ReadLastGood() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lastGood == nil {
		return nil, fs.ErrNotExist
	}
	return f.lastGood, nil
}

// RemoveLastGood removes it.
func (f *Files) RemoveLastGood() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastGood = nil
	return nil
}

// Read returns what is stored under a name, or fs.ErrNotExist.
func (f *Files) Read(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, there := f.slots[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

// Write stores something under a name.
func (f *Files) Write(name string, content []byte) error {
	return f.change(func() { f.slots[name] = content })
}

// WriteSpare is Write: this disk keeps all.
func (f *Files) WriteSpare(name string, content []byte) error { return f.Write(name, content) }

// Remove removes what is stored under a name.
func (f *Files) Remove(name string) error { return f.change(func() { delete(f.slots, name) }) }

// SetAside notes what is stored under a name.
func (f *Files) SetAside(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aside = append(f.aside, name+": "+string(f.slots[name]))
}

func (f *Files) change(by func()) error {
	f.wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing == nil {
		by()
	}
	return f.failing
}
