package nft

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// Content is a table as the kernel shows it, in texts that change exactly when the table does.
type Content struct {
	Unowned bool              // it could have an owner and has none
	Chains  map[string]string // by name: the hook, the number of rules and a digest of them
	Sets    map[string]string // by name: a digest of a set with its elements, or of a map without them
	// Elements are those of maps, sorted.
	Elements []Element
	keys     map[string][][]byte // the elements of each set
	// strange are the keys of elements of maps that edgespan could not have written, such as those that continue.
	strange map[Element][]byte
}

// Text returns the whole table as one text.
func (c Content) Text() string {
	var b strings.Builder
	if c.Unowned {
		b.WriteString("without an owner\n")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		fmt.Fprintf(&b, "chain %s%s\n", name, c.Chains[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sets)) {
		fmt.Fprintf(&b, "set %s, %s\n", name, c.Sets[name])
	}
	for _, e := range c.Elements {
		fmt.Fprintf(&b, "element of %s, %s : %s\n", e.Map, e.Key, e.Value)
	}
	if b.Len() == 0 {
		return "empty\n"
	}
	return b.String()
}

// Without returns the table without the chains that others accepts and without the elements that lead to them.
func (c Content) Without(others func(chain string) bool) Content {
	c.Chains = maps.Clone(c.Chains)
	maps.DeleteFunc(c.Chains, func(name, _ string) bool { return others(name) })
	c.Elements = slices.DeleteFunc(slices.Clone(c.Elements), func(e Element) bool {
		return e.Chain() != "" && others(e.Chain())
	})
	return c
}

// Into returns the elements that lead to a chain.
func (c Content) Into(chain string) []Element {
	var list []Element
	for _, e := range c.Elements {
		if e.Chain() == chain {
			list = append(list, e)
		}
	}
	return list
}

// Tables returns the tables that own accepts. Other tables, which may be large, are not read.
func (c *Conn) Tables(own func(Table) bool) (map[Table]Content, error) {
	return retryInterrupted(func() (map[Table]Content, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.tables(own)
	})
}

func (c *Conn) tables(own func(Table) bool) (map[Table]Content, error) {
	tables := map[Table]Content{}
	for family := range families {
		if err := c.tablesOf(family, own, tables); err != nil {
			return nil, fmt.Errorf("list %s tables: %w", family, err)
		}
	}
	return tables, nil
}

// contentOf returns one table, nil if it does not exist.
func (c *Conn) contentOf(t Table) (*Content, error) {
	tables := map[Table]Content{}
	if err := c.tablesOf(t.Family, func(x Table) bool { return x == t }, tables); err != nil {
		return nil, err
	}
	if content, ok := tables[t]; ok {
		return &content, nil
	}
	return nil, nil
}

// Read returns chains of a table, and what maps of it hold for the keys of elements. A missing chain or element is left
// out.
func (c *Conn) Read(t Table, chains []string, elements []Element) (Content, error) {
	content := Content{Chains: map[string]string{}}
	for _, name := range chains {
		text, err := retryInterrupted(func() (string, error) { return c.readChain(t, name) })
		if err != nil {
			return content, fmt.Errorf("read chain %s of table %s: %w", name, t, err)
		}
		if text != "" {
			content.Chains[name] = text
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	values, err := c.valuesOf(t, elements)
	if err != nil {
		return content, fmt.Errorf("read elements of table %s: %w", t, err)
	}
	for i, e := range elements {
		if values[i] != "" {
			content.Elements = append(content.Elements, Element{e.Map, e.Key, values[i]})
		}
	}
	sortElements(content.Elements)
	return content, nil
}

// readChain returns the text of one chain, "" if it does not exist.
func (c *Conn) readChain(t Table, name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := [][]byte{attr(unix.NFTA_RULE_TABLE, text(t.Name)), attr(unix.NFTA_RULE_CHAIN, text(name))}
	found, err := c.query([]request{{unix.NFT_MSG_GETCHAIN, join(genmsg(families[t.Family], 0), [][]byte{
		names[0], attr(unix.NFTA_CHAIN_NAME, text(name))})}})
	if err != nil || found[0][unix.NFTA_CHAIN_NAME] == nil {
		return "", err
	}
	ch := newChainText(found[0])
	if err := c.dump(unix.NFT_MSG_GETRULE, families[t.Family], ch.add, names...); errors.Is(err, unix.ENOENT) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return ch.String(), nil
}

func sortElements(list []Element) {
	slices.SortFunc(list, func(a, b Element) int {
		return cmp.Or(cmp.Compare(a.Map, b.Map), cmp.Compare(a.Key, b.Key))
	})
}

// chainText digests one chain.
type chainText struct {
	hook  string
	rules int
	sum   hash.Hash
}

func newChainText(chain attributeSet) *chainText {
	ch := &chainText{sum: sha256.New()}
	if hook := chain[unix.NFTA_CHAIN_HOOK]; hook != nil {
		ch.hook = fmt.Sprintf(" hook %x policy %x", hook, chain[unix.NFTA_CHAIN_POLICY])
	}
	return ch
}

func (ch *chainText) add(rule attributeSet) {
	ch.rules++
	_ = binary.Write(ch.sum, binary.BigEndian, uint32(len(rule[unix.NFTA_RULE_EXPRESSIONS])))
	expressions := rule[unix.NFTA_RULE_EXPRESSIONS]
	if !bytes.Contains(expressions, counterName) && !bytes.Contains(expressions, dynsetName) {
		ch.sum.Write(expressions)
		return
	}
	eachAttribute(expressions, func(_ uint16, expression []byte) {
		switch a := attributes(expression); {
		case bytes.Equal(a[unix.NFTA_EXPR_NAME], counterName):
			expression = counterName // without what it has counted
		case bytes.Equal(a[unix.NFTA_EXPR_NAME], dynsetName): // without the name that the kernel gave its set
			ch.sum.Write(dynsetName)
			eachAttribute(a[unix.NFTA_EXPR_DATA], func(kind uint16, data []byte) {
				if kind != unix.NFTA_DYNSET_SET_NAME && kind != unix.NFTA_DYNSET_SET_ID {
					_ = binary.Write(ch.sum, binary.BigEndian, kind)
					ch.sum.Write(data)
				}
			})
			return
		}
		ch.sum.Write(expression)
	})
}

var counterName, dynsetName = text("counter"), text("dynset")

func (ch *chainText) String() string {
	return fmt.Sprintf("%s, %d rules, %x", ch.hook, ch.rules, ch.sum.Sum(nil)[:12])
}

// tablesOf adds the tables of one family.
func (c *Conn) tablesOf(family netstate.Family, own func(Table) bool, tables map[Table]Content) error {
	type key struct {
		table Table
		name  string
	}
	keeps := c.keepsOwned()
	chains := map[key]*chainText{}
	for _, d := range []struct {
		get uint16
		add func(a attributeSet)
	}{
		{unix.NFT_MSG_GETTABLE, func(a attributeSet) {
			if t := (Table{family, str(a[unix.NFTA_TABLE_NAME])}); own(t) {
				tables[t] = Content{Unowned: keeps && flags(a)&flagOwner == 0, Chains: map[string]string{},
					Sets: map[string]string{}, keys: map[string][][]byte{}, strange: map[Element][]byte{}}
			}
		}},
		{unix.NFT_MSG_GETCHAIN, func(a attributeSet) {
			t := Table{family, str(a[unix.NFTA_CHAIN_TABLE])}
			if _, known := tables[t]; known {
				chains[key{t, str(a[unix.NFTA_CHAIN_NAME])}] = newChainText(a)
			}
		}},
		{unix.NFT_MSG_GETRULE, func(a attributeSet) {
			if ch := chains[key{Table{family, str(a[unix.NFTA_RULE_TABLE])}, str(a[unix.NFTA_RULE_CHAIN])}]; ch != nil {
				ch.add(a)
			}
		}},
	} {
		if err := c.dump(d.get, families[family], d.add); err != nil {
			return err
		}
	}
	for k, ch := range chains {
		tables[k.table].Chains[k.name] = ch.String()
	}
	return c.setsOf(family, tables)
}

// setsOf adds the sets and maps to one family's tables.
func (c *Conn) setsOf(family netstate.Family, tables map[Table]Content) error {
	type set struct {
		table              Table
		name, flags, types string
		isMap              bool
	}
	var sets []set
	err := c.dump(unix.NFT_MSG_GETSET, families[family], func(a attributeSet) {
		s := set{table: Table{family, str(a[unix.NFTA_SET_TABLE])}, name: str(a[unix.NFTA_SET_NAME]),
			flags: fmt.Sprintf("%x", a[unix.NFTA_SET_FLAGS])}
		if to := a[unix.NFTA_SET_DATA_TYPE]; to != nil {
			s.types, s.isMap = fmt.Sprintf(" %x %x", a[unix.NFTA_SET_KEY_TYPE], to), true
		}
		if _, known := tables[s.table]; known && !isMeter(a[unix.NFTA_SET_FLAGS]) {
			sets = append(sets, s)
		}
	})
	if err != nil {
		return err
	}
	for _, s := range sets {
		t := tables[s.table]
		var keys []string
		err := c.dump(unix.NFT_MSG_GETSETELEM, families[family], func(a attributeSet) {
			eachAttribute(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, elem []byte) {
				e := attributes(elem)
				key := attributes(e[unix.NFTA_SET_ELEM_KEY])[unix.NFTA_DATA_VALUE]
				if s.isMap {
					one := Element{s.name, keyText(key), valueText(e[unix.NFTA_SET_ELEM_DATA])}
					t.Elements = append(t.Elements, one)
					if _, err := compiledElement(one); err != nil {
						t.strange[one] = bytes.Clone(key)
					}
				} else {
					keys = append(keys, fmt.Sprintf("%x/%x", key, e[unix.NFTA_SET_ELEM_FLAGS]))
					t.keys[s.name] = append(t.keys[s.name], bytes.Clone(key)) // the next receive overwrites it
				}
			})
		}, attr(unix.NFTA_SET_ELEM_LIST_TABLE, text(s.table.Name)), attr(unix.NFTA_SET_ELEM_LIST_SET, text(s.name)))
		switch {
		case errors.Is(err, unix.ENOENT): // deleted meanwhile
			return errInterrupted
		case err != nil:
			return err
		}
		slices.Sort(keys)
		t.Sets[s.name] = fmt.Sprintf("%x", sha256.Sum256([]byte(s.flags+s.types+" "+strings.Join(keys, " "))))
		sortElements(t.Elements)
		tables[s.table] = t
	}
	return nil
}
