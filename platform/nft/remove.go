package nft

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Removal lists the objects to remove in one transaction.
type Removal struct {
	// Chains are chains of tables of family ip, which are removed with all their rules. Parents are the chains that may
	// have jumps into them.
	Chains, Parents map[string][]string
	Tables          []Table
	Updates         []Update
}

// Add adds another removal to r.
func (r *Removal) Add(more Removal) {
	r.Chains, r.Parents = merge(r.Chains, more.Chains), merge(r.Parents, more.Parents)
	r.Tables, r.Updates = append(r.Tables, more.Tables...), append(r.Updates, more.Updates...)
}

func merge(a, b map[string][]string) map[string][]string {
	if a == nil {
		a = map[string][]string{}
	}
	for table, chains := range b {
		a[table] = append(a[table], chains...)
	}
	return a
}

// Remove removes chains, the jumps into them, and tables. Missing ones are no error. If one is still used by a rule
// elsewhere, nothing is removed.
//
// The kernel waits for every packet in flight before it frees the removed objects: 16 ms per transaction, whatever its
// size.
func (c *Conn) Remove(r Removal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, err := retryInterrupted(func() (change, error) {
		var ch change
		for _, table := range slices.Sorted(maps.Keys(r.Chains)) {
			if err := c.removeChains(&ch.now, table, r.Chains[table], r.Parents[table]); err != nil {
				return ch, fmt.Errorf("remove chains of %s: %w", table, err)
			}
		}
		for _, u := range r.Updates {
			if err := c.addUpdate(&ch, u); err != nil {
				return ch, fmt.Errorf("remove chains of table %s: %w", u.Table, err)
			}
		}
		return ch, nil
	})
	if err != nil {
		return err
	}
	for _, t := range r.Tables { // created first, since only an existing table can be deleted
		ch.now.addTo(families[t.Family], unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, attr(unix.NFTA_TABLE_NAME, text(t.Name)))
		ch.now.addTo(families[t.Family], unix.NFT_MSG_DELTABLE, 0, attr(unix.NFTA_TABLE_NAME, text(t.Name)))
	}
	if err := c.make(ch); err != nil {
		return fmt.Errorf("remove chains: %w", err)
	}
	return nil
}

// removeChains adds to b the messages that remove chains of one table: the jumps into them, their rules, then the
// chains.
func (c *Conn) removeChains(b *batch, table string, chains, parents []string) error {
	going := map[string]bool{}
	for _, ch := range chains {
		going[ch] = true
	}
	there := map[string]bool{}
	tableAttr := attr(unix.NFTA_CHAIN_TABLE, text(table))
	err := c.dump(unix.NFT_MSG_GETCHAIN, unix.AF_INET, func(a attributeSet) {
		if str(a[unix.NFTA_CHAIN_TABLE]) == table {
			there[str(a[unix.NFTA_CHAIN_NAME])] = true
		}
	})
	if err != nil {
		return err
	}
	slices.Sort(parents)
	for _, parent := range slices.Compact(parents) {
		if !there[parent] || going[parent] {
			continue
		}
		of := [][]byte{attr(unix.NFTA_RULE_TABLE, text(table)), attr(unix.NFTA_RULE_CHAIN, text(parent))}
		err := c.dump(unix.NFT_MSG_GETRULE, unix.AF_INET, func(a attributeSet) {
			if str(a[unix.NFTA_RULE_CHAIN]) == parent && str(a[unix.NFTA_RULE_TABLE]) == table &&
				going[jumpsTo(a[unix.NFTA_RULE_EXPRESSIONS])] {
				b.addTo(unix.AF_INET, unix.NFT_MSG_DELRULE, 0, of[0], of[1], attr(unix.NFTA_RULE_HANDLE, a[unix.NFTA_RULE_HANDLE]))
			}
		}, of...)
		if err != nil {
			return err
		}
	}
	for _, kind := range []int{unix.NFT_MSG_DELRULE, unix.NFT_MSG_DELCHAIN} {
		for _, ch := range chains {
			if !there[ch] {
				continue
			}
			name := attr(unix.NFTA_RULE_CHAIN, text(ch)) // without a handle: all rules
			if kind == unix.NFT_MSG_DELCHAIN {
				name = attr(unix.NFTA_CHAIN_NAME, text(ch))
			}
			b.addTo(unix.AF_INET, kind, 0, tableAttr, name)
		}
	}
	return nil
}

// jumpsTo returns the chain that a rule jumps or goes to, or "".
func jumpsTo(expressions []byte) (chain string) {
	eachAttribute(expressions, func(_ uint16, expression []byte) {
		a := attributes(expression)
		if chain != "" || str(a[unix.NFTA_EXPR_NAME]) != "immediate" {
			return
		}
		data := attributes(attributes(a[unix.NFTA_EXPR_DATA])[unix.NFTA_IMMEDIATE_DATA])
		chain = str(attributes(data[unix.NFTA_DATA_VERDICT])[unix.NFTA_VERDICT_CHAIN])
	})
	return chain
}
