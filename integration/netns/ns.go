// Package netns holds the laws of platform as tests on a real kernel, each in its own network namespaces, and the
// helpers that create such namespaces.
//
// It never touches the machine's own network namespace, and it ends only processes inside its own namespaces.
package netns

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/platform/proc"
)

// NS is one network namespace that lasts as long as its test.
type NS struct {
	Name string
	Path string // /run/netns/<name>
}

var counter atomic.Int64

// New creates a namespace in which bridges are not filtered unless they request it. It skips the test without root.
func New(t testing.TB) *NS {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	name := fmt.Sprintf("est%d-%d", os.Getpid(), counter.Add(1))
	return Named(t, name)
}

// Named creates a namespace with a given name, for one that reappears after it was deleted.
func Named(t testing.TB, name string) *NS {
	t.Helper()
	run(t, "ip", "netns", "add", name)
	n := &NS{Name: name, Path: "/run/netns/" + name}
	t.Cleanup(func() { n.Delete(t) })
	n.Do(t, func() error {
		keys, err := filepath.Glob("/proc/sys/net/bridge/bridge-nf-call-*")
		for _, k := range keys {
			if err == nil {
				err = os.WriteFile(k, []byte("0"), 0o644)
			}
		}
		return err
	})
	n.Exec(t, "ip", "link", "set", "lo", "up")
	return n
}

// Delete kills the processes in the namespace and removes it; a second call does nothing.
func (n *NS) Delete(t testing.TB) {
	if _, err := os.Stat(n.Path); err != nil {
		return
	}
	pids, err := exec.Command("ip", "netns", "pids", n.Name).Output()
	if err != nil {
		t.Errorf("list processes of %s: %v", n.Name, err)
	}
	for _, pid := range strings.Fields(string(pids)) {
		if pid == strconv.Itoa(os.Getpid()) {
			continue
		}
		if out, err := exec.Command("kill", "-9", pid).CombinedOutput(); err != nil {
			t.Logf("kill %s: %s", pid, out) // it may have ended by itself
		}
	}
	run(t, "ip", "netns", "del", n.Name)
}

// Do runs f on a thread inside the namespace.
func (n *NS) Do(t testing.TB, f func() error) {
	t.Helper()
	if err := proc.In(n.Path, f); err != nil {
		t.Fatalf("in namespace %s: %v", n.Name, err)
	}
}

// Exec runs a command inside the namespace and returns its output.
func (n *NS) Exec(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := n.Try(argv...)
	if err != nil {
		t.Fatalf("in namespace %s: %s: %v: %s", n.Name, strings.Join(argv, " "), err, out)
	}
	return out
}

// Try is Exec for a command that may fail. A thread enters the namespace, since a program for it would be one more
// start for each command.
func (n *NS) Try(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := proc.In(n.Path, cmd.Start); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

// commandTimeout limits one command, so that the error names a command that hangs.
const commandTimeout = time.Minute

func run(t testing.TB, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout) // the test's context ends before its cleanup
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}
