package nft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// value returns the value that a field is compared with, in network order.
func value(name, v string, f field) ([]byte, error) {
	switch {
	case (name == "ether type" || name == "vlan type") && etherTypes[v] != 0:
		return binary.BigEndian.AppendUint16(nil, etherTypes[v]), nil
	case name == "arp ptype" && v == "ip":
		return binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP), nil
	case f.length == 6:
		if mac, err := net.ParseMAC(v); err == nil && len(mac) == 6 {
			return mac, nil
		}
	case f.length == 4 || f.length == 16:
		if ip, err := netip.ParseAddr(v); err == nil && len(ip.AsSlice()) == int(f.length) {
			return ip.AsSlice(), nil
		}
	default:
		if n, err := strconv.ParseUint(v, 0, int(8*f.length)); err == nil {
			return bytes.Clone(binary.BigEndian.AppendUint32(nil, uint32(n))[4-f.length:]), nil
		}
	}
	return nil, fmt.Errorf("match %q has no value %q", name, v)
}

// prefix compares the first bits of an address: "ADDRESS/LENGTH".
func (p *parser) prefix(name string, f field, op uint32, v string) error {
	want, err := netip.ParsePrefix(v)
	if err != nil || want.Masked() != want || len(want.Addr().AsSlice()) != int(f.length) {
		return fmt.Errorf("match %q has no value %q", name, v)
	}
	ones := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if f.length == 16 {
		ones = netip.AddrFrom16([16]byte(bytes.Repeat([]byte{255}, 16)))
	}
	p.payload(f)
	p.and(netip.PrefixFrom(ones, want.Bits()).Masked().Addr().AsSlice())
	p.compare(op, want.Addr().AsSlice())
	return nil
}

// interfaceKey returns a quoted name of a link as the kernel compares it.
func interfaceKey(quoted string) ([]byte, error) {
	name, err := strconv.Unquote(quoted)
	if err != nil || name == "" || len(name) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("interface %s: want a quoted name of 1 to 15 bytes", quoted)
	}
	data := make([]byte, unix.IFNAMSIZ)
	copy(data, name)
	return data, nil
}

// raw compares bytes of the header behind IP, "@th,OFFSET,LENGTH" in bits, with a number. What they mean depends on the
// protocol: that of a match of a field of that header before it, or any. "@nh,OFFSET,LENGTH" reads from the header of
// IP on. "& MASK" after it selects some of the bits.
func (p *parser) raw(word string) error {
	var offset, length uint32
	base, bits, _ := strings.Cut(word, ",")
	if n, err := fmt.Sscanf(bits, "%d,%d", &offset, &length); n != 2 || err != nil ||
		bits != fmt.Sprintf("%d,%d", offset, length) || base != "@th" && base != "@nh" {
		return fmt.Errorf("match %q is unknown", word)
	}
	header := uint32(unix.NFT_PAYLOAD_TRANSPORT_HEADER)
	switch {
	case base == "@nh" && p.ether == "":
		return fmt.Errorf("match %q without ether type before it", word)
	case base == "@nh":
		header = unix.NFT_PAYLOAD_NETWORK_HEADER
	}
	if offset%8 != 0 || length%8 != 0 || length == 0 || length > 128 {
		return fmt.Errorf("match %q has no value: must be whole bytes", word)
	}
	number := func(v string) ([]byte, error) {
		n, isNumber := new(big.Int).SetString(v, 0)
		if !isNumber || n.Sign() < 0 || n.BitLen() > int(length) {
			return nil, fmt.Errorf("match %q has no value %q", word, v)
		}
		return n.FillBytes(make([]byte, length/8)), nil
	}
	var mask []byte
	if len(p.words) > 0 && p.words[0] == "&" {
		p.next()
		var err error
		if mask, err = number(p.next()); err != nil {
			return err
		}
	}
	op, v := p.operator()
	want, err := number(v)
	if err != nil {
		return err
	}
	p.payload(field{header, offset / 8, length / 8})
	p.and(mask)
	p.compare(op, want)
	return nil
}
