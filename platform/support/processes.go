package support

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"edgespan/platform/proc"
)

// processes writes the daemon, its children, and the processes whose command line names its run folder: its helpers
// outlive it.
func (h Host) processes(_ context.Context, w io.Writer) error {
	if h.Daemon.Pid == 0 {
		if _, err := fmt.Fprintln(w, "the daemon does not run"); err != nil {
			return err
		}
	}
	all, err := proc.List()
	if err != nil {
		return err
	}
	for _, p := range all {
		status := statusOf(p.Pid)
		helper := h.names(p.Argv)
		child := h.Daemon.Pid != 0 && status["PPid"] == strconv.Itoa(h.Daemon.Pid)
		if p.Pid == os.Getpid() || p.Pid != h.Daemon.Pid && !helper && !child {
			continue
		}
		argv := p.Argv
		if child && !helper { // an executor: its words may be anything
			argv = append(argv[:1:1], fmt.Sprintf("(%d words)", len(argv)-1))
		}
		files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid)) // without a right to it: 0
		if _, err := fmt.Fprintf(w, "pid %d parent %s state %s threads %s resident %s swapped %s files %d: %s\n", p.Pid,
			status["PPid"], status["State"], status["Threads"], status["VmRSS"], status["VmSwap"], len(files),
			strings.Join(argv, " ")); err != nil {
			return err
		}
	}
	return nil
}

// statusOf reads proc(5) status. It has no entry for what it can't read.
func statusOf(pid int) map[string]string {
	out := map[string]string{}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.Join(strings.Fields(value), " ")
	}
	return out
}

// threads writes the daemon's threads, also those of a daemon that answers nothing.
func (h Host) threads(_ context.Context, w io.Writer) error {
	if h.Daemon.Pid == 0 {
		return errors.New("the daemon does not run")
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", h.Daemon.Pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		read := func(name string) string {
			text, err := os.ReadFile(filepath.Join(task, name))
			if err != nil {
				return "?"
			}
			return strings.TrimSpace(string(text))
		}
		state := "?"
		if stat := read("stat"); strings.Contains(stat, ") ") {
			state = stat[strings.LastIndex(stat, ") ")+2:][:1]
		}
		if _, err := fmt.Fprintf(w, "thread %s state %s wchan %s\n%s\n", filepath.Base(task), state, read("wchan"),
			read("stack")); err != nil {
			return err
		}
	}
	return nil
}
