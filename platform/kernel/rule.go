package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// actionNop is FR_ACT_NOP (linux/fib_rules.h): the kernel reads on at the next rule.
const actionNop = 3

// ruleObject converts a policy rule to netstate. A listing of package netlink lacks the rule's action.
func ruleObject(r netlink.Rule) netstate.Rule {
	o := netstate.Rule{Priority: r.Priority, Table: r.Table, OIF: r.OifName, IIF: r.IifName, Goto: max(r.Goto, 0),
		IPv6: r.Family == netlink.FAMILY_V6, Mark: r.Mark}
	if r.Mask != nil {
		o.Mask = *r.Mask
	}
	if o.Goto != 0 { // see PutRule
		o.Table = 0
	}
	if r.Dport != nil {
		if o.DPort = int(r.Dport.Start); r.Dport.End != r.Dport.Start {
			o.To = fmt.Sprintf("ports %d-%d", r.Dport.Start, r.Dport.End) // edgespan creates no such rule
		}
	}
	if r.Src != nil {
		o.From = r.Src.String()
	}
	if r.Dst != nil {
		o.To = r.Dst.String()
	}
	return o
}

// PutRule adds a policy rule and then deletes edgespan's other rules with the same ID, so that there is always a rule.
//
// To the kernel two rules that differ only in their goto are equal. So a rule that replaces another one also has a
// table, which a goto ignores.
func (k *Kernel) PutRule(r netstate.Rule) error {
	if err := k.addRule(r, r.Table+r.Goto); err != nil {
		return err
	}
	kept := false
	return k.removeRules(r, func(have netstate.Rule) bool {
		keep := have.Text() == r.Text() && !kept
		kept = kept || keep
		return !keep
	})
}

// AddRule adds a policy rule where no rule of its priority was observed: it neither looks for others nor deletes any.
func (k *Kernel) AddRule(r netstate.Rule) error { return k.addRule(r, r.Table) }

func (k *Kernel) addRule(r netstate.Rule, table int) error {
	if err := ourRule(r); err != nil {
		return err
	}
	n := netlink.NewRule()
	n.Priority, n.Table, n.Protocol = r.Priority, table, netstate.RouteProtocol
	n.OifName, n.IifName = r.OIF, r.IIF
	setMark(n, r)
	switch {
	case r.Goto != 0:
		n.Goto = r.Goto
	case r.Table == 0:
		n.Type = actionNop
	}
	if r.DPort != 0 {
		n.Dport = netlink.NewRulePortRange(uint16(r.DPort), uint16(r.DPort))
	}
	if err := setPrefixes(n, r); err != nil {
		return fmt.Errorf("add rule %d: %w", r.Priority, err)
	}
	if err := k.change(func() error { return k.h.RuleAdd(n) }); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add rule %d: %w", r.Priority, err)
	}
	return nil
}

func setMark(n *netlink.Rule, r netstate.Rule) {
	if r.Mask != 0 {
		n.Mark, n.Mask = r.Mark, &r.Mask
	}
}

// setPrefixes sets the family and the prefixes of a rule.
func setPrefixes(n *netlink.Rule, r netstate.Rule) error {
	n.Family = netlink.FAMILY_V4
	if r.IPv6 {
		n.Family = netlink.FAMILY_V6
	}
	for _, side := range []struct {
		text string
		set  func(netip.Prefix)
	}{
		{r.From, func(p netip.Prefix) { n.Src = ipNet(p) }},
		{r.To, func(p netip.Prefix) { n.Dst = ipNet(p) }},
	} {
		if side.text == "" {
			continue
		}
		p, err := netip.ParsePrefix(side.text)
		if err != nil {
			return err
		}
		if p.Addr().Is6() != r.IPv6 {
			return fmt.Errorf("prefix %s is of another family", p)
		}
		side.set(p)
	}
	return nil
}

// RemoveRule deletes all of edgespan's rules with r's ID. A branch of host's tree is deleted by its selector: there may
// be hundreds, and each listing has all of them.
func (k *Kernel) RemoveRule(r netstate.Rule) error {
	if err := ourRule(r); err != nil {
		return err
	}
	if r.Goto == 0 || r.IsEnd() {
		return k.removeRules(r, func(netstate.Rule) bool { return true })
	}
	n := netlink.NewRule()
	n.Priority, n.Protocol = r.Priority, netstate.RouteProtocol
	setMark(n, r)
	err := setPrefixes(n, r)
	for err == nil { // the kernel deletes one rule at a time, with any target
		err = k.change(func() error { return k.h.RuleDel(n) })
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("remove rule %d: %w", r.Priority, err)
}

func ourRule(r netstate.Rule) error {
	if _, ok := PriorityNumber(r.Priority); !ok {
		return fmt.Errorf("rule priority %d: not an edgespan priority", r.Priority)
	}
	return nil
}

func (k *Kernel) removeRules(r netstate.Rule, which func(netstate.Rule) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	rules, err := k.rules.Get(ctx) // concurrent callers share a listing
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	n, _ := PriorityNumber(r.Priority)
	for _, have := range rules[n] {
		if o := ruleObject(have); o.ID() != r.ID() || !which(o) {
			continue
		}
		if err := k.change(func() error { return k.h.RuleDel(&have) }); err != nil && !errors.Is(err, unix.ENOENT) &&
			!errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove rule %d: %w", r.Priority, err)
		}
	}
	return nil
}
