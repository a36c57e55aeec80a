package nft

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limitUnits are the units of a rate, in seconds.
var limitUnits = map[string]uint64{"second": 1, "minute": 60, "hour": 3600}

// limit matches packets above a rate, "limit rate over N/second burst N packets", or up to it, without "over". The
// rate may also be per minute or hour.
func (p *parser) limit() error {
	over := len(p.words) > 1 && p.words[1] == "over"
	words := p.words[:min(len(p.words), 5)]
	if over {
		words = p.words[:min(len(p.words), 6)]
	}
	p.words = p.words[len(words):]
	text := strings.Join(words, " ")
	form := "rate %d/%s burst %d packets"
	flags := uint32(0)
	if over {
		form, flags = "rate over %d/%s burst %d packets", unix.NFT_LIMIT_F_INV
	}
	var rate, burst uint32
	var unit string
	n, err := fmt.Sscanf(text, form, &rate, &unit, &burst)
	if n != 3 || err != nil || text != fmt.Sprintf(form, rate, unit, burst) || rate == 0 || limitUnits[unit] == 0 {
		return fmt.Errorf("limit %q: want rate [over] NUMBER/second burst NUMBER packets", text)
	}
	be64 := func(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
	p.load("limit", attr(unix.NFTA_LIMIT_RATE, be64(uint64(rate))), attr(unix.NFTA_LIMIT_UNIT, be64(limitUnits[unit])),
		attr(unix.NFTA_LIMIT_BURST, be32(burst)), attr(unix.NFTA_LIMIT_TYPE, be32(unix.NFT_LIMIT_PKTS)),
		attr(unix.NFTA_LIMIT_FLAGS, be32(flags)))
	return nil
}

// Attributes of the expression connlimit (linux/netfilter/nf_tables.h), which x/sys lacks.
const (
	connlimitCount = 1 // NFTA_CONNLIMIT_COUNT
	connlimitFlags = 2 // NFTA_CONNLIMIT_FLAGS
	connlimitOver  = 1 // NFT_CONNLIMIT_F_INV
)

// count matches a packet of a flow with which a rule has counted more flows than a number: "ct count over N". Flows
// that have ended are not counted.
func (p *parser) count() error {
	if over := p.next(); over != "over" {
		return fmt.Errorf("ct count %s: want ct count over NUMBER", over)
	}
	n, err := strconv.ParseUint(p.next(), 10, 32)
	if err != nil {
		return fmt.Errorf("ct count: %w", err)
	}
	p.load("connlimit", attr(connlimitCount, be32(uint32(n))), attr(connlimitFlags, be32(connlimitOver)))
	return nil
}

// log passes a copy of a packet to the listener of a group of nfnetlink_log, "log prefix NAME group N", and is the end
// of a rule; the packet goes on to the next one.
func (p *parser) log() error {
	words := strings.Join(p.words, " ")
	var prefix string
	var group uint16
	n, err := fmt.Sscanf(words, "prefix %q group %d", &prefix, &group)
	if n != 2 || err != nil || words != fmt.Sprintf("prefix %q group %d", prefix, group) || len(prefix) > maxPrefix {
		return fmt.Errorf("log %s: want log prefix NAME group NUMBER, with a name of at most %d octets", words, maxPrefix)
	}
	p.load("log", attr(unix.NFTA_LOG_GROUP, binary.BigEndian.AppendUint16(nil, group)),
		attr(unix.NFTA_LOG_PREFIX, text(prefix)))
	return nil
}

// maxPrefix is the longest prefix of what is logged, without its end (NF_LOG_PREFIXLEN).
const maxPrefix = 127
