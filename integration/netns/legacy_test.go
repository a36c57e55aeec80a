package netns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

// Where `iptables` is the legacy backend the same laws hold.
func TestTheLegacyBackendKeepsTheSameLaws(t *testing.T) {
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
	l := newLab(t)
	l.ns.Exec(t, "iptables", "-A", "FORWARD", "-s", "198.51.100.1", "-j", "DROP")
	l.ns.Exec(t, "iptables", "-t", "nat", "-S")
	l.ns.Exec(t, "iptables", "-t", "raw", "-S")
	before := picture(t, l.ns)
	l.must(ground, root())
	l.must(owner(1), l.network(1))
	for _, op := range netstate.Diff(netstate.State{}, l.network(1)) {
		if op.Kind == netstate.KindChain {
			if err := l.do(t.Context(), owner(1), op); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.equal(owner(1), l.network(1))
	l.ns.Exec(t, "iptables", "-D", "ES-FORWARD", "-i", "es1", "-j", "ES1-FWD")
	l.must(owner(1), l.network(1))
	l.must(owner(1), netstate.State{})
	l.must(ground, netstate.State{})
	if d := cmp.Diff(before, picture(t, l.ns)); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
}
