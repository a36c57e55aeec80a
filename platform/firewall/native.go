package firewall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
)

const (
	guardName = "edgespan" // host's tables
	passName  = "ES-PASS"  // host's chain that marks accepted packets
)

// shared are the tables that all owners share. Host has the table, its maps and base chains; a network has chains with
// its number, and the elements of maps that lead to them. A change of a network's chains commits in all at once.
var shared = []nft.Table{{Family: netstate.BridgeFamily, Name: guardName},
	{Family: netstate.IP6Family, Name: guardName}, {Family: netstate.InetFamily, Name: guardName}}

// sharedFamilies are the families of the shared tables that are written before the chains of iptables.
var sharedFamilies = []netstate.Family{netstate.BridgeFamily, netstate.IP6Family}

func isShared(t nft.Table) bool { return slices.Contains(shared, t) }

// tables returns the nftables tables that an owner may have: of a network, the one that former releases made.
func tables(number int) []nft.Table {
	if number == 0 {
		return append([]nft.Table{{Family: netstate.ARPFamily, Name: guardName}}, shared...)
	}
	return []nft.Table{{Family: netstate.BridgeFamily, Name: fmt.Sprintf("es%d", number)}}
}

// tableOwner returns the network instance number of one of edgespan's tables, 0 for host's.
func tableOwner(t nft.Table) (int, bool) {
	if slices.Contains(tables(0), t) {
		return 0, true
	}
	n, ok := owner("ES" + strings.TrimPrefix(t.Name, "es") + "-")
	return n, ok && n > 0 && slices.Contains(tables(n), t)
}

// isOwn reports whether a table belongs to an owner.
func isOwn(t nft.Table) bool { _, own := tableOwner(t); return own }

// ofNetwork reports whether a chain of a shared table belongs to a network.
func ofNetwork(chain string) bool { n, own := owner(chain); return own && n > 0 }

// tableOfChain returns the nftables table that a native chain is, or is in.
func tableOfChain(c netstate.Chain) nft.Table {
	if c.IsTable() {
		return nft.Table{Family: c.Family, Name: c.Name}
	}
	return nft.Table{Family: c.Family, Name: c.Table}
}

// Claim reclaims exclusive ownership of the tables that an earlier process left: until then, a flush by others removes
// them too.
func (f *Firewall) Claim() error { return f.nft.Claim(isOwn) }

// LacksARP reports that a table of family arp is desired but the kernel's nf_tables lacks the family
// (CONFIG_NF_TABLES_ARP). Networks work without it.
func (f *Firewall) LacksARP() bool { return f.noARP.Load() }

// applyNative writes the tables and chains of some nftables families.
func (f *Firewall) applyNative(ctx context.Context, number int, want []netstate.Chain,
	families ...netstate.Family) error {
	want = slices.DeleteFunc(slices.Clone(want), func(c netstate.Chain) bool {
		return !slices.Contains(families, c.Family)
	})
	for _, c := range want {
		if !c.IsTable() {
			continue
		}
		err := f.applyTable(c)
		if err = f.withoutARP(c.Family, err, true); err != nil {
			f.store(number).markUncertain()
			return err
		}
	}
	err := f.nft.Update(f.updates(number, want, nil)...)
	if err == nil {
		return nil
	}
	f.store(number).markUncertain()
	if errors.Is(err, unix.ENOENT) && ctx.Err() == nil { // others may have deleted host's part
		return fmt.Errorf("the host's nftables do not exist yet: %w: %w", netstate.ErrWaiting, err)
	}
	return err
}

// applyTable writes a table, in place: a packet that is on its way while a table is replaced could find its address in
// neither of two sets, or meet neither of two base chains. If there is something in a table that can't be changed to
// what is desired, such as a base chain of another hook, the whole table is replaced, and the networks write their
// parts of a shared one again.
func (f *Firewall) applyTable(c netstate.Chain) error {
	t := tableOfChain(c)
	keep := func(string) bool { return false }
	if isShared(t) {
		keep = ofNetwork
	}
	err := f.nft.Update(nft.Update{Table: t, Create: true, Lines: c.Rules, Keep: keep})
	if !slices.ContainsFunc([]error{unix.EEXIST, unix.EOPNOTSUPP, unix.EBUSY, unix.EINVAL}, func(e error) bool {
		return errors.Is(err, e)
	}) {
		return err
	}
	if err := f.nft.Replace(t, c.Rules); err != nil {
		return err
	}
	if isShared(t) {
		f.invalidate(Changed{All: true})
	}
	return nil
}

func (f *Firewall) removeNative(number int, gone []netstate.Chain) error {
	err := f.nft.Update(f.updates(number, nil, gone)...)
	for _, c := range gone {
		if c.IsTable() && err == nil {
			err = f.withoutARP(c.Family, f.nft.Delete(tableOfChain(c)), false)
		}
	}
	if err != nil {
		f.store(number).markUncertain()
	}
	return err
}

// withoutARP treats a table that the kernel can't have as one that is as desired.
func (f *Firewall) withoutARP(family netstate.Family, err error, desired bool) error {
	if family != netstate.ARPFamily {
		return err
	}
	lacks := errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)
	f.noARP.Store(lacks && desired)
	if lacks {
		return nil
	}
	return err
}

// updates returns the changes of a network's chains in shared tables.
func (f *Firewall) updates(number int, want, gone []netstate.Chain) []nft.Update {
	var list []nft.Update
	stored := f.store(number).all()
	for _, t := range shared {
		u := nft.Update{Table: t}
		for _, c := range want {
			if c.IsTable() || tableOfChain(c) != t {
				continue
			}
			u.Lines = append(append(append(u.Lines, "chain "+c.Name+" {"), c.Rules...), "}")
			u.Set = append(u.Set, elements(c)...)
			u.Unset = append(u.Unset, stored[c.ID()].elements()...)
		}
		for _, c := range gone {
			if c.IsTable() || tableOfChain(c) != t {
				continue
			}
			u.Delete = append(u.Delete, c.Name)
			u.Unset = append(append(u.Unset, elements(c)...), stored[c.ID()].elements()...)
		}
		if len(u.Lines)+len(u.Delete) > 0 {
			u.Unset = uniqueElements(u.Unset)
			list = append(list, u)
		}
	}
	return list
}

// otherwise separates a hook's key from its verdict if that is not the one that edgespan writes.
const otherwise = " : "

// elements returns the elements that lead to a chain.
func elements(c netstate.Chain) []nft.Element {
	var list []nft.Element
	for _, h := range c.Hooks {
		e := nft.Element{Map: h.Parent, Key: h.Match, Value: "jump " + c.Name}
		if key, value, ok := strings.Cut(h.Match, otherwise); ok {
			e.Key, e.Value = key, value
		}
		list = append(list, e)
	}
	return list
}

// elements returns the elements that lead to a native chain, as last written or read.
func (e entry) elements() []nft.Element {
	if !e.Family.Native() {
		return nil
	}
	return elements(e.chain())
}

func uniqueElements(list []nft.Element) []nft.Element {
	var out []nft.Element
	for _, e := range list {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}
