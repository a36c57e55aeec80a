package nft

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// Generation returns a number that changes with every change of the namespace's ruleset, by any program and in any
// family.
func (c *Conn) Generation() (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	kind := uint16(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN)
	if err := c.send(frame(nil, kind, 0, c.seq, genmsg(unix.AF_BRIDGE, 0))); err != nil {
		return 0, fmt.Errorf("ask for the ruleset's generation: %w", err)
	}
	for {
		msgs, err := c.receive(0)
		if err != nil {
			return 0, fmt.Errorf("ask for the ruleset's generation: %w", err)
		}
		for _, m := range msgs {
			if m.Header.Seq != c.seq {
				continue // of an earlier, abandoned request
			}
			if m.Header.Type == unix.NLMSG_ERROR {
				return 0, fmt.Errorf("ask for the ruleset's generation: %w", answer(m))
			}
			if id := attrs(m)[unix.NFTA_GEN_ID]; len(id) == 4 {
				return binary.BigEndian.Uint32(id), nil
			}
		}
	}
}

// Tables returns the tables that own accepts, each as a text that changes exactly when the table does: one line per
// chain with its hook, the number of its rules and a digest of them, and one line per set. The text also says if the
// table could have an owner but has none. Other tables, which may be large, are not read.
func (c *Conn) Tables(own func(Table) bool) (map[Table]string, error) {
	return retryInterrupted(func() (map[Table]string, error) { return c.tables(own) })
}

// Claim makes this socket the owner of the tables that an earlier process left.
func (c *Conn) Claim(own func(Table) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.keepsOwned() {
		return nil
	}
	b, err := retryInterrupted(func() (batch, error) {
		b := batch{}
		for family, number := range families {
			err := c.dump(unix.NFT_MSG_GETTABLE, number, func(a map[uint16][]byte) {
				name := a[unix.NFTA_TABLE_NAME]
				if flags(a)&(flagOwner|flagPersist) == flagPersist && own(Table{family, str(name)}) {
					b.addTo(number, unix.NFT_MSG_NEWTABLE, 0, attr(unix.NFTA_TABLE_NAME, name), c.flags())
				}
			})
			if err != nil {
				return b, err
			}
		}
		return b, nil
	})
	if err == nil && len(b.msgs) > 0 {
		err = c.commit(b)
	}
	if err != nil {
		return fmt.Errorf("claim tables: %w", err)
	}
	return nil
}

func flags(table map[uint16][]byte) uint32 {
	if f := table[unix.NFTA_TABLE_FLAGS]; len(f) == 4 {
		return binary.BigEndian.Uint32(f)
	}
	return 0
}

var errInterrupted = errors.New("the dump was interrupted by a change")

// retryInterrupted repeats a dump that a change has interrupted.
func retryInterrupted[T any](dump func() (T, error)) (T, error) {
	for range maxTries - 1 {
		if v, err := dump(); !errors.Is(err, errInterrupted) {
			return v, err
		}
	}
	return dump()
}

type chainText struct {
	table Table
	name  string
	hook  string
	rules int
	sum   hash.Hash
}

func (c *Conn) tables(own func(Table) bool) (map[Table]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tables := map[Table]string{}
	for family := range families {
		if err := c.tablesOf(family, own, tables); err != nil {
			return nil, fmt.Errorf("list %s tables: %w", family, err)
		}
	}
	return tables, nil
}

