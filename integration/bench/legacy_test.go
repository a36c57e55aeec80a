package bench

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var legacy = flag.Bool("legacy", false, "have the daemon and the policy by hand use iptables-legacy")

// backendEnv is the environment of a daemon that finds the chosen iptables.
func (s *site) backendEnv() []string {
	s.Helper()
	if !*legacy {
		return nil
	}
	multi, err := exec.LookPath("xtables-legacy-multi")
	s.check(err)
	dir := filepath.Join(s.dir, "legacy")
	s.check(os.Mkdir(dir, 0o755))
	for _, name := range []string{
		"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore",
	} {
		s.check(os.Symlink(multi, filepath.Join(dir, name)))
	}
	return []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
}

// restoreCommand is what a person feeds chains to.
func restoreCommand() string {
	if *legacy {
		return "iptables-legacy-restore"
	}
	return "iptables-restore"
}

// crossedLegacy counts the rules of the legacy tables that one packet of a stream crosses. They have no trace: the
// counters of many packets, which all go the same way, show which rules match.
func (s *site) crossedLegacy(st *stream) int {
	s.Helper()
	const packets = 1000
	before := s.legacyTables()
	for range packets {
		s.check(st.one())
	}
	after := s.legacyTables()
	crossed := 0
	for name, table := range after {
		crossed += table.crossed(before[name], packets)
	}
	return crossed
}

// legacyTable is one table of iptables-legacy: its rules by chain, and the policy of each chain of a hook as the last
// rule, whose target is "policy".
type legacyTable map[string][]legacyRule

type legacyRule struct {
	packets int
	target  string
	goes    bool // by goto
}

func (s *site) legacyTables() map[string]legacyTable {
	s.Helper()
	tables, err := parseLegacy(s.ns.Exec(s.B, "iptables-legacy-save", "-c"))
	s.check(err)
	return tables
}

// parseLegacy reads what iptables-save -c prints.
func parseLegacy(text string) (map[string]legacyTable, error) {
	tables, policies := map[string]legacyTable{}, map[string]legacyRule{}
	var table legacyTable
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case line[0] == '*':
			table = legacyTable{}
			tables[fields[0]], policies = table, map[string]legacyRule{}
		case line[0] == ':' && len(fields) == 3 && fields[1] != "-":
			n, err := countOf(fields[2])
			if err != nil {
				return nil, err
			}
			policies[fields[0][1:]] = legacyRule{packets: n, target: "policy"}
		case line[0] == '[' && len(fields) > 2:
			n, err := countOf(fields[0])
			if err != nil {
				return nil, err
			}
			r := legacyRule{packets: n}
			if i := slices.IndexFunc(fields, func(f string) bool { return f == "-j" || f == "-g" }); i > 0 {
				r.target, r.goes = fields[i+1], fields[i] == "-g"
			}
			table[fields[2]] = append(table[fields[2]], r)
		case fields[0] == "COMMIT":
			for chain, p := range policies {
				table[chain] = append(table[chain], p)
			}
		}
	}
	return tables, nil
}

// countOf reads the packets of "[packets:bytes]".
func countOf(text string) (int, error) {
	packets, _, ok := strings.Cut(strings.TrimPrefix(text, "["), ":")
	n, err := strconv.Atoi(packets)
	if !ok || err != nil {
		return 0, fmt.Errorf("read counters %q: must be [packets:bytes]", text)
	}
	return n, nil
}

// crossed counts what each of so many packets crosses, in all chains of hooks that they come to.
func (t legacyTable) crossed(before legacyTable, packets int) int {
	sum := 0
	for chain, rules := range t {
		hook := rules[len(rules)-1].target == "policy"
		for i := range rules {
			if hook && t.matched(before, chain, i, packets) {
				n, _ := t.walk(before, chain, packets)
				sum += n
				break
			}
		}
	}
	return sum
}

// walk counts the rules of a chain that packets cross, with those of the chains that it calls, and reports whether they
// come back.
func (t legacyTable) walk(before legacyTable, chain string, packets int) (n int, back bool) {
	for i, r := range t[chain] {
		if r.target == "policy" {
			return n, false
		}
		n++
		if !t.matched(before, chain, i, packets) {
			continue
		}
		_, called := t[r.target]
		switch {
		case r.target == "RETURN":
			return n, true
		case called:
			inner, returned := t.walk(before, r.target, packets)
			n += inner
			if !returned || r.goes {
				return n, returned
			}
		case slices.Contains([]string{"ACCEPT", "DROP", "REJECT", "MASQUERADE", "DNAT", "SNAT"}, r.target):
			return n, false
		}
	}
	return n, true
}

// matched reports whether most of the packets matched a rule since before.
func (t legacyTable) matched(before legacyTable, chain string, i, packets int) bool {
	old := 0
	if rules := before[chain]; i < len(rules) {
		old = rules[i].packets
	}
	return t[chain][i].packets-old > packets/2
}

func TestCrossedLegacyRulesAreThoseThatPacketsReach(t *testing.T) {
	const empty, text = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OURS - [0:0]
:LATER - [0:0]
COMMIT
`, `# comment
*filter
:INPUT ACCEPT [3:100]
:FORWARD DROP [0:0]
:OURS - [0:0]
:LATER - [0:0]
[0:0] -A INPUT -i lo -j ACCEPT
[2:99] -A FORWARD -i other -j ACCEPT
[1000:99] -A FORWARD -j OURS
[1000:99] -A FORWARD -j MARK --set-xmark 0x1/0x1
[1000:99] -A FORWARD -i a -j ACCEPT
[0:0] -A FORWARD -i b -j ACCEPT
[0:0] -A OURS -i c -j DROP
[1000:99] -A OURS -i d -g LATER
[0:0] -A OURS -j DROP
[0:0] -A LATER -s 192.0.2.1/32 -j DROP
[1000:99] -A LATER -j RETURN
[0:0] -A LATER -j DROP
COMMIT
`
	before, err := parseLegacy(empty)
	if err != nil {
		t.Fatal(err)
	}
	after, err := parseLegacy(text)
	if err != nil {
		t.Fatal(err)
	}
	// other, OURS (c, d, LATER (192.0.2.1, RETURN)), MARK, a
	if n := after["*filter"].crossed(before["*filter"], 1000); n != 8 {
		t.Errorf("%d rules crossed, want 8", n)
	}
	if _, err := parseLegacy("*filter\n[x:1] -A A -j B\nCOMMIT\n"); err == nil {
		t.Error("counters that are no number are read")
	}
}
