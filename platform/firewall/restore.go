package firewall

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// edit is the change of one table in one restore. seen is the kernel's latest state of the chains and parents that the
// edit names.
type edit struct {
	name   string // of the table
	want   []netstate.Chain
	gone   []netstate.Chain
	seen   table
	stored map[string]entry // this table's chains of the owner, by chain name
	hooked hooked
}

// lines holds the lines of one table in an iptables-restore input, in the order of their kinds.
type lines struct{ decl, del, app, ins, drop []string }

func (l *lines) add(o lines) {
	l.decl, l.del, l.app = append(l.decl, o.decl...), append(l.del, o.del...), append(l.app, o.app...)
	l.ins, l.drop = append(l.ins, o.ins...), append(l.drop, o.drop...)
}

func (l lines) text(table string) string {
	all := slices.Concat([]string{"*" + table}, l.decl, l.del, l.app, l.ins, l.drop, []string{"COMMIT"})
	if len(all) == 2 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}

// restore returns the text that changes the table from seen to desired in one transaction of `iptables-restore
// --noflush`: every chain changes at once, and no jump appears twice, because the text deletes each observed jump.
func (e *edit) restore() string { return e.lines().text(e.name) }

func (e *edit) lines() lines {
	var decl, del, add, ins, drop []string
	flushed := map[string]bool{}
	for _, c := range e.want {
		_, exists := e.seen[c.Name]
		// Networks insert their hooks into host's chains at any time, so never flush such a chain: exchange only its
		// own rules.
		if exists && hostChain(c.Name) {
			d, a := e.exchange(c, e.seen.own(c.Name, e.hooked))
			del, add = append(del, d...), append(add, a...)
			continue
		}
		decl = append(decl, ":"+c.Name+" - [0:0]")
		flushed[c.Name] = true
		for _, r := range c.Rules {
			add = append(add, join("-A", c.Name, r))
		}
	}
	for _, c := range e.gone {
		decl = append(decl, ":"+c.Name+" - [0:0]")
		flushed[c.Name] = true
		drop = append(drop, "-X "+c.Name)
	}
	for _, c := range e.rehook(flushed) {
		if e.hookedAsDesired(c, flushed) {
			continue
		}
		d, i := e.hooks(c, flushed)
		del, ins = append(del, d...), append(ins, i...)
	}
	for _, c := range e.gone {
		d, _ := e.hooks(netstate.Chain{Name: c.Name}, flushed)
		del = append(del, d...)
	}
	return lines{decl, del, add, ins, drop}
}

// hostChains returns host's chains that the desired chains lead into or hang in.
func (e *edit) hostChains() []string {
	var names []string
	for _, c := range e.want {
		for _, h := range c.Hooks {
			names = append(names, h.Parent)
		}
		for _, r := range c.Rules {
			names = append(names, target(r))
		}
	}
	return unique(slices.DeleteFunc(names, func(n string) bool { return !hostChain(n) }))
}

func hostChain(name string) bool { n, ok := owner(name); return ok && n == 0 }

// exchange replaces a chain's own rules and keeps the hooks of others: from the first differing rule on, it deletes the
// old rules and appends the new ones.
func (e *edit) exchange(c netstate.Chain, have []string) (del, add []string) {
	same := 0
	if st, ok := e.stored[c.Name]; ok {
		rules := st.ownRules()
		for same < min(len(rules), len(have), len(c.Rules), len(st.Rules)) &&
			rules[same] == have[same] && st.Rules[same] == c.Rules[same] {
			same++
		}
	}
	for _, r := range have[same:] {
		del = append(del, join("-D", c.Name, r))
	}
	for _, r := range c.Rules[same:] {
		add = append(add, join("-A", c.Name, r))
	}
	return del, add
}

