package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func (p *parser) verdict(w string) error {
	target := ""
	if w == "goto" || w == "jump" {
		target = p.next()
	}
	v, err := verdictData(w, target)
	if err != nil {
		return err
	}
	p.load("immediate", attr(unix.NFTA_IMMEDIATE_DREG, be32(unix.NFT_REG_VERDICT)),
		nestAttrs(unix.NFTA_IMMEDIATE_DATA, v))
	return nil
}

// verdicts are the kernel's codes of the verdicts.
var verdicts = map[string]int32{"accept": 1, "drop": 0, "goto": unix.NFT_GOTO, "jump": unix.NFT_JUMP,
	"return": unix.NFT_RETURN}

// verdictData returns a verdict as an attribute of an immediate or of a map's element.
func verdictData(w, target string) ([]byte, error) {
	code, known := verdicts[w]
	if !known {
		return nil, fmt.Errorf("verdict %q is unknown", w)
	}
	var chain []byte
	if w == "goto" || w == "jump" {
		if target == "" {
			return nil, fmt.Errorf("%s names no chain", w)
		}
		chain = attr(unix.NFTA_VERDICT_CHAIN, text(target))
	}
	return nestAttrs(unix.NFTA_DATA_VERDICT, attr(unix.NFTA_VERDICT_CODE, be32(uint32(code))), chain), nil
}

// elementKey returns the quoted name of a link, an address or a zone in the kernel's form.
func elementKey(w string) ([]byte, error) {
	if strings.HasPrefix(w, `"`) {
		if strings.HasSuffix(w, `*"`) {
			return nil, fmt.Errorf("interface %s: want a quoted name without *", w)
		}
		return interfaceKey(w)
	}
	if n, err := strconv.ParseUint(w, 10, 16); err == nil {
		return host16(uint16(n)), nil
	}
	ip, err := netip.ParseAddr(w)
	if err != nil || ip.Zone() != "" {
		return nil, fmt.Errorf("%q is no address, no zone and no quoted name", w)
	}
	return ip.AsSlice(), nil
}

// keyText is the inverse of elementKey, for a map.
func keyText(key []byte) string {
	if len(key) == 2 {
		return fmt.Sprint(binary.NativeEndian.Uint16(key))
	}
	if ip, ok := netip.AddrFromSlice(key); ok && ip.Is4() {
		return ip.String()
	}
	return strconv.Quote(string(bytes.TrimRight(key, "\x00")))
}

// elementValue returns a verdict as an attribute.
func elementValue(v string) ([]byte, error) {
	w, target, _ := strings.Cut(v, " ")
	if strings.Contains(target, " ") || target != "" && w != "goto" && w != "jump" {
		return nil, fmt.Errorf("verdict %q is unknown", v)
	}
	return verdictData(w, target)
}

// valueText is the inverse of elementValue, for the content of NFTA_SET_ELEM_DATA.
func valueText(data []byte) string {
	verdict := attributes(attributes(data)[unix.NFTA_DATA_VERDICT])
	code := verdict[unix.NFTA_VERDICT_CODE]
	if len(code) != 4 {
		return ""
	}
	for w, c := range verdicts {
		if c == int32(binary.BigEndian.Uint32(code)) {
			return strings.TrimSpace(w + " " + str(verdict[unix.NFTA_VERDICT_CHAIN]))
		}
	}
	return fmt.Sprintf("verdict %x", code)
}

// verdictMap ends the rule with the verdict that a map holds for register 1; without one, the next rule follows.
func (p *parser) verdictMap(op uint32) error {
	if op != unix.NFT_CMP_EQ {
		return errors.New("vmap behind !=")
	}
	p.ended = true
	name, ok := strings.CutPrefix(p.next(), "@")
	if !ok || name == "" {
		return errors.New("want @ and the name of a map")
	}
	p.load("lookup", attr(unix.NFTA_LOOKUP_SET, text(name)), attr(unix.NFTA_LOOKUP_SREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_LOOKUP_DREG, be32(unix.NFT_REG_VERDICT)))
	return nil
}
