package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ident identifies one process: the kernel reuses a pid, but not a pid with its start time (clock ticks since boot,
// proc(5) stat field 22).
type Ident struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Start starts argv as a helper that outlives the daemon: in a new session, in the root folder, without input,
// confined by c. Its output goes to the file out, which is truncated first.
func (r *Runner) Start(argv []string, out string, c Confinement) (Ident, error) {
	return r.launch(argv, out, c, func(start func() error) error { return c.start(r.netns, start) })
}

// reap waits for an ended child, so that it does not remain a zombie. A wait(2) would hold a thread for each child,
// with 48 KiB of stacks that the runtime never returns, so reap only uses it where pidfds are not available.
func (id Ident) reap() {
	wait := func() {
		for {
			if _, err := unix.Wait4(id.Pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}
	if _, err := id.Watch(wait); err != nil {
		go wait()
	}
}

// Alive reports whether the process is running. A zombie is not.
func (id Ident) Alive() bool {
	st, err := readStat(id.Pid)
	return err == nil && id.Pid > 0 && st.start == id.Start && st.state != 'Z' && st.state != 'X'
}

// Cmdline returns the process's command line, or nil if the process has ended.
func (id Ident) Cmdline() []string {
	words := cmdline(id.Pid)
	if !id.Alive() {
		return nil
	}
	return words
}

func cmdline(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(b, []byte{0})), "\x00")
}

// Signal sends sig to this process. It does nothing if the process has ended.
func (id Ident) Signal(sig syscall.Signal) error {
	fd, err := id.open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// Stop sends SIGTERM, kills the process when grace is over or ctx ends, and returns when it has ended. A process that
// had already ended is no error.
func (id Ident) Stop(ctx context.Context, grace time.Duration) error {
	fd, err := id.open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	if deadline, ok := ctx.Deadline(); ok {
		grace = max(0, min(grace, time.Until(deadline)))
	}
	for _, step := range []struct {
		sig  syscall.Signal
		wait time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, 2 * time.Second}} {
		if err := unix.PidfdSendSignal(fd, step.sig, nil, 0); errors.Is(err, unix.ESRCH) {
			return nil
		} else if err != nil {
			return fmt.Errorf("signal process %d: %w", id.Pid, err)
		}
		if hasEnded(fd, step.wait) {
			return nil
		}
	}
	return fmt.Errorf("process %d outlives SIGKILL", id.Pid)
}

// Watch calls ended once, in a goroutine, when the process has ended; at once if it is gone. After stop, no new call
// begins. The goroutine waits in the runtime's poller and holds no thread, so a thousand processes can be watched,
// even those of an earlier daemon.
func (id Ident) Watch(ended func()) (stop func(), err error) {
	fd, err := id.open()
	if err != nil {
		return nil, err
	}
	if fd < 0 {
		go ended()
		return func() {}, nil
	}
	if err := unix.SetNonblock(fd, true); err != nil { // required by the poller
		unix.Close(fd)
		return nil, fmt.Errorf("watch process %d: %w", id.Pid, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch process %d: %w", id.Pid, err), f.Close())
	}
	go func() {
		err := conn.Read(func(fd uintptr) bool { return hasEnded(int(fd), 0) })
		_ = f.Close() // closing twice after stop is harmless
		if err == nil {
			ended()
		}
	}()
	return func() { _ = f.Close() }, nil
}

// open returns a pidfd of exactly this process, or -1 if it is gone. It compares the start time after the pidfd holds
// the process, so that the pid can't be reused in between.
func (id Ident) open() (int, error) {
	if id.Pid <= 0 {
		return -1, nil
	}
	fd, err := unix.PidfdOpen(id.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	} else if err != nil {
		return -1, fmt.Errorf("open process %d: %w", id.Pid, err)
	}
	if !id.Alive() {
		unix.Close(fd)
		return -1, nil
	}
	return fd, nil
}

// hasEnded waits until the process behind a pidfd has ended: the pidfd is then readable (pidfd_open(2)).
func hasEnded(fd int, wait time.Duration) bool {
	until := time.Now().Add(wait)
	for {
		left := max(0, time.Until(until))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) || left == 0 {
			return false
		}
	}
}

// Process is a running process and its command line.
type Process struct {
	Ident
	Argv []string
}

// List lists the running processes of the machine that have a command line.
func List() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		argv := cmdline(pid)
		if argv == nil {
			continue // a kernel thread, or ended
		}
		if st, err := readStat(pid); err == nil {
			found = append(found, Process{Ident{pid, st.start}, argv})
		}
	}
	return found, nil
}

type stat struct {
	state byte
	start uint64
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(b))
}

// parseStat parses proc(5) stat. The command in parentheses may contain spaces and parentheses, so fields are counted
// from the last parenthesis.
func parseStat(s string) (stat, error) {
	end := strings.LastIndexByte(s, ')')
	fields := strings.Fields(s[end+1:])
	if end < 0 || len(fields) < 20 {
		return stat{}, fmt.Errorf("unknown form of /proc stat")
	}
	start, err := strconv.ParseUint(fields[19], 10, 64) // field 22; state is field 3
	if err != nil {
		return stat{}, fmt.Errorf("start time in /proc stat: %w", err)
	}
	return stat{state: fields[0][0], start: start}, nil
}

// Self returns this process.
func Self() (Ident, error) {
	st, err := readStat(os.Getpid())
	return Ident{os.Getpid(), st.start}, err
}
