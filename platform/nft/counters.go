package nft

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Packets counts what the rules of chains of family ip have matched since they were written: the
// sum of their counters, which iptables gives every rule. A chain that is not there has matched none.
func (c *Conn) Packets(table string, chains []string) (map[string]uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]uint64{}
	for _, chain := range chains {
		n, err := whole(func() (n uint64, err error) {
			err = c.dump(unix.NFT_MSG_GETRULE, unix.AF_INET, func(a map[uint16][]byte) {
				if str(a[unix.NFTA_RULE_TABLE]) == table && str(a[unix.NFTA_RULE_CHAIN]) == chain {
					n += packetsOf(a[unix.NFTA_RULE_EXPRESSIONS])
				}
			}, attr(unix.NFTA_RULE_TABLE, text(table)), attr(unix.NFTA_RULE_CHAIN, text(chain)))
			return n, err
		})
		if err != nil {
			return counts, fmt.Errorf("read counters of %s: %w", chain, err)
		}
		counts[chain] = n
	}
	return counts, nil
}

// packetsOf is what the counters of a rule say.
func packetsOf(expressions []byte) (n uint64) {
	eachAttribute(expressions, func(_ uint16, expression []byte) {
		a := attributes(expression)
		if str(a[unix.NFTA_EXPR_NAME]) != "counter" {
			return
		}
		if v := attributes(a[unix.NFTA_EXPR_DATA])[unix.NFTA_COUNTER_PACKETS]; len(v) == 8 {
			n += binary.BigEndian.Uint64(v)
		}
	})
	return n
}
