package netns_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

// sumRules has the matches and targets of edgespan's chains, some of which keep a state in the kernel.
const sumRules = `*filter
:ES7-A - [0:0]
:ES7-B - [0:0]
-A ES7-A -s 10.1.0.0/24 ! -i es7 -j DROP
-A ES7-A -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ES7-A -m conntrack ! --ctstate SNAT --ctstatus CONFIRMED --ctdir ORIGINAL -j DROP
-A ES7-A -m physdev --physdev-in es7a1 -g ES7-B
-A ES7-A -p icmp -m limit --limit 4/sec --limit-burst 8 -j ES7-B
-A ES7-A -p tcp -m tcp --dport 80:90 -m hashlimit --hashlimit-above 10/sec --hashlimit-burst 5 --hashlimit-name es7 -j DROP
-A ES7-A -p udp -m multiport --dports 53,67 -m mark --mark 0x10000/0xff0000 -j ES7-B
-A ES7-A -m connlimit --connlimit-above 5 --connlimit-mask 32 -j DROP
-A ES7-A -m comment --comment "a word" -j NFLOG --nflog-group 5
-A ES7-B -j MARK --set-xmark 0x1/0x1
-A ES7-B -j RETURN
-A OUTPUT -j ES7-A
COMMIT
`

// The digest of a rule depends on the rule alone: it is the same in another namespace, and after packets have met it.
func TestDigestsChangeOnlyWithTheRules(t *testing.T) {
	sums := func(ns *netns.NS, chains ...string) map[string][]string {
		t.Helper()
		c := openNft(t, ns)
		defer c.Close()
		s, err := c.Rules("filter", chains...)
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(s, func(chain string, _ []string) bool { return !strings.HasPrefix(chain, "ES7-") && chain != "OUTPUT" })
		return s
	}
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, []byte(sumRules), 0o600); err != nil {
		t.Fatal(err)
	}
	ns, other := netns.New(t), netns.New(t)
	for _, x := range []*netns.NS{ns, other} {
		x.Exec(t, "iptables-restore", "--noflush", file)
		x.Exec(t, "ip", "link", "set", "lo", "up")
	}
	before := sums(ns)
	if len(before["ES7-A"]) != 9 || len(before["ES7-B"]) != 2 || len(before["OUTPUT"]) != 1 {
		t.Fatalf("digests of %d, %d and %d rules", len(before["ES7-A"]), len(before["ES7-B"]), len(before["OUTPUT"]))
	}
	if d := cmp.Diff(before, sums(other)); d != "" {
		t.Errorf("in another namespace:\n%s", d)
	}
	if d := cmp.Diff(before, sums(ns, "ES7-A", "ES7-B", "OUTPUT", "ES7-NONE")); d != "" {
		t.Errorf("chain by chain:\n%s", d)
	}
	ns.Exec(t, "ping", "-c", "20", "-i", "0.002", "127.0.0.1")
	if d := cmp.Diff(before, sums(ns)); d != "" {
		t.Errorf("after packets:\n%s", d)
	}
	for i, line := range slices.DeleteFunc(strings.Split(sumRules, "\n"), func(l string) bool {
		return !strings.HasPrefix(l, "-A ES7-A")
	}) {
		to := strings.Fields(line)[strings.Count(line, " ")]
		want := ""
		if strings.HasPrefix(to, "ES7-") {
			want = strings.Fields(line)[strings.Count(line, " ")-1] + " " + to
		}
		if _, got, _ := strings.Cut(before["ES7-A"][i], " "); got != want {
			t.Errorf("%s leads to %q, want %q", line, got, want)
		}
	}
	if all := slices.Sorted(slices.Values(before["ES7-A"])); len(slices.Compact(all)) != 9 {
		t.Errorf("two rules have one digest: %v", before["ES7-A"])
	}
	ns.Exec(t, "iptables", "-R", "ES7-A", "1", "-s", "10.1.0.0/25", "!", "-i", "es7", "-j", "DROP")
	if after := sums(ns); after["ES7-A"][0] == before["ES7-A"][0] || !slices.Equal(after["ES7-A"][1:], before["ES7-A"][1:]) {
		t.Errorf("after a rule was replaced: %v, before: %v", after, before)
	}
}

// A network's chains are written, read back and looked at again after a foreign change without a listing by iptables;
// what differs is shown as iptables spells it.
func TestChainsAreComparedWithoutACommand(t *testing.T) {
	l := newLab(t)
	l.must(hostOwner, root())
	want := l.network(1)
	l.must(owner(1), want)
	l.ns.Exec(t, "iptables", "-N", "FOREIGN")
	ran := countCommands(t, l)
	if d := cmp.Diff(want.String(), l.observe(owner(1), true).String()); d != "" {
		t.Errorf("after a foreign change (-want +got):\n%s", d)
	}
	if n := ran(); n != 0 {
		t.Errorf("%d commands, want none", n)
	}
	l.ns.Exec(t, "iptables", "-R", "ES1-INP", "1", "-s", "192.0.2.77/32", "-j", "ACCEPT")
	in := l.observe(owner(1), true)[netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-INP"}]
	if in == nil || !strings.Contains(in.Text(), "-s 192.0.2.77/32 -j ACCEPT") {
		t.Errorf("observed %v, want the rule of others as text", in)
	}
	l.must(owner(1), want)
	l.open() // another process compares with what this one has stored
	ran = countCommands(t, l)
	if d := cmp.Diff(want.String(), l.observe(owner(1), true).String()); d != "" {
		t.Errorf("after a restart (-want +got):\n%s", d)
	}
	if n := ran(); n > 1 { // iptables -V
		t.Errorf("%d commands after a restart, want at most one", n)
	}
}

// What a former release stored as iptables spells it is recognised, and compared without a command from then on.
func TestChainsStoredAsTextAreRecognised(t *testing.T) {
	l := newLab(t)
	l.must(hostOwner, root())
	want := l.network(1)
	l.must(owner(1), want)
	l.close()
	file := filepath.Join(l.dir, "ni/1/chains.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var entries []map[string]any
	if err := json.Unmarshal(text, &entries); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e["family"] == "ipv4" {
			e["kernel"] = l.spelling(e["table"].(string), e["name"].(string))
		}
	}
	if text, err = json.Marshal(entries); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	l.open()
	if d := cmp.Diff(want.String(), l.observe(owner(1), true).String()); d != "" {
		t.Fatalf("chains of a former release (-want +got):\n%s", d)
	}
	l.ns.Exec(t, "iptables", "-N", "FOREIGN")
	ran := countCommands(t, l)
	if d := cmp.Diff(want.String(), l.observe(owner(1), true).String()); d != "" {
		t.Errorf("looked at again (-want +got):\n%s", d)
	}
	if n := ran(); n != 0 {
		t.Errorf("%d commands, want none", n)
	}
}

// spelling is the form in which former releases stored a chain: its rules, and those that lead to it.
func (l *lab) spelling(table, chain string) string {
	var own, into []string
	for line := range strings.Lines(l.ns.Exec(l.t, "iptables", "-t", table, "-S")) {
		of, rule, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "-A "), " ")
		switch {
		case !strings.HasPrefix(line, "-A "):
		case of == chain:
			own = append(own, rule)
		case strings.HasSuffix(rule, "-j "+chain) && strings.HasPrefix(of, "ES-"):
			into = append(into, of+"> "+rule)
		}
	}
	return strings.Join(append(own, into...), "\n")
}
