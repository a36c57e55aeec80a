package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// nextHops are the addresses of the neighbours to which the node sends a packet that it forwards: the packet's
// destination, or the gateway to it. A packet of the other family has none.
var nextHops = map[string]struct {
	key  uint32
	kind setKind
}{
	"ip":  {unix.NFT_RT_NEXTHOP4, setKinds["ipv4_addr"]},
	"ip6": {unix.NFT_RT_NEXTHOP6, setKinds["ipv6_addr"]},
}

// nextHop loads "rt ip nexthop" or "rt ip6 nexthop" into register 1; the word rt is read already.
func (p *parser) nextHop() (setKind, error) {
	hop, known := nextHops[p.next()]
	if w := p.next(); !known || w != "nexthop" {
		return setKind{}, errors.New("want rt ip nexthop or rt ip6 nexthop")
	}
	p.load("rt", attr(unix.NFTA_RT_KEY, be32(hop.key)), attr(unix.NFTA_RT_DREG, be32(unix.NFT_REG_1)))
	return hop.kind, nil
}

// matchNextHop matches a packet by its next hop, "rt ip nexthop ADDRESS".
func (p *parser) matchNextHop() error {
	kind, err := p.nextHop()
	if err != nil {
		return err
	}
	w := p.next()
	key, err := elementKey(w)
	if err != nil || len(key) != int(kind.length) || strings.HasPrefix(w, `"`) {
		return fmt.Errorf("next hop %q: want an address of its family", w)
	}
	p.compare(unix.NFT_CMP_EQ, key)
	return nil
}

// meterID is the number of a table's first meter in a transaction, far above those of its sets.
const meterID = 1 << 16

// meter matches packets of the next hops that were met last, up to a number of them:
//
//	meter size 64 { rt ip nexthop timeout 5s }
//
// It has a set of its own, which the kernel fills, and deletes with the rule. Each packet that it matches starts the
// timeout of its next hop again. While the set is full, no packet of another next hop matches.
func (p *parser) meter() error {
	words := p.words[:min(len(p.words), 9)]
	p.words = p.words[len(words):]
	bad := fmt.Errorf("meter %s: want meter size NUMBER { rt ip nexthop timeout DURATION }", strings.Join(words, " "))
	if len(words) < 9 || words[0] != "size" || words[2] != "{" || words[3] != "rt" || words[6] != "timeout" ||
		words[8] != "}" {
		return bad
	}
	size, err := strconv.ParseUint(words[1], 10, 32)
	timeout, errTimeout := time.ParseDuration(words[7])
	if err != nil || errTimeout != nil || size == 0 || timeout < time.Second {
		return bad
	}
	rest := p.words
	p.words = words[4:6]
	kind, err := p.nextHop()
	if p.words = rest; err != nil {
		return err
	}
	id := meterID + uint32(len(*p.meters))
	*p.meters = append(*p.meters, compiledSet{name: "__meter%d", kind: kind, size: uint32(size), meter: id})
	p.load("dynset", attr(unix.NFTA_DYNSET_SET_NAME, text("__meter%d")), attr(unix.NFTA_DYNSET_SET_ID, be32(id)),
		attr(unix.NFTA_DYNSET_OP, be32(unix.NFT_DYNSET_OP_UPDATE)), attr(unix.NFTA_DYNSET_SREG_KEY, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_DYNSET_TIMEOUT, binary.BigEndian.AppendUint64(nil, uint64(timeout.Milliseconds()))))
	return nil
}

// isMeter reports whether a set has the flags of one that belongs to a rule. Packets change its elements.
func isMeter(flags []byte) bool {
	return len(flags) == 4 && binary.BigEndian.Uint32(flags)&unix.NFT_SET_ANONYMOUS != 0
}
