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
	guardName = "edgespan" // host's tables of families inet and arp
	passName  = "ES-PASS"  // host's chain that marks accepted packets
)

// wholeTables returns the nftables tables that an owner may have.
func wholeTables(number int) []nft.Table {
	if number == 0 {
		return []nft.Table{{Family: netstate.InetFamily, Name: guardName}, {Family: netstate.ARPFamily, Name: guardName}}
	}
	return []nft.Table{{Family: netstate.BridgeFamily, Name: fmt.Sprintf("es%d", number)}}
}

// tableOwner returns the network instance number of one of edgespan's whole tables, 0 for host's.
func tableOwner(t nft.Table) (int, bool) {
	if slices.Contains(wholeTables(0), t) {
		return 0, true
	}
	n, ok := owner("ES" + strings.TrimPrefix(t.Name, "es") + "-")
	return n, ok && n > 0 && slices.Contains(wholeTables(n), t)
}

// isOwn reports whether a table belongs to an owner.
func isOwn(t nft.Table) bool { _, own := tableOwner(t); return own }

// Claim reclaims exclusive ownership of the tables that an earlier process left: until then, a flush by others removes
// them too.
func (f *Firewall) Claim() error { return f.nft.Claim(isOwn) }

// LacksARP reports that a table of family arp is desired but the kernel's nf_tables lacks the family
// (CONFIG_NF_TABLES_ARP). Networks work without it.
func (f *Firewall) LacksARP() bool { return f.noARP.Load() }

// applyWhole writes the tables of one nftables family.
func (f *Firewall) applyWhole(number int, want []netstate.Chain, family netstate.Family) error {
	for _, c := range want {
		if c.Family != family {
			continue
		}
		err := f.nft.Replace(nft.Table{Family: family, Name: c.Name}, c.Rules)
		if err = f.withoutARP(family, err, true); err != nil {
			f.store(number).markUncertain()
			return err
		}
	}
	return nil
}

func (f *Firewall) removeWhole(number int, c netstate.Chain) error {
	err := f.withoutARP(c.Family, f.nft.Delete(nft.Table{Family: c.Family, Name: c.Name}), false)
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

// wholeText returns a whole table as the kernel shows it, "" for none.
func (f *Firewall) wholeText(ctx context.Context, t nft.Table) (string, error) {
	if t.Family == netstate.ARPFamily && f.noARP.Load() {
		return "not supported\n", nil
	}
	tables, err := f.whole.Get(ctx)
	if err != nil {
		return "", fmt.Errorf("list tables of nftables: %w", withCommand(err))
	}
	return tables[t], nil
}
