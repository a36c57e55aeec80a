package nft

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Dropped returns how many packets the rules of each chain have dropped since they were written, for chains of family
// ip: the sum of the counters of the rules that drop; iptables gives each rule a counter. A missing chain has dropped
// none.
func (c *Conn) Dropped(table string, chains []string) (map[string]uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]uint64{}
	for _, chain := range chains {
		n, err := retryInterrupted(func() (n uint64, err error) {
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

// packetsOf returns the counter of a rule if the rule drops.
func packetsOf(expressions []byte) (n uint64) {
	drops := false
	eachAttribute(expressions, func(_ uint16, expression []byte) {
		a := attributes(expression)
		data := attributes(a[unix.NFTA_EXPR_DATA])
		switch str(a[unix.NFTA_EXPR_NAME]) {
		case "counter":
			if v := data[unix.NFTA_COUNTER_PACKETS]; len(v) == 8 {
				n += binary.BigEndian.Uint64(v)
			}
		case "immediate":
			verdict := attributes(attributes(data[unix.NFTA_IMMEDIATE_DATA])[unix.NFTA_DATA_VERDICT])
			code := verdict[unix.NFTA_VERDICT_CODE]
			drops = drops || len(code) == 4 && binary.BigEndian.Uint32(code) == 0 // NF_DROP
		}
	})
	if !drops {
		return 0
	}
	return n
}
