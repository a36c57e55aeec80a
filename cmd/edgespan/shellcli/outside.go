package shellcli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"edgespan/actors/shell"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/platform/support"
)

// unreachable prints what can be known from outside of a daemon that does not answer, and returns the error.
func unreachable(a *reach.App, err error, stack bool) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return term.WithClass(term.ExitPermission, fmt.Errorf("%w: must be root or a member of the group edgespan", err))
	case !errors.Is(err, shell.ErrUnreachable):
		return err
	}
	d, known := support.ReadDaemon(a.SocketPath(), a.RunFolder(), filepath.Dir(a.SocketPath()))
	pid := d.Process.Pid
	switch {
	case errors.Is(known, fs.ErrNotExist):
		a.Printf("daemon: none has run with the socket %s: --run-dir or --socket names another", a.SocketPath())
	case known != nil:
		a.Printf("daemon: what it was started with can't be read: %v", known)
	case pid == 0:
		a.Printf("daemon: not running; version %s was started %s", d.Version, d.Started.Format("2006-01-02 15:04:05Z"))
	default:
		a.Printf("daemon: process %d, version %s, started %s: %s", pid, d.Version, d.Started.Format("2006-01-02 15:04:05Z"),
			stateOf(pid))
	}
	if known == nil {
		a.Printf("journal: %s", lastWritten(d.StateDir, time.Now()))
	}
	a.Printf("data plane: %s", standing())
	if pid > 0 && lacksShell(a) {
		a.Printf("next: this daemon has no debug shell, and is left alone: its release is older, or its log (%s) says why; "+
			"'edgespan get' shows its state", logOf(d))
		return term.WithClass(term.ExitUnreachable, err) // it may be well: --stack would end it
	}
	a.Printf("next: %s", advice(pid))
	if stack && pid > 0 {
		if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
			return fmt.Errorf("ask process %d for its stack: %w", pid, err)
		}
		a.Printf("process %d ends and writes what its goroutines do to its log: %s", pid, logOf(d))
	}
	return term.WithClass(term.ExitUnreachable, err)
}

// lacksShell reports whether the daemon has made no socket for shells: a frozen one has.
func lacksShell(a *reach.App) bool {
	_, err := os.Lstat(reach.ShellSocket(a.SocketPath()))
	return errors.Is(err, fs.ErrNotExist)
}

func advice(pid int) string {
	if pid > 0 {
		return "'edgespan support' collects what there is; 'edgespan shell --stack' ends the daemon with its stack in the log"
	}
	return "'systemctl start edgespan'; 'journalctl -u edgespan' says why it ended"
}

func logOf(d support.Daemon) string {
	if d.Log != "" {
		return d.Log
	}
	return "journalctl -u edgespan"
}

// states are the words for the states of proc(5).
var states = map[string]string{
	"R": "running", "S": "sleeping", "D": "waiting for a disk or device", "T": "stopped by a signal",
	"t": "stopped by a debugger", "Z": "dead, not reaped",
}

// stateOf returns what a process does, as the kernel says.
func stateOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "gone"
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if word, ok := states[rest[:min(1, len(rest))]]; ok {
		return word
	}
	return "state unknown"
}

// lastWritten says when a state folder was last changed: a daemon that works writes to it now and then.
func lastWritten(folder string, now time.Time) string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "unknown: " + err.Error()
	}
	var last time.Time
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	if last.IsZero() {
		return folder + " has no files"
	}
	return fmt.Sprintf("%s, last written %v ago", folder, max(0, now.Sub(last)).Round(time.Second))
}

// bridgeNames are the links of networks.
var bridgeNames = regexp.MustCompile(`^es[0-9]+$`)

// standing counts the networks whose bridges are there, in this network namespace.
func standing() string {
	all, err := net.Interfaces()
	if err != nil {
		return "unknown: " + err.Error()
	}
	there, up := 0, 0
	for _, l := range all {
		if !bridgeNames.MatchString(l.Name) {
			continue
		}
		there++
		if l.Flags&net.FlagUp != 0 {
			up++
		}
	}
	servers, _ := filepath.Glob("/proc/[0-9]*/comm")
	dns := 0
	for _, path := range servers {
		if name, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(name)) == "dnsmasq" {
			dns++
		}
	}
	return fmt.Sprintf("%s of networks, %d of them up; %s: the kernel forwards without the daemon",
		term.Many(there, "bridge"), up, term.Many(dns, "DNS server"))
}
