package netns_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

// If `iptables` is the legacy backend, the same laws hold.
func TestTheLegacyBackendKeepsTheSameLaws(t *testing.T) {
	legacyTools(t)
	l := newLab(t)
	l.ns.Exec(t, "iptables", "-A", "FORWARD", "-s", "198.51.100.1", "-j", "DROP")
	l.ns.Exec(t, "iptables", "-t", "nat", "-S")
	l.ns.Exec(t, "iptables", "-t", "raw", "-S")
	before := picture(t, l.ns)
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	for _, op := range netstate.Diff(netstate.State{}, l.network(1)) {
		if op.Kind == netstate.KindChain {
			if err := l.do(t.Context(), owner(1), op); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.equal(owner(1), l.network(1))
	l.ns.Exec(t, "iptables", "-D", "ES-NETS-FROM-1", "-i", "es1", "-j", "ES1-FWD")
	l.must(owner(1), l.network(1))
	l.must(owner(1), netstate.State{})
	l.must(hostOwner, netstate.State{})
	if d := cmp.Diff(before, picture(t, l.ns)); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
}

// The legacy tables have no events: a check each second finds changes by other programs, and does not mistake
// edgespan's own changes for them.
func TestWhatOthersDoToLegacyTablesIsSeenSoon(t *testing.T) {
	legacyTools(t)
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan netstate.HostEvent, 100)
	done := make(chan error, 1)
	go func() { done <- l.host.Watch(ctx, func(ev netstate.HostEvent) { heard <- ev }) }()
	defer func() { cancel(); <-done }()
	flushed := func(within time.Duration) bool {
		end := time.After(within)
		for {
			select {
			case ev := <-heard:
				if ev.Filter {
					return true
				}
			case <-end:
				return false
			}
		}
	}
	flushed(1500 * time.Millisecond) // a first check
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	if flushed(2500 * time.Millisecond) {
		t.Error("our own chains are told as a change by others")
	}
	l.ns.Exec(t, "iptables", "-I", "ES1-EGR", "1", "-s", "192.0.2.1", "-j", "DROP")
	if !flushed(2 * time.Second) {
		t.Error("a rule that was added was not heard of")
	}
	l.ns.Exec(t, "ping", "-c1", "127.0.0.1")
	if flushed(2500 * time.Millisecond) {
		t.Error("counters are told as a change by others")
	}
	for _, cmd := range []string{"iptables -R ES1-EGR 1 -s 192.0.2.2 -j DROP", "iptables -F FORWARD", "iptables -t nat -F",
		"iptables -F ES1-FWD"} {
		l.ns.Exec(t, strings.Fields(cmd)...)
		if !flushed(2 * time.Second) {
			t.Errorf("%s was not heard of", cmd)
		}
	}
}

// legacyTools makes the legacy backend the default iptables.
func legacyTools(t *testing.T) {
	t.Helper()
	multi, err := exec.LookPath("xtables-legacy-multi")
	if err != nil {
		t.Skip("needs xtables-legacy-multi: the legacy backend is not installed")
	}
	dir := t.TempDir()
	for _, tool := range []string{"iptables", "iptables-save", "iptables-restore"} {
		if err := os.Symlink(multi, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}
