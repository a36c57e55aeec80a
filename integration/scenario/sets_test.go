package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// withSets is network 1 with named sets.
func withSets(sets string) []string {
	return []string{network(1, "    sets: {"+sets+"}\n"), network(2, "")}
}

// many spells n prefixes of no host of the lab.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "100.%d.%d.0/24: '', ", 64+i>>8, i&255)
	}
	return b.String()
}

func TestARuleMatchesASetOfThousandsThatChangesWhileItIsUsed(t *testing.T) {
	t.Parallel()
	const first, second = "198.51.100.81", "198.51.100.82"
	w, _ := town(t)
	for _, a := range []string{first, second} {
		w.in("isp", "ip", "addr", "add", a+"/32", "dev", "lo")
	}
	apps := []string{onNet(1, 1, "web", acl("allow egress set: good")),
		onNet(2, 1, "client", acl("drop both set: bad", "allow both")), onNet(3, 2, "guest", "")}
	const bad = "bad: {" + second + "/31: of others}"
	w.obey(withSets("good: {"+first+": a server}, "+bad), apps...)
	reach := func(why, yes, no string) {
		w.Helper()
		w.reaches(why, "web", "tcp4", "", yes+":7")
		w.missesAll(why, "web", no+":7", world7)
		w.reaches(why, "client", "tcp4", "", first+":7")
		w.missesAll(why, "client", second+":7")
	}
	reach("at first", first, second)
	old, err := w.dial("web", "tcp4", "", first+":7", timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	of, err := w.dial("client", "tcp4", "", first+":7", timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	bads := w.in("node", "ipset", "list", "-n")

	began := time.Now()
	w.obey(withSets("good: {"+many(5000)+second+": another server}, "+bad), apps...)
	t.Logf("a set of 5,001 prefixes applied in %v", time.Since(began).Round(time.Millisecond))
	reach("with another set", second, first)
	if say(old, denial) == nil {
		t.Error("a flow that the changed set no longer has goes on")
	}
	if err := say(of, timeout); err != nil {
		t.Errorf("a flow of another app ends with its set: %v", err)
	}
	now := w.in("node", "ipset", "list", "-n")
	same := 0
	for _, name := range strings.Fields(bads) {
		if strings.Contains(now, name) {
			same++
		}
	}
	if len(strings.Fields(now)) != 2 || same != 1 {
		t.Errorf("the sets were %q and are %q", bads, now)
	}

	// What others do to a set while no daemon runs is repaired, and nothing else changes.
	pids := w.dnsmasq()
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(now) {
		w.in("node", "ipset", "flush", name)
		w.in("node", "ipset", "add", name, first)
	}
	w.reaches("a set that others changed", "web", "tcp4", "", first+":7")
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.eventually("the sets are repaired", func() bool {
		return !strings.Contains(w.in("node", "ipset", "list"), first+"\n")
	})
	reach("after a restart", second, first)
	if again := w.in("node", "ipset", "list", "-n"); again != now || w.dnsmasq() != pids {
		t.Errorf("a restart replaced sets %q by %q, or a dnsmasq", now, again)
	}

	w.obey([]string{network(1, ""), network(2, "")}, onNet(1, 1, "web", ""), onNet(2, 1, "client", ""),
		onNet(3, 2, "guest", ""))
	if left := w.in("node", "ipset", "list", "-n"); left != "" {
		t.Errorf("sets are left: %q", left)
	}
}
