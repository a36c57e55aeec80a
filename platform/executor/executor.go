package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

const (
	folderName = "exec"
	stateFile  = "state.json"
	outFile    = "out"
	exitFile   = "exit"
	mark       = "EDGESPAN_EXECUTOR" // its value is the folder
	path       = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	stopGrace  = 10 * time.Second
	maxOutput  = 1 << 20 // bytes of output kept between two checks
	lastWords  = 512     // bytes of output in a reason
	systemdDir = "/run/systemd/system"
)

// once runs a command and writes its exit code to the file "$0", even if no daemon runs then.
const once = `"$@"; c=$?; echo $c >"$0.new" && mv "$0.new" "$0"`

// Executors are the executors of one run directory. Each executor must have at most one call at a time.
type Executors struct {
	run     *proc.Runner
	dir     string
	systemd string        // folder that exists where systemd runs
	grace   time.Duration // between SIGTERM and SIGKILL

	mu      sync.Mutex
	ended   func(id string)
	watched map[string]proc.Ident // by id
	codes   map[proc.Ident]int    // of ended child processes
	kept    map[string]keptState  // by ID: reading the file would cost more than the rest of a check
}

// New returns the Executors whose folders are below the run directory dir.
func New(run *proc.Runner, dir string) *Executors {
	return &Executors{
		run: run, dir: filepath.Join(dir, folderName), systemd: systemdDir, grace: stopGrace,
		ended: func(string) {}, watched: map[string]proc.Ident{}, codes: map[proc.Ident]int{}, kept: map[string]keptState{},
	}
}

// Ended sets a function to call, from any goroutine, when a process has ended by itself.
func (x *Executors) Ended(f func(id string)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = f
}

// normal returns an executor in the form that its folder has.
func normal(e netstate.Executor) netstate.Executor {
	if len(e.Env) == 0 {
		e.Env = nil
	}
	if len(e.Argv) == 0 {
		e.Argv = nil
	}
	return e
}

// folder returns the folder of an ID, whatever characters the ID contains.
func (x *Executors) folder(id string) string {
	return filepath.Join(x.dir, uuid.NewSHA1(uuid.NameSpaceOID, []byte(id)).String())
}

