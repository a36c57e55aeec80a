package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxOutput = 64 << 20 // bytes of stdout: enough for a dump of many thousand rules
	maxWords  = 8 << 10  // bytes of stderr kept
	// waitDelay is how long a command's children may keep its pipes open after it has ended.
	waitDelay = 2 * time.Second
)

// Runner runs commands in one network namespace.
type Runner struct {
	netns string

	mu  sync.Mutex
	ran map[int]time.Time // when a command ended, by process ID; zero while it runs
}

// remembered is how long an ended command is known by its process ID: events that it caused may arrive a little later.
const remembered = 2 * time.Second

// Ran reports whether a process is, or was recently, a command of this Runner.
func (r *Runner) Ran(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended, known := r.ran[pid]
	return known && (ended.IsZero() || time.Since(ended) < remembered)
}

// In runs f in the Runner's network namespace.
func (r *Runner) In(f func() error) error { return In(r.netns, f) }

// note records that a command begins or has ended, and forgets those that ended long ago.
func (r *Runner) note(pid int, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ran == nil {
		r.ran = map[int]time.Time{}
	}
	maps.DeleteFunc(r.ran, func(_ int, at time.Time) bool { return !at.IsZero() && time.Since(at) > remembered })
	r.ran[pid] = ended
}

// New returns a Runner for the namespace at a path, "" for the process's own.
func New(netnsPath string) *Runner { return &Runner{netns: netnsPath} }

// Error is the failure of a command, with the end of its stderr.
type Error struct {
	Argv  []string
	Words string // the end of stderr, on one line
	Err   error
}

func (e *Error) Error() string {
	if e.Words == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + ": " + e.Words
}

// Command returns the command line as typed.
func (e *Error) Command() string { return strings.Join(e.Argv, " ") }

func (e *Error) Unwrap() error { return e.Err }

// Run runs argv (argv[0] is found through PATH) with stdin as its input and returns its stdout. When ctx ends, it
// kills the command's process group and the error wraps the context's. Errors are *Error.
//
// The command dies with this process: otherwise a restore that hangs while the daemon is killed could write its old
// rules under the next daemon.
func (r *Runner) Run(ctx context.Context, stdin string, argv ...string) (string, error) {
	out := &capped{max: maxOutput}
	err := r.run(ctx, strings.NewReader(stdin), out, argv)
	switch {
	case err != nil:
		return "", err
	case out.over:
		return "", &Error{Argv: argv, Err: fmt.Errorf("more than %d bytes of output", maxOutput)}
	}
	return out.String(), nil
}

// RunTo runs argv like Run, without input, and copies its stdout to out as it comes. When out returns an error, the
// command loses its stdout, and the error is returned.
func (r *Runner) RunTo(ctx context.Context, out io.Writer, argv ...string) error {
	return r.run(ctx, nil, out, argv)
}

func (r *Runner) run(ctx context.Context, stdin io.Reader, out io.Writer, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = waitDelay
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	words := &capped{max: maxWords, tail: true}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, out, words
	fail := func(err error) error {
		return &Error{Argv: argv, Words: oneLine(words.String()), Err: err}
	}
	// Pdeathsig refers to the thread that forks, not to the process (prctl(2)), and threads end (Confinement). The
	// goroutine is locked to its thread until the command has ended, so that no other goroutine can end it.
	started := false
	err := In(r.netns, func() error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			return err
		}
		started = true
		r.note(cmd.Process.Pid, time.Time{})
		defer func() { r.note(cmd.Process.Pid, time.Now()) }()
		return cmd.Wait()
	})
	switch {
	case !started:
		return fail(err)
	case ctx.Err() != nil && err != nil:
		return fail(fmt.Errorf("killed: %w", context.Cause(ctx)))
	case errors.Is(err, exec.ErrWaitDelay):
		// The command has ended but a child of its group holds its pipes.
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		return fail(err)
	case err != nil:
		return fail(err)
	}
	return nil
}

// capped keeps the first bytes that are written to it, or with tail the last ones. It discards the rest, so that the
// writer never blocks.
type capped struct {
	bytes.Buffer
	max  int
	tail bool
	over bool
}

func (c *capped) Write(p []byte) (int, error) {
	n := len(p)
	room := c.max - c.Len()
	switch {
	case n <= room:
		c.Buffer.Write(p)
	case c.tail:
		all := append(c.Bytes(), p...)
		rest := bytes.Clone(all[len(all)-c.max:])
		c.Reset()
		c.Buffer.Write(rest)
	default:
		c.over = true
		c.Buffer.Write(p[:max(room, 0)])
	}
	return n, nil
}

// oneLine joins the lines of a command's stderr for an error message.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// HasCommand reports whether a program is in PATH.
func HasCommand(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