// rehook lists the chains whose jumps must be written: the desired ones, and unchanged ones whose jump is removed
// with a flushed parent, or must remain after appended rules, or is in a built-in chain in which another is written. By
// name, so that the jumps of host's chains are in one order there, the last name first.
func (e *edit) rehook(flushed map[string]bool) []netstate.Chain {
	list := slices.Clone(e.want)
	named := map[string]bool{}
	for _, c := range slices.Concat(e.want, e.gone) {
		named[c.Name] = true
	}
	appended, built := map[string]bool{}, map[string]bool{}
	for _, c := range e.want {
		appended[c.Name] = hostChain(c.Name)
		for _, h := range c.Hooks {
			built[h.Parent] = isBuiltin(h.Parent)
		}
	}
	for _, name := range sortedKeys(e.stored) {
		st := e.stored[name]
		if named[name] || !slices.ContainsFunc(st.Hooks, func(h netstate.Hook) bool {
			return flushed[h.Parent] || h.Last && appended[h.Parent] || built[h.Parent]
		}) {
			continue
		}
		list = append(list, netstate.Chain{Name: name, Hooks: st.Hooks})
	}
	slices.SortStableFunc(list, func(a, b netstate.Chain) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// hookedAsDesired reports whether a network's chain already has its jumps where they were observed, so that a smaller
// transaction suffices.
func (e *edit) hookedAsDesired(c netstate.Chain, flushed map[string]bool) bool {
	st, ok := e.stored[c.Name]
	if !ok || hostChain(c.Name) || !slices.Equal(st.Hooks, c.Hooks) {
		return false
	}
	var seen []string
	for _, j := range e.seen.jumps(c.Name, sortedKeys(e.seen)) {
		seen = append(seen, j.parent+" "+j.rule)
	}
	for _, j := range st.jumps() {
		if flushed[j.parent] {
			return false
		}
		i := slices.Index(seen, j.parent+" "+j.rule)
		if i < 0 {
			return false
		}
		seen = slices.Delete(seen, i, i+1)
	}
	return len(seen) == 0
}

// hooks deletes the observed jumps into a chain and inserts the desired ones.
func (e *edit) hooks(c netstate.Chain, flushed map[string]bool) (del, ins []string) {
	for _, j := range e.seen.jumps(c.Name, sortedKeys(e.seen)) {
		if !flushed[j.parent] && e.hooked(j.parent, c.Name) {
			del = append(del, join("-D", j.parent, j.rule))
		}
	}
	for _, h := range slices.Backward(c.Hooks) { // each is inserted at the top: the first one last
		if !h.Last {
			ins = append(ins, join("-I", h.Parent, "1", h.Match, "-j", c.Name))
		}
	}
	for _, h := range c.Hooks {
		if h.Last {
			ins = append(ins, join("-A", h.Parent, h.Match, "-j", c.Name))
		}
	}
	return del, ins
}

// check refuses text that would not be exactly one rule in one of the owner's chains.
func check(c netstate.Chain, number int) error {
	if c.IsTable() {
		if !slices.Contains(tables(number), tableOfChain(c)) {
			return fmt.Errorf("%s table %q is not of owner %d", c.Family, c.Name, number)
		}
		return nil
	}
	if n, ok := owner(c.Name); !ok || n != number || strings.ContainsAny(c.Name, " \t\n") {
		return fmt.Errorf("chain %q: not owned by %d", c.Name, number)
	}
	native := isShared(tableOfChain(c)) && number > 0
	if !native && (c.Family != netstate.IPv4 || !slices.Contains(tableOrder, c.Table)) {
		return fmt.Errorf("chain %s: unknown table %s/%s", c.Name, c.Family, c.Table)
	}
	for _, r := range c.Rules {
		if strings.ContainsAny(r, "\n\r") || r == "" || native && r == "}" {
			return fmt.Errorf("chain %s: rule %q: must be one line", c.Name, r)
		}
	}
	for _, h := range c.Hooks {
		if strings.ContainsAny(h.Parent+h.Match, "\n\r") || h.Parent == "" || strings.Contains(h.Parent, " ") {
			return fmt.Errorf("chain %s: hook %q in %q: must be one line", c.Name, h.Match, h.Parent)
		}
	}
	return nil
}
