package netns_test

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"edgespan/integration/netns"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
)

var framesTable = nft.Table{Family: netstate.BridgeFamily, Name: netinst.GuardTable}

// hostPart returns host's part of the table of frames.
func hostPart() nft.Update {
	return nft.Update{Table: framesTable, Create: true, Lines: hostWords(framesTable), Keep: func(chain string) bool {
		return regexp.MustCompile(`^ES[0-9]+-`).MatchString(chain)
	}}
}

// networkPart returns the part of a network with one adapter, whose chain has a number of rules.
func networkPart(name, link string, rules int) nft.Update {
	u := nft.Update{Table: framesTable, Lines: []string{"chain " + name + " {"}}
	for range rules - 1 {
		u.Lines = append(u.Lines, "ether type ip accept")
	}
	u.Lines = append(u.Lines, "drop", "}")
	u.Set = []nft.Element{{Map: "ports", Key: `"` + link + `"`, Value: "jump " + name}}
	return u
}

func contentOf(t *testing.T, c *nft.Conn) nft.Content {
	t.Helper()
	all, err := c.Tables(func(x nft.Table) bool { return x == framesTable })
	if err != nil {
		t.Fatal(err)
	}
	return all[framesTable]
}

var handles = regexp.MustCompile(`(?m)^\t(?:chain|map) (\S+) \{ # handle (\d+)`)

// handlesOf returns the handles of the table's chains and maps.
func handlesOf(t *testing.T, ns *netns.NS) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, m := range handles.FindAllStringSubmatch(ns.Exec(t, "nft", "-a", "list", "table", "bridge", "edgespan"), -1) {
		found[m[1]] = m[2]
	}
	return found
}

