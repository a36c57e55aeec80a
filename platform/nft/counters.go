package nft

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// Counters returns the counters of each chain's rules since they were written, in order; a rule without a counter has
// counted nothing. A missing chain is left out. It reads chains one by one, as others may use the socket between two of
// them, and ends when ctx does.
func (c *Conn) Counters(ctx context.Context, t Table, chains []string) (map[string][]netstate.Counter, error) {
	counts, table := map[string][]netstate.Counter{}, text(t.Name)
	family, known := families[t.Family]
	if !known {
		family = unix.AF_INET
	}
	for _, chain := range chains {
		if ctx.Err() != nil {
			return counts, ctx.Err()
		}
		rules, err := retryInterrupted(func() (rules []netstate.Counter, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			name := text(chain)
			err = c.dump(unix.NFT_MSG_GETRULE, family, func(a attributeSet) {
				if bytes.Equal(a[unix.NFTA_RULE_TABLE], table) && bytes.Equal(a[unix.NFTA_RULE_CHAIN], name) {
					rules = append(rules, readCounter(a[unix.NFTA_RULE_EXPRESSIONS]))
				}
			}, attr(unix.NFTA_RULE_TABLE, table), attr(unix.NFTA_RULE_CHAIN, name))
			return rules, err
		})
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return counts, fmt.Errorf("read counters of %s: %w", chain, err)
		}
		if len(rules) > 0 {
			counts[chain] = rules
		}
	}
	return counts, nil
}

func readCounter(expressions []byte) (sum netstate.Counter) {
	eachAttribute(expressions, func(_ uint16, expression []byte) {
		a := attributes(expression)
		if string(a[unix.NFTA_EXPR_NAME]) == "counter\x00" { // no string is made for each of many expressions
			data := attributes(a[unix.NFTA_EXPR_DATA])
			sum.Packets += uint64Of(data[unix.NFTA_COUNTER_PACKETS])
			sum.Bytes += uint64Of(data[unix.NFTA_COUNTER_BYTES])
		}
	})
	return sum
}

// counter counts the packets and bytes that get this far in a rule.
func (p *parser) counter() {
	p.load("counter", attr(unix.NFTA_COUNTER_BYTES, make([]byte, 8)), attr(unix.NFTA_COUNTER_PACKETS, make([]byte, 8)))
}

func uint64Of(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}
