package nft

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Update is a change of a part of one table.
type Update struct {
	Table Table
	// Create creates the table if it is missing, owned by this socket if the kernel can keep it afterwards.
	Create bool
	// Lines are chains, sets and maps as in Replace. An existing chain keeps its handle and what leads to it, and gets
	// these rules at once; an existing set or map keeps its elements and gets these too.
	Lines []string
	// Set are elements of maps. An element of the same key is replaced.
	Set []Element
	// Unset are elements to delete; one that is missing or has another value is left.
	Unset []Element
	// Delete are chains to delete; missing ones are no error.
	Delete []string
	// Keep, if not nil, deletes whatever else is in the table: sets and chains that are neither in Lines nor kept,
	// elements of sets that are not in Lines, and elements of maps that lead to no chain that is kept.
	Keep func(chain string) bool
}

// Element is an element of a map: the key is an address or a quoted name of a link, and the value a verdict.
type Element struct{ Map, Key, Value string }

// Chain returns the chain that an element leads to, "" for none.
func (e Element) Chain() string {
	if w, chain, ok := strings.Cut(e.Value, " "); ok && (w == "jump" || w == "goto") {
		return chain
	}
	return ""
}

// Update changes parts of tables in one transaction: all of them or none. Base chains to delete lose their rules in it,
// and are deleted in a second one.
func (c *Conn) Update(us ...Update) error {
	if len(us) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, err := retryInterrupted(func() (change, error) {
		var ch change
		for _, u := range us {
			if err := c.addUpdate(&ch, u); err != nil {
				return ch, fmt.Errorf("update table %s: %w", u.Table, err)
			}
		}
		return ch, nil
	})
	if err != nil {
		return err
	}
	if err := c.make(ch); err != nil {
		return fmt.Errorf("update table %s: %w", us[0].Table, err)
	}
	return nil
}

// change is what changes in one transaction, and what is deleted in a second one, when it has no effect any more.
//
// A base chain that a transaction deletes outlives it for a moment (nf_tables_commit; seen in Linux 6.1 and 6.18):
// until the kernel has unregistered the hook, packets meet the chain's old rules, but the chains to which these jump
// are as the transaction left them. So a base chain is emptied first.
type change struct{ now, then batch }

// make sends a change.
func (c *Conn) make(ch change) error {
	for _, b := range []batch{ch.now, ch.then} {
		if len(b.msgs) == 0 {
			continue
		}
		if err := c.commit(b); err != nil {
			return err
		}
	}
	return nil
}

// addUpdate adds the messages of an update to a change. Rules and elements that lead to a deleted chain are deleted
// before it.
func (c *Conn) addUpdate(to *change, u Update) error {
	b := &to.now
	body, err := compile(u.Table.Family, u.Lines, c.setNumber)
	if err != nil {
		return err
	}
	family, name := families[u.Table.Family], text(u.Table.Name)
	var sets []string
	var stale map[string][]element
	if u.Keep != nil {
		if sets, stale, err = c.addStrays(&u, body); err != nil {
			return err
		}
	}
	unset, set, err := c.elements(u)
	if err != nil {
		return err
	}
	gone, base, err := c.there(u)
	if err != nil {
		return err
	}
	if u.Create {
		b.addTo(family, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, attr(unix.NFTA_TABLE_NAME, name), c.flags())
	}
	for _, ch := range gone {
		b.addTo(family, unix.NFT_MSG_DELRULE, 0, attr(unix.NFTA_RULE_TABLE, name), attr(unix.NFTA_RULE_CHAIN, text(ch)))
	}
	for _, s := range slices.Sorted(maps.Keys(stale)) { // before others: a set has a size
		b.addElements(family, name, s, unix.NFT_MSG_DELSETELEM, stale[s])
	}
	b.addBody(family, name, body, true)
	for _, m := range slices.Sorted(maps.Keys(unset)) {
		b.addElements(family, name, m, unix.NFT_MSG_DELSETELEM, unset[m])
	}
	for _, m := range slices.Sorted(maps.Keys(set)) {
		b.addElements(family, name, m, unix.NFT_MSG_NEWSETELEM, set[m])
	}
	for _, s := range sets {
		b.addTo(family, unix.NFT_MSG_DELSET, 0, attr(unix.NFTA_SET_TABLE, name), attr(unix.NFTA_SET_NAME, text(s)))
	}
	for _, ch := range gone {
		in := b
		if slices.Contains(base, ch) {
			in = &to.then
		}
		in.addTo(family, unix.NFT_MSG_DELCHAIN, 0, attr(unix.NFTA_CHAIN_TABLE, name), attr(unix.NFTA_CHAIN_NAME, text(ch)))
	}
	return nil
}

