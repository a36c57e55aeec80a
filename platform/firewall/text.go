package firewall

import (
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// table is one iptables table as the kernel shows it: the rules of each chain, in order, each without its "-A CHAIN ".
type table map[string][]string

// parse reads the output of `iptables -S` or of `iptables-save -t`.
func parse(out string) table {
	t := table{}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n ")
		switch {
		case strings.HasPrefix(line, "-N "), strings.HasPrefix(line, "-P "):
			t.declare(strings.Fields(line)[1])
		case strings.HasPrefix(line, ":"):
			t.declare(strings.Fields(line[1:])[0])
		case strings.HasPrefix(line, "-A "):
			chain, rule, _ := strings.Cut(line[3:], " ")
			t[chain] = append(t[chain], rule)
		}
	}
	return t
}

func (t table) declare(chain string) {
	if _, known := t[chain]; !known {
		t[chain] = nil
	}
}

// target returns the chain that a rule jumps or goes to, "" for none. A jump to a chain takes no options, so it ends
// the rule.
func target(rule string) string {
	i := strings.LastIndexByte(rule, ' ')
	if !strings.HasSuffix(rule[:max(i, 0)], "-j") && !strings.HasSuffix(rule[:max(i, 0)], "-g") {
		return ""
	}
	return rule[i+1:]
}

func isOwnChain(chain string) bool {
	_, ok := owner(chain)
	return ok
}

// owner returns the network instance number of one of edgespan's chains, 0 for host's.
func owner(chain string) (int, bool) {
	rest, ok := strings.CutPrefix(chain, "ES")
	num, _, dash := strings.Cut(rest, "-")
	if !ok || !dash {
		return 0, false
	}
	if num == "" {
		return 0, true
	}
	n := 0
	for _, c := range []byte(num) {
		if c < '0' || c > '9' || n > 99 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, num[0] != '0'
}

// jump is one rule of parent that leads into a chain.
type jump struct {
	parent, rule string
	before       bool // a rule other than edgespan's jumps precedes it
	after        bool // or follows it
}

// jumps lists the rules of the given parents that lead into a chain.
func (t table) jumps(chain string, parents []string) []jump {
	var js []jump
	for _, p := range parents {
		for i, r := range t[p] {
			if !strings.HasSuffix(r, chain) || target(r) != chain {
				continue
			}
			other := func(r string) bool { return !isOwnChain(target(r)) }
			js = append(js, jump{p, r, slices.ContainsFunc(t[p][:i], other), slices.ContainsFunc(t[p][i+1:], other)})
		}
	}
	return js
}

// view is a table with an index of which chains lead into a chain.
type view struct {
	table
	parents map[string][]string
	owned   map[int][]string // chains by owner number, sorted
	summed  bool             // rules are digests (sums.go)
}

func (t table) view() view {
	v := view{table: t, parents: map[string][]string{}, owned: map[int][]string{}}
	for _, parent := range sortedKeys(t) {
		if n, own := owner(parent); own {
			v.owned[n] = append(v.owned[n], parent)
		}
		for _, r := range t[parent] {
			if to := target(r); to != "" && !slices.Contains(v.parents[to], parent) {
				v.parents[to] = append(v.parents[to], parent)
			}
		}
	}
	return v
}

// hooked reports which rules of a chain are hooks of other chains: they belong to those chains, not to this one.
type hooked func(parent, chain string) bool

// own lists a chain's rules without the hooks of others.
func (t table) own(chain string, h hooked) []string {
	var rules []string
	for _, r := range t[chain] {
		if to := target(r); to == "" || !h(chain, to) {
			rules = append(rules, r)
		}
	}
	return rules
}

// moved marks a jump that is no longer where it was inserted.
const moved = " (moved)"

// spelling returns the kernel's form of a chain and of the rules that lead into it, as one text that changes exactly
// when others change them. The position of a jump counts only as far as it is desired: first or last among foreign
// rules. The text is stored for long, so it is a copy, never a part of the dump of all chains: joining a single line
// would return such a part.
func (t view) spelling(c netstate.Chain, h hooked) string {
	lines := t.own(c.Name, h)
	last := map[string]bool{}
	parents := []string{}
	for _, hook := range c.Hooks {
		last[hook.Parent] = hook.Last
		parents = append(parents, hook.Parent)
	}
	for _, j := range t.jumps(c.Name, unique(append(parents, t.parents[c.Name]...))) {
		if !h(j.parent, c.Name) {
			continue // a plain rule of another edgespan chain
		}
		line := j.parent + "> " + j.rule
		if last[j.parent] && j.after || !last[j.parent] && j.before {
			line += moved
		}
		lines = append(lines, line)
	}
	if len(lines) == 1 {
		return strings.Clone(lines[0])
	}
	return strings.Join(lines, "\n")
}

// has reports whether the table has a chain.
func (t view) has(left entry) bool {
	_, there := t.table[left.Name]
	return there
}

// confirmed returns a chain as it was written, if the kernel's spelling is unchanged since, or if it was just written
// and every rule and jump is there.
func (t view) confirmed(left entry, h hooked) (entry, bool) {
	if !t.has(left) {
		return entry{}, false
	}
	c := left.chain()
	kernel := t.spelling(c, h)
	switch {
	case left.Unread && t.complete(c, h) && !strings.Contains(kernel, moved):
		return read(c, kernel), true
	case !left.Unread && kernel == left.Kernel:
		return left, true
	}
	return entry{}, false
}

// complete reports whether a chain holds as many rules and jumps as were written.
func (t view) complete(c netstate.Chain, h hooked) bool {
	jumps := 0
	for _, j := range t.jumps(c.Name, t.parents[c.Name]) {
		if h(j.parent, c.Name) {
			jumps++
		}
	}
	return len(t.own(c.Name, h)) == len(c.Rules) && jumps == len(c.Hooks)
}

// observed returns a chain whose spelling differs from the stored one. Its text differs from every desired text unless
// the two are equal rule by rule.
func (t view) observed(left entry, h hooked) entry {
	chain := left.Name
	c := netstate.Chain{Family: netstate.IPv4, Table: left.Table, Name: chain, Rules: t.own(chain, h)}
	for _, j := range t.jumps(chain, t.parents[chain]) {
		if !h(j.parent, chain) {
			continue
		}
		match := strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(j.rule, "-j "+chain), "-g "+chain))
		if j.before && j.after || j.before && isBuiltin(j.parent) {
			match += moved
		}
		c.Hooks = append(c.Hooks, netstate.Hook{Parent: j.parent, Match: match, Last: j.before && !j.after})
	}
	return read(c, t.spelling(c, h))
}

func isBuiltin(chain string) bool {
	return slices.Contains([]string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}, chain)
}

func unique(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

// join spells one rule of a chain.
func join(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
