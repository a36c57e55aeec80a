package netns_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"edgespan/netinst/netstate"
)

// A dnsmasq whose answers are lost on the way, for example because the machine can track no more flows, is not
// replaced, since another one could not be reached either; one can be started then. A dnsmasq that hangs is replaced.
func TestADnsmasqThatIsNotHeardIsNotReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	want := l.network(1)
	l.must(owner(1), want)
	id := netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"}
	var st struct {
		Pid int `json:"pid"`
	}
	pid := func() int {
		b, err := os.ReadFile(filepath.Join(l.dir, "ni/1/dnsmasq/process.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &st); err != nil || st.Pid == 0 {
			t.Fatalf("%s: %v", b, err)
		}
		return st.Pid
	}
	same := func() bool { return l.observe(owner(1), true)[id].Text() == want[id].Text() }
	first := pid()
	lost := []string{"iptables", "-t", "raw", "-A", "OUTPUT", "-o", "lo", "-p", "udp", "-j", "DROP"}
	l.ns.Exec(t, lost...)
	if !same() {
		t.Errorf("a dnsmasq that reads what reaches it is seen as %s", l.observe(owner(1), true)[id].Text())
	}
	// It has died, and another one is started meanwhile.
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of dnsmasq", func() bool { return syscall.Kill(first, 0) != nil })
	if fs := l.apply(t.Context(), owner(1), want); len(fs) > 0 {
		t.Errorf("start while nothing is heard: %+v", fs)
	}
	second := pid()
	if second == first || !same() {
		t.Errorf("dnsmasq %d after %d", second, first)
	}
	lost[3] = "-D"
	l.ns.Exec(t, lost...)
	if err := syscall.Kill(second, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if same() {
		t.Error("a dnsmasq that hangs is seen as it should be")
	}
}
