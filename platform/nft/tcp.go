package nft

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The parts of a TCP header (RFC 9293 §3.1, §3.2).
const (
	tcpFlagsOffset = 13
	tcpSYN         = 1 << 1
	optionMaxSeg   = 2 // the kind of the option; its value is 2 bytes behind kind and length
)

// tcpFlags matches the packets that begin a connection, in both directions: "tcp flags syn".
func (p *parser) tcpFlags() error {
	p.next()
	if p.next() != "syn" {
		return errors.New("want tcp flags syn")
	}
	p.protocol("tcp")
	p.payload(field{unix.NFT_PAYLOAD_TRANSPORT_HEADER, tcpFlagsOffset, 1})
	p.and([]byte{tcpSYN})
	p.compare(unix.NFT_CMP_NEQ, []byte{0})
	return nil
}

// maxSegment is "tcp option maxseg size set NUMBER", at the end of a rule. The kernel lowers the option and never
// raises it (nft_exthdr.c, nft_exthdr_tcp_set_eval).
func (p *parser) maxSegment() error {
	words := p.words
	p.words = nil
	if len(words) < 5 || strings.Join(words[:4], " ") != "option maxseg size set" {
		return errors.New("want tcp option maxseg size set NUMBER")
	}
	if len(words) > 5 {
		return errors.New("a word follows the size")
	}
	n, err := strconv.ParseUint(words[4], 10, 16)
	if err != nil {
		return errors.New("want tcp option maxseg size set NUMBER of 16 bits")
	}
	p.protocol("tcp")
	p.load("immediate", attr(unix.NFTA_IMMEDIATE_DREG, be32(unix.NFT_REG_1)),
		nestAttrs(unix.NFTA_IMMEDIATE_DATA, attr(unix.NFTA_DATA_VALUE, binary.BigEndian.AppendUint16(nil, uint16(n)))))
	p.load("exthdr", attr(unix.NFTA_EXTHDR_SREG, be32(unix.NFT_REG_1)), attr(unix.NFTA_EXTHDR_TYPE, []byte{optionMaxSeg}),
		attr(unix.NFTA_EXTHDR_OFFSET, be32(2)), attr(unix.NFTA_EXTHDR_LEN, be32(2)),
		attr(unix.NFTA_EXTHDR_OP, be32(unix.NFT_EXTHDR_OP_TCPOPT)))
	p.ended = true
	return nil
}