// A part of a table changes without touching any other part: chains and maps keep their handles.
func TestAPartOfATableIsUpdated(t *testing.T) {
	t.Parallel()
	ns := netns.New(t)
	c := openNft(t, ns)
	update := func(us ...nft.Update) {
		t.Helper()
		if err := c.Update(us...); err != nil {
			t.Fatal(err)
		}
	}
	update(nft.Update{Table: framesTable, Delete: []string{"none"},
		Unset: []nft.Element{{Map: "ports", Key: `"es1a1"`, Value: "drop"}}}) // from a table that is not there
	if text := contentOf(t, c).Text(); text != "empty\n" {
		t.Errorf("a removal made %s", text)
	}
	if err := c.Update(networkPart("ES1-1F", "es1a1", 2)); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a network's part without host's: %v", err)
	}
	update(hostPart())
	host := contentOf(t, c).Text()
	update(networkPart("ES1-1F", "es1a1", 2), networkPart("ES2-1F", "es2a1", 3))
	both, kept := contentOf(t, c), handlesOf(t, ns)
	for range 2 { // again: the same
		update(hostPart(), networkPart("ES2-1F", "es2a1", 3), networkPart("ES1-1F", "es1a1", 2))
		if now := contentOf(t, c).Text(); now != both.Text() {
			t.Errorf("again: was\n%s\nand is\n%s", both.Text(), now)
		}
	}
	update(networkPart("ES1-1F", "es1a1", 4))
	now := contentOf(t, c)
	if now.Chains["ES1-1F"] == both.Chains["ES1-1F"] || now.Chains["ES2-1F"] != both.Chains["ES2-1F"] ||
		!slices.Equal(now.Elements, both.Elements) {
		t.Errorf("with other rules: was\n%s\nand is\n%s", both.Text(), now.Text())
	}
	for name, h := range handlesOf(t, ns) {
		if kept[name] != h {
			t.Errorf("%s had handle %q and has %s", name, kept[name], h)
		}
	}
	part, err := c.Read(framesTable, []string{"ES1-1F", "none"}, []nft.Element{{Map: "ports", Key: `"es1a1"`},
		{Map: "ports", Key: `"es9a9"`}, {Map: "none", Key: "10.1.0.1"}})
	if err != nil || len(part.Chains) != 1 || part.Chains["ES1-1F"] != now.Chains["ES1-1F"] ||
		!slices.Equal(part.Elements, now.Into("ES1-1F")) {
		t.Errorf("read alone: %+v, %v", part, err)
	}
	// Another key and another value; a value that somebody else set is left.
	moved := networkPart("ES1-1F", "es1a2", 4)
	moved.Unset = []nft.Element{{Map: "ports", Key: `"es1a1"`, Value: "jump ES1-1F"},
		{Map: "ports", Key: `"es2a1"`, Value: "jump ES1-1F"}}
	moved.Set = append(moved.Set, nft.Element{Map: "ports", Key: `"es2a1"`, Value: "drop"})
	update(moved)
	want := []nft.Element{{Map: "ports", Key: `"es1a2"`, Value: "jump ES1-1F"},
		{Map: "ports", Key: `"es2a1"`, Value: "drop"}}
	if now := contentOf(t, c).Elements; !slices.Equal(now, want) {
		t.Errorf("elements %v, want %v", now, want)
	}
	update(networkPart("ES2-1F", "es2a1", 3))
	before := contentOf(t, c).Text()
	for what, u := range map[string]nft.Update{
		"a chain that an element leads to": {Table: framesTable, Lines: []string{"chain ES1-1F {", "drop", "}"},
			Delete: []string{"ES2-1F"}},
		"a jump to nowhere": {Table: framesTable, Lines: []string{"chain ES1-1F {", "goto nowhere", "}"}},
		"an element to nowhere": {Table: framesTable, Lines: []string{"chain ES1-1F {", "drop", "}"},
			Set: []nft.Element{{Map: "ports", Key: `"es1a2"`, Value: "jump nowhere"}}},
		"a key of another type": {Table: framesTable, Set: []nft.Element{{Map: "ports", Key: "10.1.0.1", Value: "drop"}}},
		"a base chain of another hook": {Table: framesTable, Lines: []string{"chain frames {",
			"type filter hook input priority 0; policy drop;", "}"}},
		"no key": {Table: framesTable, Set: []nft.Element{{Map: "ports", Key: "es1", Value: "drop"}}},
	} {
		err := c.Update(networkPart("ES1-1F", "es1a2", 7), u)
		if now := contentOf(t, c).Text(); err == nil || now != before {
			t.Errorf("%s: %v, and the table is\n%s", what, err, now)
		}
	}
	update(nft.Update{Table: framesTable, Delete: []string{"ES1-1F", "ES2-1F", "none"}, Unset: []nft.Element{
		{Map: "ports", Key: `"es1a2"`, Value: "jump ES1-1F"}, {Map: "ports", Key: `"es2a1"`, Value: "jump ES2-1F"}}})
	if now := contentOf(t, c).Text(); now != host {
		t.Errorf("without networks: was\n%s\nand is\n%s", host, now)
	}
}