// addStrays adds to u what is in the table and is neither in the body nor kept, and returns such sets, and such
// elements of the body's sets.
func (c *Conn) addStrays(u *Update, body body) (sets []string, stale map[string][]element, err error) {
	content, err := c.contentOf(u.Table)
	if err != nil || content == nil {
		return nil, nil, err
	}
	stale = map[string][]element{}
	for _, s := range body.sets {
		for _, key := range content.keys[s.name] {
			if !slices.ContainsFunc(s.elements, func(e element) bool { return bytes.Equal(e.key, key) }) {
				stale[s.name] = append(stale[s.name], element{key: key})
			}
		}
	}
	declared := func(chain string) bool {
		return slices.ContainsFunc(body.chains, func(ch compiled) bool { return ch.name == chain })
	}
	for _, ch := range slices.Sorted(maps.Keys(content.Chains)) {
		if !declared(ch) && !u.Keep(ch) {
			u.Delete = append(u.Delete, ch)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(content.Sets)) {
		if !slices.ContainsFunc(body.sets, func(x compiledSet) bool { return x.name == s }) {
			sets = append(sets, s)
		}
	}
	for _, e := range content.Elements {
		if e.Value == "" || slices.Contains(sets, e.Map) {
			continue
		}
		have, _ := compiledElement(e) // without a value if its verdict is none of edgespan's
		switch want, of := body.element(e.Map, have.key); {
		case of && bytes.Equal(want.value, have.value):
		case of: // the body adds it anew
			stale[e.Map] = append(stale[e.Map], have)
		case e.Chain() != "" && u.Keep(e.Chain()):
		case content.strange[e] != nil:
			stale[e.Map] = append(stale[e.Map], element{key: content.strange[e]})
		default:
			u.Unset = append(u.Unset, e)
		}
	}
	return sets, stale, nil
}

// element returns the element of a set of the body with a key, and whether there is one.
func (b body) element(set string, key []byte) (element, bool) {
	for _, s := range b.sets {
		if s.name != set {
			continue
		}
		for _, e := range s.elements {
			if bytes.Equal(e.key, key) {
				return e, true
			}
		}
	}
	return element{}, false
}

// compiledElement returns an element in the kernel's form.
func compiledElement(e Element) (c element, err error) {
	if c.key, err = elementKey(e.Key); err == nil {
		c.value, err = elementValue(e.Value)
	}
	if err != nil {
		return c, fmt.Errorf("map %s: %w", e.Map, err)
	}
	return c, nil
}

// elements returns the elements to delete and to add, by map, after comparing them with the kernel's.
func (c *Conn) elements(u Update) (unset, set map[string][]element, err error) {
	unset, set = map[string][]element{}, map[string][]element{}
	all := slices.Concat(u.Unset, u.Set)
	if len(all) == 0 {
		return unset, set, nil
	}
	compiled := make([]element, len(all))
	for i, e := range all {
		if compiled[i], err = compiledElement(e); err != nil {
			return nil, nil, err
		}
	}
	values, err := c.valuesOf(u.Table, all)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range all {
		there, same := values[i] != "", values[i] == e.Value
		switch {
		case i < len(u.Unset) && same && !replaced(u.Set, e):
			unset[e.Map] = append(unset[e.Map], compiled[i])
		case i < len(u.Unset) || same:
		case there:
			unset[e.Map] = append(unset[e.Map], compiled[i])
			fallthrough
		default:
			set[e.Map] = append(set[e.Map], compiled[i])
		}
	}
	return unset, set, nil
}

// replaced reports whether an element's key gets a value, so that it is not deleted for itself.
func replaced(set []Element, e Element) bool {
	return slices.ContainsFunc(set, func(s Element) bool { return s.Map == e.Map && s.Key == e.Key })
}

// valuesOf returns the values that maps of a table have for the keys of elements, "" for none.
func (c *Conn) valuesOf(t Table, elements []Element) ([]string, error) {
	requests := make([]request, len(elements))
	for i, e := range elements {
		key, err := elementKey(e.Key)
		if err != nil {
			return nil, fmt.Errorf("map %s: %w", e.Map, err)
		}
		requests[i] = request{unix.NFT_MSG_GETSETELEM, join(genmsg(families[t.Family], 0), [][]byte{
			attr(unix.NFTA_SET_ELEM_LIST_TABLE, text(t.Name)), attr(unix.NFTA_SET_ELEM_LIST_SET, text(e.Map)),
			nestAttrs(unix.NFTA_SET_ELEM_LIST_ELEMENTS, nestAttrs(unix.NFTA_LIST_ELEM, data(unix.NFTA_SET_ELEM_KEY, key))),
		})}
	}
	found, err := c.query(requests)
	values := make([]string, len(elements))
	for i, a := range found {
		eachAttribute(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, elem []byte) {
			values[i] = valueText(attributes(elem)[unix.NFTA_SET_ELEM_DATA])
		})
	}
	return values, err
}

