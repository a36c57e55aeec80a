package dnsmasq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
	"edgespan/platform/proc"
)

const (
	program   = "dnsmasq" // also the name of its folder
	stateFile = "process.json"
	outFile   = "out"
	stopGrace = time.Second
	lastWords = 2 << 10 // bytes of output in an error
	probeTime = 3 * time.Second
	listTime  = 3 * time.Second // of a listing of all processes
	// bornAtLeast is the number of new starts after which ended processes are dropped from born.
	bornAtLeast = 64
)

// Helpers are the helper processes of one run directory.
type Helpers struct {
	run   *proc.Runner
	netns string // where queries are sent from; "" for the process's own
	dir   string
	procs *dump.Shared[[]proc.Process]
	group *proc.Groups

	mu    sync.Mutex
	born  []proc.Process // nil: not listed yet
	lived int            // how many of these were alive at the last check
	guard *guard

	records records
}

// New returns the Helpers whose folders are below the run directory dir.
func New(run *proc.Runner, netnsPath, dir string) *Helpers {
	return &Helpers{
		run: run, netns: netnsPath, dir: dir,
		procs: dump.New(listTime, func(context.Context) ([]proc.Process, error) { return proc.List() }),
		guard: newGuard(), group: proc.NewGroups(dir),
	}
}

// Unlimited lists the kernel's controllers without which limits of helpers do not hold, or why there are none at all.
func (h *Helpers) Unlimited() ([]string, error) { return h.group.Missing() }

// AtLimit lists networks whose helpers have reached a limit.
func (h *Helpers) AtLimit() []string { return h.group.Reached() }

// limit puts a process under its limits, as far as the machine can do it (Unlimited).
func (h *Helpers) limit(p netstate.Process, id proc.Ident) {
	if p.Limits != (netstate.ProcessLimits{}) {
		_ = h.group.Put(groupOf(p.Name), id, p.Limits)
	}
}

// groupOf is the group of a process: that of its network.
func groupOf(name string) string { return filepath.Dir(name) }

// Environment is what a helper depends on. A recreated bridge has another index, and a helper bound to the old one
// serves no clients. A query to a missing address says nothing about the helper.
type Environment struct {
	Bridge    int             // link index; 0 without a bridge
	Addresses map[string]bool // of the network's links, without prefix length
	Lost      bool            // the run folder is missing although the network has objects on the host
}

func (h *Helpers) folder(name string) string { return filepath.Join(h.dir, name) }

// Start starts p, or replaces the process in its folder, and returns when its probe is answered, or when ctx ends for
// a process that hears. For any other process whose ctx ends first, it stops the process and returns an error with the
// end of its output. bridge is the index of the link that p serves.
func (h *Helpers) Start(ctx context.Context, p netstate.Process, bridge int) error {
	if len(p.Argv) == 0 {
		return errors.New("no command")
	}
	folder := h.folder(p.Name)
	if err := h.stop(ctx, p.Name, p.Argv); err != nil {
		return err
	}
	// dnsmasq reads the folder as nobody and stores its leases there.
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o755)); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := pruneLeases(folder, p.Leases); err != nil {
		return err
	}
	st := state{Argv: p.Argv, Digest: p.Digest, Reload: p.Reload, Probe: p.Probe, Bridge: bridge}
	if err := write(folder, st); err != nil {
		return err
	}
	argv := withUser(p.Argv)
	id, err := h.run.Start(argv, filepath.Join(folder, outFile), confinementOf(p))
	if err != nil {
		return err
	}
	h.noteStarted(id, argv) // as a listing of all processes would show it
	limited := make(chan struct{})
	go func() { // the kernel may take as long for it as the process for its start
		defer close(limited)
		h.limit(p, id)
	}()
	defer func() { <-limited }()
	giveUp := func(err error) error {
		h.guard.Leave(p.Name) // an observation may have seen it meanwhile
		return errors.Join(err, id.Stop(context.WithoutCancel(ctx), stopGrace))
	}
	st.Ident, st.Limits = id, p.Limits
	if err := write(folder, st); err != nil {
		return giveUp(err)
	}
	if err := h.await(ctx, p.Name, p.Probe, bridge, id); err != nil && !hasReadAll(id, p.Probe) {
		return giveUp(&proc.Error{Argv: p.Argv, Words: tail(filepath.Join(folder, outFile)), Err: err})
	}
	return nil
}

