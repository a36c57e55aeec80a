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

// ruleObject converts a policy rule to netstate.
func ruleObject(r netlink.Rule) netstate.Rule {
	o := netstate.Rule{Priority: r.Priority, Table: r.Table, OIF: r.OifName}
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

// PutRule adds a policy rule and then deletes edgespan's other rules of the same priority, so that there is always a
// rule.
func (k *Kernel) PutRule(r netstate.Rule) error {
	if err := k.AddRule(r); err != nil {
		return err
	}
	return k.removeRules(r.Priority, func(have netstate.Rule) bool { return have.Text() != r.Text() })
}

// AddRule adds a policy rule where no rule of its priority was observed: it neither looks for others nor deletes any.
func (k *Kernel) AddRule(r netstate.Rule) error {
	if err := ourRule(r); err != nil {
		return err
	}
	n := netlink.NewRule()
	n.Family, n.Priority, n.Table, n.Protocol = netlink.FAMILY_V4, r.Priority, r.Table, netstate.RouteProtocol
	n.OifName = r.OIF
	if r.DPort != 0 {
		n.Dport = netlink.NewRulePortRange(uint16(r.DPort), uint16(r.DPort))
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
			return fmt.Errorf("add rule %d: %w", r.Priority, err)
		}
		if p.Addr().Is6() {
			n.Family = netlink.FAMILY_V6
		}
		side.set(p)
	}
	if err := k.change(func() error { return k.h.RuleAdd(n) }); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add rule %d: %w", r.Priority, err)
	}
	return nil
}

// RemoveRule deletes all of edgespan's rules with r's priority.
func (k *Kernel) RemoveRule(r netstate.Rule) error {
	if err := ourRule(r); err != nil {
		return err
	}
	return k.removeRules(r.Priority, func(netstate.Rule) bool { return true })
}

func ourRule(r netstate.Rule) error {
	if _, ok := PriorityNumber(r.Priority); !ok {
		return fmt.Errorf("rule priority %d: not an edgespan priority", r.Priority)
	}
	return nil
}

func (k *Kernel) removeRules(prio int, which func(netstate.Rule) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	rules, err := k.rules.Get(ctx) // concurrent callers share a listing
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	n, _ := PriorityNumber(prio)
	for _, have := range rules[n] {
		if have.Priority != prio || !which(ruleObject(have)) {
			continue
		}
		if err := k.change(func() error { return k.h.RuleDel(&have) }); err != nil && !errors.Is(err, unix.ENOENT) &&
			!errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove rule %d: %w", prio, err)
		}
	}
	return nil
}
