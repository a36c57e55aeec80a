package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec is a process that outlives the daemon and is not one of its helpers. It gets this environment only.
type Spec struct {
	Argv []string
	Env  []string // KEY=value
	Dir  string
	Out  string // file to which its output is appended
	// Ended is called in a goroutine with the exit code, or 128 plus the signal, if the process ends while the daemon
	// runs.
	Ended func(code int)
}

// StartAs starts a process in a new session, without input.
func (r *Runner) StartAs(s Spec) (Ident, error) {
	file, err := os.OpenFile(s.Out, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return Ident{}, fmt.Errorf("open output: %w", err)
	}
	defer file.Close()
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...) //nolint:noctx // it outlives the daemon and every context
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir, cmd.Env = s.Dir, s.Env
	cmd.Stdout, cmd.Stderr = file, file
	if err := In(r.netns, cmd.Start); err != nil {
		return Ident{}, &Error{Argv: s.Argv, Err: err}
	}
	st, err := readStat(cmd.Process.Pid) // an ended child keeps its pid until it is waited for
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return Ident{}, fmt.Errorf("identify %s: %w", s.Argv[0], err)
	}
	id := Ident{Pid: cmd.Process.Pid, Start: st.start}
	_ = cmd.Process.Release()
	wait := func() {
		var status unix.WaitStatus
		for {
			if _, err := unix.Wait4(id.Pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		code := status.ExitStatus()
		if status.Signaled() {
			code = 128 + int(status.Signal())
		}
		s.Ended(code)
	}
	if _, err := id.Watch(wait); err != nil { // like reap
		go wait()
	}
	return id, nil
}

// Own reports whether the process runs as the current user.
func (id Ident) Own() bool {
	var s unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d", id.Pid), &s)
	return err == nil && int(s.Uid) == os.Geteuid() && id.Alive()
}

// Marked lists the running processes whose environment at their start contained word, KEY=value, whatever their
// parents are now.
func Marked(word string) ([]Ident, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Ident
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		st, err := readStat(pid) // read before: another process may take the pid in between
		if err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(w []byte) bool { return string(w) == word }) {
			continue
		}
		if id := (Ident{Pid: pid, Start: st.start}); id.Alive() {
			found = append(found, id)
		}
	}
	return found, nil
}