// Reload puts p under its limits, makes it read its files again (SIGHUP) and drop the leases that don't agree with
// them. It records the reload last, so that an interrupted one is repeated.
func (h *Helpers) Reload(ctx context.Context, p netstate.Process) error {
	st, err := read(h.folder(p.Name))
	if err != nil {
		return err
	}
	if !running(st) {
		return fmt.Errorf("process of %s exited", p.Name)
	}
	h.limit(p, st.Ident)
	if err := st.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("signal process %d: %w", st.Pid, err)
	}
	if err := h.dropLeases(ctx, st.Ident, p); err != nil {
		return err
	}
	st.Reload, st.Limits = p.Reload, p.Limits
	return write(h.folder(p.Name), st)
}

// Stop stops the process of a folder and removes the folder. A missing process is no error.
func (h *Helpers) Stop(ctx context.Context, p netstate.Process) error {
	if err := h.stop(ctx, p.Name, p.Argv); err != nil {
		return err
	}
	if err := os.RemoveAll(h.folder(p.Name)); err != nil {
		return fmt.Errorf("remove folder: %w", err)
	}
	return h.group.Remove(groupOf(p.Name))
}

// stop stops the recorded process, and any other that has one of these command lines and names a file of the run
// folder: a crash between a start and its record leaves a process with an unknown pid.
func (h *Helpers) stop(ctx context.Context, name string, argv []string) error {
	st, err := read(h.folder(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		st = state{} // unreadable: only the command line identifies it
	}
	h.guard.Leave(name)
	h.records.forget(name)
	if running(st) {
		if err := st.Stop(ctx, stopGrace); err != nil {
			return err
		}
	}
	if err == nil && st.Pid != 0 {
		return nil
	}
	strays, err := h.strayProcesses(ctx, argv, st.Argv)
	if err != nil {
		return err
	}
	for _, id := range strays {
		if err := id.Stop(ctx, stopGrace); err != nil {
			return err
		}
	}
	return nil
}

// ownProcesses returns matching processes of this run folder: those that ran at the first call, and all that were
// started since. The former include those that an earlier daemon started and did not record. A listing for each start
// would cost more than the start.
func (h *Helpers) ownProcesses(ctx context.Context, which func(proc.Process) bool) ([]proc.Process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.born == nil {
		all, err := h.procs.Get(ctx)
		if err != nil {
			return nil, err
		}
		h.born = []proc.Process{}
		for _, p := range all {
			if h.names(p.Argv) {
				h.born = append(h.born, p)
			}
		}
	}
	var found []proc.Process
	for _, p := range h.born {
		if which(p) {
			found = append(found, p)
		}
	}
	return found, nil
}

// noteStarted records a process that was just started.
func (h *Helpers) noteStarted(id proc.Ident, argv []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.born == nil {
		return
	}
	h.born = append(h.born, proc.Process{Ident: id, Argv: argv})
	if len(h.born) > 2*h.lived+bornAtLeast { // drop ended ones only now and then: that checks each process
		h.born = slices.DeleteFunc(h.born, func(p proc.Process) bool { return !p.Alive() })
		h.lived = len(h.born)
	}
}

// names reports whether a command line names a file of the run folder.
func (h *Helpers) names(argv []string) bool {
	return slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, h.dir+"/") })
}

func (h *Helpers) strayProcesses(ctx context.Context, lines ...[]string) ([]proc.Ident, error) {
	lines = slices.DeleteFunc(lines, func(argv []string) bool {
		return !h.names(argv)
	})
	if len(lines) == 0 {
		return nil, nil
	}
	all, err := h.ownProcesses(ctx, func(p proc.Process) bool {
		return slices.ContainsFunc(lines, func(argv []string) bool { return sameCommand(p.Argv, argv) })
	})
	if err != nil {
		return nil, err
	}
	var found []proc.Ident
	for _, p := range all {
		// Another process may have taken the pid since the listing.
		if p.Alive() && slices.ContainsFunc(lines, func(argv []string) bool { return sameCommand(p.Cmdline(), argv) }) {
			found = append(found, p.Ident)
		}
	}
	return found, nil
}

