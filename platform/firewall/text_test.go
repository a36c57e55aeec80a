package firewall

import (
	"strings"
	"testing"
	"unsafe"

	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

func TestParseReadsBothForms(t *testing.T) {
	listed := "-P FORWARD ACCEPT\n-N ES-FORWARD\n-N ES1-FWD\n-A FORWARD -j ES-FORWARD\n-A ES-FORWARD -i es1 -j ES1-FWD\n"
	saved := "# by iptables\n*filter\n:FORWARD ACCEPT [5:6]\n:ES-FORWARD - [0:0]\n:ES1-FWD - [0:0]\n-A FORWARD -j " +
		"ES-FORWARD\n-A ES-FORWARD -i es1 -j ES1-FWD\nCOMMIT\n"
	want := table{"FORWARD": {"-j ES-FORWARD"}, "ES-FORWARD": {"-i es1 -j ES1-FWD"}, "ES1-FWD": nil}
	for _, in := range []string{listed, saved} {
		if d := cmp.Diff(want, parse(in)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

func TestTargetIsTheChainAtTheEnd(t *testing.T) {
	for rule, want := range map[string]string{
		"-j ES1-FWD": "ES1-FWD", "-i es1 -g ES1-FWD": "ES1-FWD", "": "", "-j": "",
		`-m comment --comment "x -j ES1-FWD" -j DROP`: "DROP", "-j DNAT --to-destination 10.0.0.1": "",
	} {
		if got := target(rule); got != want {
			t.Errorf("%q: %q, want %q", rule, got, want)
		}
	}
}

func TestOwner(t *testing.T) {
	for name, want := range map[string]int{
		"ES-FORWARD": 0, "ES1-FWD": 1, "ES999-X": 999, "ES1000-X": -1, "ES01-X": -1,
		"ES0-X": -1, "ESX-FWD": -1, "ES1": -1, "FORWARD": -1, "": -1, "ES1A-X": -1,
	} {
		n, ok := owner(name)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%s: %d, want %d", name, n, want)
		}
	}
}

// A chain's text is kept as long as the chain; a part of the dump would keep all of it.
func TestTheTextOfAChainIsNoPartOfTheDump(t *testing.T) {
	for _, rules := range []string{"-A ES1-FWD -i es1 -j DROP\n", "-A ES1-FWD -i es1 -j DROP\n-A ES1-FWD -j ACCEPT\n"} {
		dump := ":ES1-FWD - [0:0]\n" + rules
		text := parse(dump).view().spelling(chain("ES1-FWD", nil), func(string, string) bool { return false })
		at, from := uintptr(unsafe.Pointer(unsafe.StringData(text))), uintptr(unsafe.Pointer(unsafe.StringData(dump)))
		if text == "" || at >= from && at < from+uintptr(len(dump)) {
			t.Errorf("%q lies in the dump", text)
		}
	}
}

func chain(name string, hooks []netstate.Hook, rules ...string) netstate.Chain {
	return netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: name, Rules: rules, Hooks: hooks}
}

func at(parent, match string) []netstate.Hook { return []netstate.Hook{{Parent: parent, Match: match}} }

func TestRestoreText(t *testing.T) {
	fwd := chain("ES1-FWD",
		[]netstate.Hook{{Parent: "ES-FORWARD", Match: "-i es1"}, {Parent: "ES-FORWARD", Match: "-o es1"}}, "-j DROP")
	base := chain("ES-BASE", []netstate.Hook{{Parent: "ES-FORWARD", Last: true}}, "-i es1 -j DROP", "-i es2 -j DROP")
	oldBase := read(chain("ES-BASE", base.Hooks, "-i es1 -j DROP"), "-i es1 -j DROP\nES-FORWARD> -j ES-BASE")
	eg := chain("ES1-1E", at("ES1-FWD", "-i es1a1"), "-j ACCEPT")
	for name, c := range map[string]struct {
		e    edit
		want string
	}{
		"a new chain is made, then hooked in the order of its hooks": {edit{want: []netstate.Chain{fwd},
			seen: table{"ES-FORWARD": nil}}, `
:ES1-FWD - [0:0]
-A ES1-FWD -j DROP
-I ES-FORWARD 1 -o es1 -j ES1-FWD
-I ES-FORWARD 1 -i es1 -j ES1-FWD`},
		"every jump that was seen goes, so none can stand twice": {edit{
			want: []netstate.Chain{fwd},
			seen: table{"ES1-FWD": {"-j ACCEPT"}, "ES-FORWARD": {"-i es1 -j ES1-FWD", "-i es1 -j ES1-FWD", "-i es2 -j ES2-FWD"}},
		}, `
:ES1-FWD - [0:0]
-D ES-FORWARD -i es1 -j ES1-FWD
-D ES-FORWARD -i es1 -j ES1-FWD
-A ES1-FWD -j DROP
-I ES-FORWARD 1 -o es1 -j ES1-FWD
-I ES-FORWARD 1 -i es1 -j ES1-FWD`},
		"host's chain keeps the hooks of networks and is never flushed": {edit{
			want: []netstate.Chain{chain("ES-FORWARD", at("FORWARD", ""), "-j RETURN")},
			seen: table{"FORWARD": {"-j ES-FORWARD"}, "ES-FORWARD": {"-i es1 -j ES1-FWD", "-s 1.1.1.1/32 -j ACCEPT"}},
		}, `
-D ES-FORWARD -s 1.1.1.1/32 -j ACCEPT
-D FORWARD -j ES-FORWARD
-A ES-FORWARD -j RETURN
-I FORWARD 1 -j ES-FORWARD`},
		"a longer base chain keeps what it has": {edit{
			want: []netstate.Chain{base}, stored: map[string]entry{"ES-BASE": oldBase},
			seen: table{"ES-BASE": {"-i es1 -j DROP"}, "ES-FORWARD": {"-i es1 -j ES1-FWD", "-j ES-BASE"}},
		}, `
-D ES-FORWARD -j ES-BASE
-A ES-BASE -i es2 -j DROP
-A ES-FORWARD -j ES-BASE`},
		"a flushed parent gets back the hooks of chains that stay": {edit{
			want:   []netstate.Chain{chain("ES1-FWD", nil, "-j DROP")},
			stored: map[string]entry{"ES1-1E": read(eg, "")}, seen: table{"ES1-FWD": {"-i es1a1 -j ES1-1E"}},
		}, `
:ES1-FWD - [0:0]
-A ES1-FWD -j DROP
-I ES1-FWD 1 -i es1a1 -j ES1-1E`},
		"jumps that stand as wanted are left alone": {edit{
			want: []netstate.Chain{chain("ES1-FWD", at("ES-FORWARD", "-i es1"), "-j ACCEPT")},
			stored: map[string]entry{"ES1-FWD": read(chain("ES1-FWD", at("ES-FORWARD", "-i es1"), "-j DROP"),
				"-j DROP\nES-FORWARD> -i es1 -j ES1-FWD")},
			seen: table{"ES1-FWD": {"-j DROP"}, "ES-FORWARD": {"-i es1 -j ES1-FWD"}},
		}, `
:ES1-FWD - [0:0]
-A ES1-FWD -j ACCEPT`},
		"one that stands twice is written anew": {edit{
			want: []netstate.Chain{chain("ES1-FWD", at("ES-FORWARD", "-i es1"), "-j ACCEPT")},
			stored: map[string]entry{"ES1-FWD": read(chain("ES1-FWD", at("ES-FORWARD", "-i es1"), "-j DROP"),
				"-j DROP\nES-FORWARD> -i es1 -j ES1-FWD")},
			seen: table{"ES1-FWD": {"-j DROP"}, "ES-FORWARD": {"-i es1 -j ES1-FWD", "-i es1 -j ES1-FWD"}},
		}, `
:ES1-FWD - [0:0]
-D ES-FORWARD -i es1 -j ES1-FWD
-D ES-FORWARD -i es1 -j ES1-FWD
-A ES1-FWD -j ACCEPT
-I ES-FORWARD 1 -i es1 -j ES1-FWD`},
		"a removal works whether the chain exists or not": {edit{
			gone: []netstate.Chain{fwd},
			seen: table{"ES-FORWARD": {"-i es1 -j ES1-FWD"}},
		}, `
:ES1-FWD - [0:0]
-D ES-FORWARD -i es1 -j ES1-FWD
-X ES1-FWD`},
	} {
		t.Run(name, func(t *testing.T) {
			c.e.name = "filter"
			c.e.hooked = hooksOf(c.e.stored, append(c.e.want, c.e.gone...))
			if d := cmp.Diff("*filter"+c.want+"\nCOMMIT\n", c.e.restore()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestSpellingSeesPlaceOnlyAsFarAsItIsWanted(t *testing.T) {
	c := chain("ES-FORWARD", at("FORWARD", ""))
	h := hooksOf(nil, []netstate.Chain{c})
	at := func(rules ...string) string {
		return table{"FORWARD": rules, "ES-FORWARD": {"-i es1 -j ES1-FWD"}}.view().spelling(c, h)
	}
	alone := at("-j ES-FORWARD")
	if got := at("-j ES-FORWARD", "-s 1.1.1.1/32 -j DROP"); got != alone {
		t.Errorf("a foreign rule behind ours changes %q to %q", alone, got)
	}
	for _, rules := range [][]string{{"-s 1.1.1.1/32 -j DROP", "-j ES-FORWARD"}, {}, {"-j ES-FORWARD", "-j ES-FORWARD"}} {
		if at(rules...) == alone {
			t.Errorf("%q is spelled like a good one", rules)
		}
	}
}

func TestCheckRefusesMoreThanOneRule(t *testing.T) {
	good := chain("ES1-FWD", at("ES-FORWARD", "-i es1"), "-j DROP")
	if err := check(good, 1); err != nil {
		t.Fatal(err)
	}
	bad := map[string]func(*netstate.Chain){
		"foreign chain":   func(c *netstate.Chain) { c.Name = "DOCKER" },
		"other network":   func(c *netstate.Chain) { c.Name = "ES2-FWD" },
		"host's":          func(c *netstate.Chain) { c.Name = "ES-FORWARD" },
		"two lines":       func(c *netstate.Chain) { c.Rules = []string{"-j DROP\nCOMMIT"} },
		"no rule":         func(c *netstate.Chain) { c.Rules = []string{""} },
		"hook of two":     func(c *netstate.Chain) { c.Hooks = at("FORWARD", "-i x\n-j y") },
		"parent of words": func(c *netstate.Chain) { c.Hooks = at("FORWARD 1", "") },
		"unknown table":   func(c *netstate.Chain) { c.Table = "security" },
		"foreign nft":     func(c *netstate.Chain) { *c = netstate.Chain{Family: netstate.BridgeFamily, Name: "filter"} },
	}
	for name, spoil := range bad {
		c := good
		spoil(&c)
		if check(c, 1) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseBase(t *testing.T) {
	out := "table ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy " +
		"accept;\n\t}\n}\ntable ip nat {\n}\n"
	if d := cmp.Diff(base{"filter": {"FORWARD"}, "nat": {}}, parseBase(out)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-A X -j Y\n:Z - [0:0]\n-N\n")
	f.Fuzz(func(t *testing.T, out string) {
		for chain, rules := range parse(out) {
			for _, r := range rules {
				if strings.Contains(r, "\n") {
					t.Errorf("chain %q has a rule of two lines: %q", chain, r)
				}
			}
		}
		parseBase(out)
	})
}