// Host's part removes what others put beside it and keeps the networks' parts.
func TestHostsPartRemovesStrays(t *testing.T) {
	t.Parallel()
	ns := netns.New(t)
	c := openNft(t, ns)
	if err := c.Update(hostPart(), networkPart("ES1-1F", "es1a1", 2)); err != nil {
		t.Fatal(err)
	}
	want := contentOf(t, c).Text()
	nft1 := func(rest string) { ns.Exec(t, append([]string{"nft"}, strings.Fields(rest)...)...) }
	c.Close()
	// A process that another test is just starting may hold the socket, and so the table, for a moment after its close.
	until(t, "the table has no owner", func() bool {
		return !strings.Contains(ns.Exec(t, "nft", "list", "table", "bridge", "edgespan"), "owner")
	})
	nft1("add chain bridge edgespan stray")
	nft1("add rule bridge edgespan stray accept")
	nft1("add chain bridge edgespan base { type filter hook prerouting priority -400 ; policy drop ; }")
	nft1("add rule bridge edgespan base jump stray")
	nft1("add set bridge edgespan some { type ipv4_addr ; }")
	nft1(`add element bridge edgespan ports { "eth0" : drop }`)
	nft1(`add element bridge edgespan ports { "eth1" : jump stray }`)
	nft1("add rule bridge edgespan frames accept")
	nft1("chain bridge edgespan node { policy drop ; }")
	c = openNft(t, ns)
	if err := c.Claim(func(nft.Table) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if contentOf(t, c).Text() == want {
		t.Fatal("nothing strays")
	}
	if err := c.Update(hostPart()); err != nil {
		t.Fatal(err)
	}
	if now := contentOf(t, c).Text(); now != want {
		t.Errorf("was\n%s\nand is\n%s", want, now)
	}
}

// A new owner waits for the end of the one before it, which a child of that process may delay, but not for one that stays.
func TestAClaimWaitsForTheEndOfTheOwner(t *testing.T) {
	t.Parallel()
	ns := netns.New(t)
	first := openNft(t, ns)
	if !first.OwnsTables() {
		t.Skip("this kernel keeps no table of an owner that has ended")
	}
	if err := first.Update(hostPart()); err != nil {
		t.Fatal(err)
	}
	next, asked := openNft(t, ns), 0
	err := next.Claim(func(nft.Table) bool {
		if asked++; asked == 3 {
			first.Close()
		}
		return true
	})
	if err != nil || asked < 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if err := openNft(t, ns).Claim(func(nft.Table) bool { return true }); !errors.Is(err, unix.EPERM) {
		t.Errorf("a claim beside an owner that stays: %v", err)
	}
}

// The parts of a thousand networks are one transaction, and so is their removal.
func TestPartsOfManyNetworks(t *testing.T) {
	ns := netns.New(t)
	c := openNft(t, ns)
	us, gone := []nft.Update{hostPart()}, nft.Update{Table: framesTable}
	for i := range 1000 {
		name, link := "ES"+strconv.Itoa(i%999+1)+"-"+strconv.Itoa(i/999+1)+"F", "es"+strconv.Itoa(i%999+1)+"a"+strconv.Itoa(i/999+1)
		u := networkPart(name, link, 8)
		us, gone.Delete, gone.Unset = append(us, u), append(gone.Delete, name), append(gone.Unset, u.Set...)
	}
	if err := c.Update(us...); err != nil {
		t.Fatal(err)
	}
	if now := contentOf(t, c); len(now.Elements) != 1000 || len(now.Into("ES999-1F")) != 1 {
		t.Errorf("%d elements", len(now.Elements))
	}
	if err := c.Update(gone); err != nil {
		t.Fatal(err)
	}
	if now := contentOf(t, c); len(now.Elements) != 0 || now.Chains["ES1-1F"] != "" {
		t.Errorf("left %s", now.Text())
	}
}

// A whole table changes in place: chains and sets keep their handles, sets lose what is not in them any more, also one
// that is full, and the table is what a new one would be.
func TestAWholeTableChangesInPlace(t *testing.T) {
	t.Parallel()
	words := func(rule string, elements ...string) []string {
		return []string{"set full {", "type ipv4_addr;", "size 2;", "elements = { " + strings.Join(elements, ", ") + " }", "}",
			"chain base {", "type filter hook input priority 0; policy accept;", "ip saddr & 255.255.255.0 @full drop", rule, "}"}
	}
	inIPv4 := func(lines []string) []string { lines[7] = "meta nfproto ipv4 " + lines[7]; return lines }
	before := inIPv4(words(`iifname "one" drop`, "10.1.0.0", "10.2.0.0"))
	before = append(before, "set gone {", "type ifname;", "}", "chain gone {", "drop", "}")
	after := inIPv4(words(`iifname "two" drop`, "10.3.0.0", "10.4.0.0"))
	changed, fresh := netns.New(t), netns.New(t)
	c, other := openNft(t, changed), openNft(t, fresh)
	if err := errors.Join(c.Replace(guardTable, before), other.Replace(guardTable, after)); err != nil {
		t.Fatal(err)
	}
	list := func(ns *netns.NS, flags ...string) string {
		return ns.Exec(t, append(append([]string{"nft"}, flags...), "list", "table", "inet", "edgespan")...)
	}
	first := list(changed, "-a")
	all := func(string) bool { return false }
	if err := c.Update(nft.Update{Table: guardTable, Create: true, Lines: after, Keep: all}); err != nil {
		t.Fatal(err)
	}
	progname := regexp.MustCompile(" # progname .*")
	if got, want := progname.ReplaceAllString(list(changed), ""), progname.ReplaceAllString(list(fresh), ""); got != want {
		t.Errorf("changed:\n%s\nfresh:\n%s", got, want)
	}
	second := list(changed, "-a")
	for _, name := range []string{"set full", "chain base"} {
		handle := regexp.MustCompile(name + ` \{ # handle \d+`)
		if a, b := handle.FindString(first), handle.FindString(second); a == "" || a != b {
			t.Errorf("%q became %q", a, b)
		}
	}
}

// A map whose elements are in the same part as the map keeps them however often the part is written, and another value
// replaces the one before.
func TestElementsOfAPartOutlastItsWrites(t *testing.T) {
	t.Parallel()
	c := openNft(t, netns.New(t))
	part := func(elements string) nft.Update {
		u := hostPart()
		u.Lines = append(slices.Clone(u.Lines), "map more {", "type ifname : verdict;", "elements = { "+elements+" }", "}",
			"chain one {", "drop", "}", "chain two {", "drop", "}")
		return u
	}
	for _, elements := range []string{
		`"a" : goto one`, `"a" : goto one`, `"a" : goto one`, `"a" : goto two, "b" : goto one`, `"b" : goto one`,
		`"b" : goto one`, `"a" : drop, "b" : goto one`, `"a" : drop, "b" : goto one`,
	} {
		if err := c.Update(part(elements)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range contentOf(t, c).Elements {
			if e.Map == "more" {
				got = append(got, e.Key+" : "+e.Value)
			}
		}
		if have := strings.Join(got, ", "); have != elements {
			t.Errorf("the map has %s, want %s", have, elements)
		}
	}
}

// What another program puts into a map, though edgespan could not have, goes with the next write of the part.
func TestStrangeElementsGo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	want := l.ns.Exec(t, "nft", "list", "table", "bridge", "edgespan")
	l.close() // the table has an owner until then
	for _, element := range []string{`"foo" : continue`, `"bar" : return`, `"es5a1" : accept`} {
		l.ns.Exec(t, "nft", "add element bridge edgespan ports { "+element+" }")
	}
	l.open()
	l.must(hostOwner, root())
	if got := l.ns.Exec(t, "nft", "list", "table", "bridge", "edgespan"); regexp.MustCompile(" # progname .*").
		ReplaceAllString(got, "") != regexp.MustCompile(" # progname .*").ReplaceAllString(want, "") {
		t.Errorf("the table was\n%s\nand is\n%s", want, got)
	}
}

// An encrypted cluster stays open for what comes through its own interface, whatever networks come and go beside it, and
// where a former release has closed it.
func TestAnEncryptedClusterStaysOpen(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	state := func(others ...int) netstate.State {
		ns := []netinst.HostNetwork{{Number: 1, Switch: true, Sealed: 23821}}
		for _, n := range others {
			ns = append(ns, netinst.HostNetwork{Number: n, Subnet: subnetOf(n)})
		}
		return netinst.HostState(ns)
	}
	const element = `"evpn1" : goto unseal-1`
	has := func() bool {
		return strings.Contains(l.ns.Exec(t, "nft", "list", "map", "inet", "edgespan", "seals"), element)
	}
	for i, want := range []netstate.State{state(), state(2), state(2, 3), state(3), state()} {
		l.must(hostOwner, want)
		if !has() {
			t.Errorf("step %d: the map of interfaces lacks that of the cluster", i)
		}
	}
	l.close() // the table has an owner until then
	l.ns.Exec(t, "nft", "delete", "element", "inet", "edgespan", "seals", `{ "evpn1" }`)
	l.open()
	l.must(hostOwner, state())
	if !has() {
		t.Error("the element is missing after a restart")
	}
}