// there returns the chains of u.Delete that exist, and those of them that are base chains.
func (c *Conn) there(u Update) (list, base []string, err error) {
	requests := make([]request, len(u.Delete))
	for i, ch := range u.Delete {
		requests[i] = request{unix.NFT_MSG_GETCHAIN, join(genmsg(families[u.Table.Family], 0), [][]byte{
			attr(unix.NFTA_CHAIN_TABLE, text(u.Table.Name)), attr(unix.NFTA_CHAIN_NAME, text(ch))})}
	}
	found, err := c.query(requests)
	for i, a := range found {
		if a[unix.NFTA_CHAIN_NAME] != nil {
			list = append(list, u.Delete[i])
		}
		if a[unix.NFTA_CHAIN_HOOK] != nil {
			base = append(base, u.Delete[i])
		}
	}
	return list, base, err
}

// request asks for one object.
type request struct {
	kind uint16 // with its subsystem in the upper octet, 0 for nf_tables
	body []byte
}

// queriesAtOnce bounds the queries in flight: each answer takes some kilobytes of the receive buffer.
const queriesAtOnce = 500

// query returns the attributes of each requested object, none for a missing one.
func (c *Conn) query(requests []request) ([]attributeSet, error) {
	found := make([]attributeSet, 0, len(requests))
	for some := range slices.Chunk(requests, queriesAtOnce) {
		more, err := c.queryAtOnce(some)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func (c *Conn) queryAtOnce(requests []request) ([]attributeSet, error) {
	var out []byte
	first := c.seq + 1
	for _, r := range requests {
		c.seq++
		kind := r.kind
		if kind>>8 == 0 {
			kind |= unix.NFNL_SUBSYS_NFTABLES << 8
		}
		out = frame(out, kind, 0, c.seq, r.body)
	}
	if err := c.send(out); err != nil {
		return nil, err
	}
	found := make([]attributeSet, len(requests))
	for answered := 0; answered < len(requests); {
		msgs, err := c.receive(0)
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			if m.Header.Seq < first || m.Header.Seq > c.seq {
				continue // of an earlier, abandoned request
			}
			answered++
			if m.Header.Type != unix.NLMSG_ERROR {
				m.Data = bytes.Clone(m.Data) // it is overwritten by the next receive
				found[m.Header.Seq-first] = attrs(m)
			} else if err := answer(m); err != nil && !errors.Is(err, unix.ENOENT) {
				return nil, err
			}
		}
	}
	return found, nil
}
