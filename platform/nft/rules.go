package nft

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"golang.org/x/sys/unix"
)

// SumMark begins what Rules returns for a rule; no rule of iptables as text begins so.
const SumMark = "="

// verdicts that lead to a chain (linux/netfilter/nf_tables.h), as iptables spells them.
var verdictWords = map[int32]string{-3: " -j ", -4: " -g "}

// Rules returns the rules of each chain of a table of family ip, or of the given chains of it; a missing chain is left
// out. A rule is its digest, without what it has counted, and " -j CHAIN" or " -g CHAIN" if it leads to one. A list of
// the same rules by iptables takes a process, ten times as long and five times the memory.
func (c *Conn) Rules(table string, chains ...string) (map[string][]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return retryInterrupted(func() (map[string][]string, error) {
		found := map[string][]string{}
		if len(chains) == 0 {
			return found, c.addRules(found, text(table), nil)
		}
		for _, ch := range chains {
			if err := c.addRules(found, text(table), text(ch)); err != nil {
				return nil, err
			}
		}
		return found, nil
	})
}

// addRules adds the chains of a table, or one of them. Rules that others have added meanwhile to a chain that is listed
// first are not missing: their commit interrupts the dump.
func (c *Conn) addRules(found map[string][]string, table, chain []byte) error {
	narrow := [][]byte{attr(unix.NFTA_RULE_TABLE, table)}
	if chain != nil {
		a, err := c.query([]request{{unix.NFT_MSG_GETCHAIN, join(genmsg(unix.AF_INET, 0), [][]byte{
			attr(unix.NFTA_CHAIN_TABLE, table), attr(unix.NFTA_CHAIN_NAME, chain)})}})
		if err != nil || a[0][unix.NFTA_CHAIN_NAME] == nil {
			return err
		}
		found[str(chain)] = nil
		narrow = append(narrow, attr(unix.NFTA_RULE_CHAIN, chain))
	} else if err := c.dump(unix.NFT_MSG_GETCHAIN, unix.AF_INET, func(a attributeSet) {
		if bytes.Equal(a[unix.NFTA_CHAIN_TABLE], table) {
			found[str(a[unix.NFTA_CHAIN_NAME])] = nil
		}
	}); err != nil {
		return err
	}
	var last []byte // rules come chain by chain
	var name string
	err := c.dump(unix.NFT_MSG_GETRULE, unix.AF_INET, func(a attributeSet) {
		of := a[unix.NFTA_RULE_CHAIN]
		if !bytes.Equal(a[unix.NFTA_RULE_TABLE], table) || chain != nil && !bytes.Equal(of, chain) {
			return
		}
		if !bytes.Equal(of, last) {
			last, name = append(last[:0], of...), str(of)
		}
		found[name] = append(found[name], sumOf(a))
	}, narrow...)
	if errors.Is(err, unix.ENOENT) { // the table or the chain has gone meanwhile
		return nil
	}
	return err
}

// sumOf returns the digest of a rule, and where it leads to.
func sumOf(rule attributeSet) string {
	sum, to, way := sha256.New(), "", ""
	sum.Write(rule[unix.NFTA_RULE_USERDATA])
	eachAttribute(rule[unix.NFTA_RULE_EXPRESSIONS], func(_ uint16, expression []byte) {
		a := attributes(expression)
		switch {
		case bytes.Equal(a[unix.NFTA_EXPR_NAME], counterName):
			expression = counterName // without what it has counted
		case to == "" && bytes.Equal(a[unix.NFTA_EXPR_NAME], immediateName):
			data := attributes(attributes(a[unix.NFTA_EXPR_DATA])[unix.NFTA_IMMEDIATE_DATA])
			verdict := attributes(data[unix.NFTA_DATA_VERDICT])
			if code := verdict[unix.NFTA_VERDICT_CODE]; len(code) == 4 {
				way = verdictWords[int32(binary.BigEndian.Uint32(code))]
			}
			to = str(verdict[unix.NFTA_VERDICT_CHAIN])
		}
		sum.Write(expression)
	})
	text := SumMark + hex.EncodeToString(sum.Sum(nil)[:8])
	if to != "" {
		text += way + to
	}
	return text
}

var immediateName = text("immediate")