// sameCommand reports whether a command line is argv. An interpreter or a wrapper found through PATH may have changed
// the program's own name.
func sameCommand(have, argv []string) bool {
	if len(argv) == 0 || len(have) < len(argv) {
		return false
	}
	if len(argv) == 1 {
		return filepath.Base(have[0]) == filepath.Base(argv[0])
	}
	return slices.Equal(have[len(have)-len(argv)+1:], argv[1:])
}

func running(st state) bool { return sameCommand(st.Cmdline(), st.Argv) }

// Observe lists the running processes of network instance n. It marks a process as different from any desired one, so
// that it is replaced, if it has ended, if its bridge was recreated, or, with probe, if it does not answer within 3 s
// and does not hear. If the network has lost its run folder, Observe finds the processes by their command lines.
func (h *Helpers) Observe(ctx context.Context, n int, on Environment, probe bool) (netstate.State, error) {
	base := filepath.Join("ni", fmt.Sprint(n))
	entries, err := os.ReadDir(h.folder(base))
	switch {
	case on.Lost && probe:
		return h.lost(ctx, base)
	case errors.Is(err, os.ErrNotExist):
		return netstate.State{}, nil
	case err != nil:
		return nil, fmt.Errorf("list helpers: %w", err)
	}
	s := netstate.State{}
	for _, e := range entries {
		name := filepath.Join(base, e.Name())
		st, err := h.record(name)
		unknown := errors.Is(err, os.ErrNotExist) && e.Name() != program // a folder of program lost its record in a crash
		if unknown || errors.Is(err, syscall.ENOTDIR) {
			continue // not the folder of a helper
		}
		p := netstate.Process{Name: name, Argv: st.Argv, Digest: st.Digest, Reload: st.Reload, Probe: st.Probe,
			Limits: st.Limits}
		if st.Limits != (netstate.ProcessLimits{}) && !h.group.Has(groupOf(name), st.Ident) {
			p.Limits = netstate.ProcessLimits{} // somebody took it out of its group
		}
		switch {
		case err != nil:
			p.Digest = "unreadable" // different, so it is replaced
		case !running(st):
			p.Digest = "ended"
		case st.Bridge != on.Bridge:
			p.Digest = "bridge replaced"
		case probe && on.has(st.Probe) && !h.answered(ctx, name, st) && !hasReadAll(st.Ident, st.Probe):
			p.Digest = "silent"
		}
		if p.Digest == st.Digest {
			h.guard.watch(name, n, st.Ident)
		}
		s.Add(p)
	}
	return s, ctx.Err()
}

// lost lists the processes that were started from a network's run folder, which is missing.
func (h *Helpers) lost(ctx context.Context, base string) (netstate.State, error) {
	all, err := h.procs.Get(ctx)
	if err != nil {
		return nil, err
	}
	s := netstate.State{}
	for _, p := range all {
		own := func(arg string) bool { return strings.HasPrefix(arg, "--conf-file="+h.folder(base)+"/") }
		if slices.ContainsFunc(p.Argv, own) {
			s.Add(netstate.Process{Name: filepath.Join(base, filepath.Base(p.Argv[0])), Argv: p.Argv, Digest: "folder lost"})
		}
	}
	return s, nil
}

func (g Environment) has(p netstate.Probe) bool {
	host, _, err := net.SplitHostPort(p.Addr)
	return err == nil && g.Addresses[host]
}

func (h *Helpers) answered(ctx context.Context, name string, st state) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return h.await(ctx, name, st.Probe, st.Bridge, st.Ident) == nil
}

// tail returns the end of a process's output on one line.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	b = b[max(0, len(b)-lastWords):]
	return strings.Join(strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' }), "; ")
}
