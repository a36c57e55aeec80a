package proc

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// Groups are cgroups (version 2) of helpers, below the cgroup edgespan of the root: a group below that of the daemon
// would keep systemd from starting the daemon again while helpers live (a cgroup has processes or children).
//
// Nothing here fails a helper: where the kernel or the rights of the daemon lack a group, its limits do not hold, and
// Missing says so.
type Groups struct {
	prefix string // of the groups of this run directory
	open   func() (root string, err error)

	once  sync.Once
	root  string // the cgroup edgespan, "" without one
	mount *os.File

	mu    sync.Mutex
	fault error // why there are no groups: nothing is tried again
}

// controllers are those that limits need, with the file of each.
var controllers = []struct {
	name, file string
	value      func(netstate.ProcessLimits) string
}{
	{"memory", "memory.max", func(l netstate.ProcessLimits) string { return strconv.Itoa(l.Memory << 20) }},
	{"cpu", "cpu.max", func(l netstate.ProcessLimits) string { return fmt.Sprintf("%d 100000", l.Processor*1000) }},
	{"pids", "pids.max", func(l netstate.ProcessLimits) string { return strconv.Itoa(l.Processes) }},
}

// NewGroups returns the groups of a run directory. They are looked for when they are first needed.
func NewGroups(runDir string) *Groups {
	h := fnv.New32a()
	_, _ = h.Write([]byte(runDir))
	g := &Groups{prefix: fmt.Sprintf("%08x-", h.Sum32())}
	g.open = g.attach
	return g
}

// attach opens the hierarchy by itself: in a mount namespace of ip netns exec it is not mounted.
func (g *Groups) attach() (string, error) {
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return "", err
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	g.mount = os.NewFile(uintptr(fd), "cgroup2")
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}

// ready makes the cgroup edgespan, passes the controllers on to it, and removes the empty groups of daemons that are
// gone.
func (g *Groups) ready() error {
	g.once.Do(func() {
		top, err := g.open()
		if err != nil {
			_ = g.fail(fmt.Errorf("open cgroup2: %w", err))
			return
		}
		root := filepath.Join(top, "edgespan")
		if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			_ = g.fail(fmt.Errorf("make cgroup: %w", err))
			return
		}
		g.root = root
		for _, c := range controllers {
			for _, at := range []string{top, root} {
				_ = set(filepath.Join(at, "cgroup.subtree_control"), "+"+c.name) // Missing tells
			}
		}
		old, _ := os.ReadDir(root)
		for _, e := range old {
			if e.IsDir() {
				_ = os.Remove(filepath.Join(root, e.Name())) // the kernel keeps those with processes
			}
		}
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fault
}

func (g *Groups) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = err
	return err
}

// set writes a file of a cgroup, which exists or not.
func set(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (g *Groups) path(name string) string {
	return filepath.Join(g.root, g.prefix+strings.ReplaceAll(name, "/", "-"))
}

// Put puts a process into the group of a name with these limits. Its children follow it.
func (g *Groups) Put(name string, id Ident, l netstate.ProcessLimits) error {
	if err := g.ready(); err != nil {
		return err
	}
	err := errors.New("no attempt")
	for try := 0; try < 3 && err != nil; try++ { // another daemon may remove it while it is empty
		if err = os.Mkdir(g.path(name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return g.fail(fmt.Errorf("make cgroup: %w", err))
		}
		for _, c := range controllers {
			_ = set(filepath.Join(g.path(name), c.file), c.value(l))
		}
		err = set(filepath.Join(g.path(name), "cgroup.procs"), strconv.Itoa(id.Pid))
	}
	if err != nil && id.Alive() {
		return g.fail(fmt.Errorf("join cgroup: %w", err))
	}
	return nil
}

// Has reports whether a process is in the group of a name; true without cgroups, where none is.
func (g *Groups) Has(name string, id Ident) bool {
	if g.ready() != nil {
		return true
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", id.Pid))
	return err != nil || strings.Contains(string(text), "/edgespan/"+filepath.Base(g.path(name))+"\n")
}

// Remove removes the group of a name, and ends what is left in it.
func (g *Groups) Remove(name string) error {
	if g.ready() != nil {
		return nil
	}
	var err error
	for until := time.Now().Add(time.Second); ; time.Sleep(5 * time.Millisecond) { // until the kernel has reaped them
		if err = os.Remove(g.path(name)); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		_ = set(filepath.Join(g.path(name), "cgroup.kill"), "1")
	}
}

// Missing lists the controllers without which limits do not hold, or why there are no groups.
func (g *Groups) Missing() (names []string, err error) {
	if err := g.ready(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(g.root, "cgroup.subtree_control"))
	if err != nil {
		return nil, fmt.Errorf("read cgroup: %w", err)
	}
	has := strings.Fields(string(text))
	for _, c := range controllers {
		if !slices.Contains(has, c.name) {
			names = append(names, c.name)
		}
	}
	return names, nil
}

// Reached lists what has reached a limit since its group was made, such as "ni-1: memory (3 times)".
func (g *Groups) Reached() (out []string) {
	if g.ready() != nil {
		return nil
	}
	groups, _ := filepath.Glob(filepath.Join(g.root, g.prefix+"*"))
	for _, at := range groups {
		for _, e := range []struct{ file, event, what string }{
			{"memory.events", "oom_kill", "memory"}, {"pids.events", "max", "processes"},
		} {
			text, _ := os.ReadFile(filepath.Join(at, e.file)) // without the controller there is none
			for line := range strings.Lines(string(text)) {
				if f := strings.Fields(line); len(f) == 2 && f[0] == e.event && f[1] != "0" {
					out = append(out, fmt.Sprintf("%s: %s (%s times)", strings.TrimPrefix(filepath.Base(at), g.prefix), e.what, f[1]))
				}
			}
		}
	}
	return out
}

// Close ends the use of the hierarchy, and leaves the groups as they are.
func (g *Groups) Close() {
	if g.mount != nil {
		_ = g.mount.Close()
	}
}