// tablesOf adds the tables of one family.
func (c *Conn) tablesOf(family netstate.Family, own func(Table) bool, tables map[Table]string) error {
	type key struct {
		table Table
		name  string
	}
	keeps := c.keepsOwned()
	chains := map[key]*chainText{}
	var request []*chainText
	for _, d := range []struct {
		get uint16
		add func(a map[uint16][]byte)
	}{
		{unix.NFT_MSG_GETTABLE, func(a map[uint16][]byte) {
			t, text := Table{family, str(a[unix.NFTA_TABLE_NAME])}, ""
			if !own(t) {
				return
			}
			if keeps && flags(a)&flagOwner == 0 {
				text = "anybody's\n"
			}
			tables[t] = text
		}},
		{unix.NFT_MSG_GETCHAIN, func(a map[uint16][]byte) {
			ch := &chainText{table: Table{family, str(a[unix.NFTA_CHAIN_TABLE])}, name: str(a[unix.NFTA_CHAIN_NAME]),
				sum: sha256.New()}
			if !own(ch.table) {
				return
			}
			if a[unix.NFTA_CHAIN_HOOK] != nil {
				ch.hook = fmt.Sprintf(" hook %x policy %x", a[unix.NFTA_CHAIN_HOOK], a[unix.NFTA_CHAIN_POLICY])
			}
			chains[key{ch.table, ch.name}] = ch
			request = append(request, ch)
		}},
		{unix.NFT_MSG_GETRULE, func(a map[uint16][]byte) {
			if ch := chains[key{Table{family, str(a[unix.NFTA_RULE_TABLE])}, str(a[unix.NFTA_RULE_CHAIN])}]; ch != nil {
				ch.rules++
				_ = binary.Write(ch.sum, binary.BigEndian, uint32(len(a[unix.NFTA_RULE_EXPRESSIONS])))
				ch.sum.Write(a[unix.NFTA_RULE_EXPRESSIONS])
			}
		}},
	} {
		if err := c.dump(d.get, families[family], d.add); err != nil {
			return err
		}
	}
	slices.SortFunc(request, func(a, b *chainText) int { return strings.Compare(a.name, b.name) })
	for _, ch := range request {
		tables[ch.table] += fmt.Sprintf("chain %s%s, %d rules, %x\n", ch.name, ch.hook, ch.rules, ch.sum.Sum(nil)[:12])
	}
	return c.addSets(family, own, tables)
}

// addSets appends the sets to the texts of one family's tables.
func (c *Conn) addSets(family netstate.Family, own func(Table) bool, tables map[Table]string) error {
	ofOwn := func(table string) bool { return own(Table{family, table}) }
	err := c.setsOf(families[family], ofOwn, func(table, name, text string) {
		tables[Table{family, table}] += fmt.Sprintf("set %s, %x\n", name, sha256.Sum256([]byte(text)))
	})
	if err != nil {
		return err
	}
	for t, s := range tables {
		if t.Family == family && s == "" {
			tables[t] = "empty\n"
		}
	}
	return nil
}

// dump lists one kind of object of a family; narrow are attributes that filter the list.
func (c *Conn) dump(get uint16, family byte, add func(map[uint16][]byte), narrow ...[]byte) error {
	c.seq++
	if err := c.send(frame(nil, unix.NFNL_SUBSYS_NFTABLES<<8|get, unix.NLM_F_DUMP, c.seq,
		join(genmsg(family, 0), narrow))); err != nil {
		return err
	}
	interrupted := false
	for {
		msgs, err := c.receive(0)
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if m.Header.Seq != c.seq {
				continue
			}
			interrupted = interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				if interrupted {
					return errInterrupted
				}
				return nil
			case unix.NLMSG_ERROR:
				return answer(m)
			}
			add(attrs(m))
		}
	}
}

// attrs returns the attributes of an nfnetlink message.
func attrs(m syscall.NetlinkMessage) map[uint16][]byte {
	if len(m.Data) < 4 {
		return nil
	}
	return attributes(m.Data[4:])
}

// attributes returns attributes by type; the last one of a type counts.
func attributes(b []byte) map[uint16][]byte {
	found := map[uint16][]byte{}
	eachAttribute(b, func(kind uint16, data []byte) { found[kind] = data })
	return found
}

// eachAttribute iterates over consecutive attributes and stops at a truncated one.
func eachAttribute(b []byte, f func(kind uint16, data []byte)) {
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:n])
		b = b[min(len(b), (n+3)&^3):]
	}
}

func str(b []byte) string { return strings.TrimSuffix(string(b), "\x00") }
