package scenario

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two commands make an encrypted cluster, and no key is typed: the nodes make them, and tell each other by the
// controller. On the segment between them there is WireGuard and nothing of the cluster. A daemon that is killed loses
// no packet, and a node that has lost its key makes another one, which the others learn.
func TestAnEncryptedClusterTakesTwoCommands(t *testing.T) {
	t.Parallel()
	f := newField(t, 3)
	before := f.pictures()
	f.apply(f.describePeers() + "---\n" + f.describeEncrypted())
	f.ok("clusters", "deploy", "yard")
	f.untilReady()
	f.connected()
	f.carries(1370)
	if said := f.ok("clusters", "describe", "yard"); !strings.Contains(said, "yard: deployed, green, ready") {
		t.Errorf("describe says %s", said)
	}
	for _, p := range f.peers {
		if said := p.cli("get", "tunnel"); !strings.Contains(said, "wireguard") {
			t.Errorf("%s: get tunnel: %s", p.name, said)
		}
	}
	f.onlyWireGuard(t)

	pings := f.pingAll()
	for _, l := range pings {
		if err := l.WaitGood(f.w.ctx, 20); err != nil {
			t.Fatal(err)
		}
	}
	p := f.peers[1]
	if err := p.node.Kill(); err != nil {
		t.Fatal(err)
	}
	p.restart()
	f.is(p.name, "InSync", ready)
	f.unharmed("a killed daemon", pings)

	key := filepath.Join(p.StateDir(), "wireguard", "clusters")
	was, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.node.Kill(), os.Remove(key)); err != nil {
		t.Fatal(err)
	}
	p.restart()
	f.reconnected()
	if now, err := os.ReadFile(key); err != nil || string(now) == string(was) {
		t.Errorf("the key is as it was: %v", err)
	}
	f.undeploy(before)
}

// With staged rollouts, a change of all nodes begins with one. Its connection checks go through WireGuard and fail until
// the others have their part: it must not wait for them while they wait for it.
func TestAnEncryptedClusterIsDeployedInStages(t *testing.T) {
	t.Parallel()
	f := newField(t, 2)
	before := f.pictures()
	f.ok("controller", "modify", "flags.config_staged_rollout_enabled=true", "-m", "changes go in stages")
	f.apply(f.describePeers() + "---\n" + f.describeEncrypted())
	for range 2 {
		f.ok("clusters", "deploy", "yard")
		f.untilReady()
		f.connected()
		if said := f.ok("rollout", "list"); !strings.Contains(said, "2      2      0") {
			t.Errorf("not both nodes have answered:\n%s", said)
		}
		f.undeploy(before)
	}
}

// onlyWireGuard checks that the segment carries no IP packet between nodes but WireGuard's.
func (f *field) onlyWireGuard(t *testing.T) {
	t.Helper()
	rules := []string{"-p udp --dport 21821:23820 -j ACCEPT", "-p icmp -j ACCEPT", "-j ACCEPT"}
	for _, p := range f.peers {
		for _, rule := range rules {
			p.in("node", strings.Fields("iptables -A OUTPUT -o under0 "+rule)...)
		}
	}
	if bad := f.cross(5e9); len(bad) > 0 {
		t.Fatalf("%v can't reach each other", bad)
	}
	for _, p := range f.peers {
		var counted []string
		for line := range strings.Lines(p.in("node", "iptables", "-nvxL", "OUTPUT")) {
			if words := strings.Fields(line); strings.Contains(line, "under0") {
				counted = append(counted, words[0])
			}
		}
		if len(counted) != 3 || counted[0] == "0" || counted[2] != "0" {
			t.Errorf("%s sent to the segment: %v packets of WireGuard, of ICMP and others", p.name, counted)
		}
		for _, rule := range rules {
			p.in("node", strings.Fields("iptables -D OUTPUT -o under0 "+rule)...)
		}
	}
}