// List returns the IDs of the executors that have anything on the host.
func (x *Executors) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(x.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list executors: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if st, err := read(filepath.Join(x.dir, e.Name())); err == nil {
			ids = append(ids, st.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Has reports whether an executor has anything on the host.
func (x *Executors) Has(_ context.Context, id string) (bool, error) {
	_, err := os.Stat(x.folder(id))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Check returns the condition of an executor and the reason for it.
func (x *Executors) Check(ctx context.Context, e netstate.Executor) (netstate.Condition, string, error) {
	folder := x.folder(e.ID)
	e = normal(e)
	st, err := x.cachedState(e.ID, folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return netstate.Missing, "", nil
	case err != nil:
		return netstate.Missing, err.Error(), nil
	case !reflect.DeepEqual(st.Executor, e):
		return netstate.Missing, "another process has its number", nil
	case e.Unit != "":
		return x.unit(ctx, e.Unit)
	}
	truncateOutput(filepath.Join(folder, outFile))
	if st.Pid == 0 { // crash between the start and its record
		if st.Ident, err = x.adopt(folder, st); err != nil {
			return netstate.Missing, "", err
		}
	}
	if st.Alive() {
		x.watch(e.ID, st.Ident)
		if e.Once {
			return netstate.Running, fmt.Sprintf("runs as process %d", st.Pid), nil
		}
		return netstate.AsDesired, "", nil
	}
	code, known := x.code(folder, st)
	why := "exited with unknown status"
	if known {
		why = "exited with status " + strconv.Itoa(code)
	}
	if words := tail(filepath.Join(folder, outFile)); words != "" {
		why += ": " + words
	}
	switch {
	case !e.Once:
		return netstate.Missing, why, nil
	case known && code == 0:
		return netstate.AsDesired, "", nil
	case st.Pid == 0: // it never ran
		return netstate.Missing, "", nil
	}
	return netstate.Failed, why, nil
}

// adopt finds a process by its mark; the oldest one is the process that was started. Any user can set the mark, so
// only processes of this process's user count.
func (x *Executors) adopt(folder string, st state) (proc.Ident, error) {
	found, err := proc.Marked(mark + "=" + folder)
	found = slices.DeleteFunc(found, func(id proc.Ident) bool { return !id.Own() })
	if err != nil || len(found) == 0 {
		return proc.Ident{}, err
	}
	st.Ident = slices.MinFunc(found, func(a, b proc.Ident) int {
		if a.Start != b.Start {
			return int(min(1, max(-1, int64(a.Start)-int64(b.Start))))
		}
		return a.Pid - b.Pid
	})
	return st.Ident, write(folder, st)
}

// code returns how a process ended.
func (x *Executors) code(folder string, st state) (int, bool) {
	if text, err := os.ReadFile(filepath.Join(folder, exitFile)); err == nil {
		code, err := strconv.Atoi(strings.TrimSpace(string(text)))
		return code, err == nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	code, known := x.codes[st.Ident]
	return code, known
}

// watch reports the end of a process, once.
func (x *Executors) watch(id string, p proc.Ident) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.watched[id] == p {
		return
	}
	if _, err := p.Watch(func() { x.notify(id, p) }); err != nil {
		return // the next check sees it
	}
	x.watched[id] = p
}

func (x *Executors) notify(id string, p proc.Ident) {
	x.mu.Lock()
	own, f := x.watched[id] == p, x.ended
	x.mu.Unlock()
	if own {
		f(id)
	}
}

// Make starts an executor and replaces what runs with its ID.
func (x *Executors) Make(ctx context.Context, e netstate.Executor) error {
	if err := x.Remove(ctx, e.ID); err != nil {
		return err
	}
	folder := x.folder(e.ID)
	e = normal(e)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if e.Unit != "" {
		return x.start(ctx, folder, e)
	}
	st := state{Executor: e}
	if err := write(folder, st); err != nil {
		return err
	}
	spec := proc.Spec{Argv: e.Argv, Dir: e.Dir, Out: filepath.Join(folder, outFile),
		Env: []string{path, mark + "=" + folder}}
	if spec.Dir == "" {
		spec.Dir = "/"
	}
	for _, key := range slices.Sorted(maps.Keys(e.Env)) {
		if key != mark {
			spec.Env = append(spec.Env, key+"="+e.Env[key]) // the last one counts if a key repeats
		}
	}
	if e.Once {
		spec.Argv = append([]string{"/bin/sh", "-c", once, filepath.Join(folder, exitFile)}, e.Argv...)
	}
	started := make(chan proc.Ident, 1)
	spec.Ended = func(code int) {
		p := <-started
		x.mu.Lock()
		if x.watched[e.ID] == p { // not removed: its end is of interest
			x.codes[p] = code
		}
		x.mu.Unlock()
		x.notify(e.ID, p)
	}
	p, err := x.run.StartAs(spec)
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	x.mu.Lock()
	x.watched[e.ID] = p // reported by Ended
	x.mu.Unlock()
	started <- p
	st.Ident = p
	return write(folder, st)
}

// Remove ends an executor with all its processes, and removes its folder. A missing executor is no error.
func (x *Executors) Remove(ctx context.Context, id string) error {
	folder := x.folder(id)
	st, err := read(folder)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove folder: %w", err)
		}
		return nil
	}
	x.mu.Lock()
	delete(x.codes, st.Ident)
	delete(x.codes, x.watched[id]) // another one if its start could not be recorded
	delete(x.watched, id)          // its end is intended
	delete(x.kept, id)
	x.mu.Unlock()
	if st.Unit != "" {
		if err := x.stop(ctx, st); err != nil {
			return err
		}
	} else if err := x.end(ctx, folder, st.Ident); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove folder: %w", err)
	}
	return nil
}

// end sends SIGTERM to all processes of an executor, and SIGKILL to those that remain after the grace period.
func (x *Executors) end(ctx context.Context, folder string, first proc.Ident) error {
	until := time.Now().Add(x.grace)
	for sig := syscall.SIGTERM; ; {
		left, err := proc.Marked(mark + "=" + folder)
		if err != nil {
			return err
		}
		if first.Alive() && !slices.Contains(left, first) { // it has changed its environment
			left = append(left, first)
		}
		if len(left) == 0 {
			return nil
		}
		if sig != 0 {
			for _, p := range left {
				if err := p.Signal(sig); err != nil {
					return fmt.Errorf("signal process %d: %w", p.Pid, err)
				}
			}
		}
		switch sig = 0; {
		case time.Now().After(until.Add(x.grace)):
			return fmt.Errorf("process %d outlives SIGKILL", left[0].Pid)
		case time.Now().After(until):
			sig = syscall.SIGKILL
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop process %d: %w", left[0].Pid, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