// A node's key is replaced by itself, under traffic: the next one is announced, the others learn it, and follow the node
// when it uses it. No command is typed, and the controller need not be quick.
func TestTheKeyOfAnEncryptedClusterIsReplaced(t *testing.T) {
	t.Parallel()
	f := newField(t, 2)
	f.apply(f.describePeers() + "---\n" + f.describeEncrypted())
	f.ok("clusters", "deploy", "yard")
	f.untilReady()
	f.connected()
	p, other := f.peers[0], f.peers[1]
	if err := p.node.Kill(); err != nil {
		t.Fatal(err)
	}
	p.restart("EDGESPAN_CLUSTER_KEY_LIFE=10m")
	f.is(p.name, "InSync", ready)

	key := filepath.Join(p.StateDir(), "wireguard", "clusters")
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
	age := func(path string, by time.Duration) {
		at := time.Now().Add(-by)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	knows := func() (text string) { // what the other node's tunnel is recorded to have
		found, err := filepath.Glob(filepath.Join(other.RunDir(), "ni", "*", "vpn", "wireguard.json"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		return read(found[0])
	}
	was := read(key)
	age(key, 9*time.Minute+20*time.Second) // due, and not overdue, which is spread over time
	f.w.eventually("the other node knows the next key", func() bool { return strings.Contains(knows(), `"succeeds"`) })
	if read(key) != was {
		t.Error("the key is replaced before the others know the next one")
	}
	next := read(key + ".next")

	pings := f.pingAll()
	for _, l := range pings {
		if err := l.WaitGood(f.w.ctx, 20); err != nil {
			t.Fatal(err)
		}
	}
	age(key+".next", 2*time.Minute)
	f.w.eventually("the next key is in the place of the old one", func() bool { return read(key) == next })
	if next == was || next == "" {
		t.Errorf("the next key is %d octets", len(next))
	}
	f.w.eventually("the other node has forgotten the old key", func() bool { return !strings.Contains(knows(), `"succeeds"`) })
	for pair, l := range pings {
		if err := l.WaitGood(f.w.ctx, 20); err != nil {
			t.Fatal(err)
		}
		c := l.Stop()
		t.Logf("pings %s: %s", pair, c)
		if c.Lost+c.Wrong > 100 { // of 100 a second
			t.Errorf("pings %s: %s: more than a second is lost", pair, c)
		}
	}
	if said := p.cli("events", "--kind", "security"); !strings.Contains(said, "key for encrypted clusters: ") ||
		strings.Contains(said, strings.TrimSpace(next)) {
		t.Errorf("the events say %s", said)
	}
	f.is(p.name, "InSync", ready)
	f.connected()
}

// A node whose members do not know its new key, while the controller is away, has its former key back some minutes later
// by itself, and keeps it once the controller is there. It is what a node behind a cluster needs that a member has cut
// off.
func TestAKeyThatNoMemberKnowsIsUndone(t *testing.T) {
	t.Parallel()
	f := newField(t, 2)
	f.apply(f.describePeers() + "---\n" + f.describeEncrypted())
	f.ok("clusters", "deploy", "yard")
	f.untilReady()
	f.connected()
	p := f.peers[0]
	key := filepath.Join(p.StateDir(), "wireguard", "clusters")
	was, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	f.kill()
	if err := p.node.Kill(); err != nil {
		t.Fatal(err)
	}
	unknown := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0x40}, 32)) + "\n"
	if err := errors.Join(os.Rename(key, key+".former"), os.WriteFile(key, []byte(unknown), 0o600)); err != nil {
		t.Fatal(err)
	}
	p.restart("EDGESPAN_CLUSTER_KEY_LIFE=10m")
	holds := func(path, want string) bool {
		text, err := os.ReadFile(path)
		return err == nil && string(text) == want || os.IsNotExist(err) && want == ""
	}
	f.w.eventuallyIn(30*time.Second, "no member answers", func() bool { return len(f.cross(time.Second)) > 0 })
	if !holds(key, unknown) {
		t.Error("the new key is not tried at all")
	}
	f.w.eventuallyIn(150*time.Second, "the former key is tried", func() bool {
		return holds(key, string(was)) && holds(key+".tried", unknown)
	})
	f.w.eventually("the members answer", func() bool { return len(f.cross(time.Second)) == 0 })
	f.begin()
	f.w.eventuallyIn(time.Minute, "the former key stays", func() bool {
		return holds(key, string(was)) && holds(key+".tried", "") && holds(key+".former", "")
	})
	f.is(p.name, "InSync", ready)
}
