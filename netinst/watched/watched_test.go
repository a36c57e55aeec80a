package watched

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

func key(app int) netinst.AdapterKey { return netinst.AdapterKey{AppUUID: uuid.UUID{15: byte(app)}} }

func mac(app int) string { return fmt.Sprintf("02:00:00:00:00:%02x", app) }

// local are apps 1 to n of a local network, with the addresses 10.1.0.1 and so on.
func local(n int) (list []Adapter) {
	for app := 1; app <= n; app++ {
		list = append(list, Adapter{Key: key(app), Link: "es1", MAC: mac(app), IP: netip.AddrFrom4([4]byte{10, 1, 0, byte(app)})})
	}
	return list
}

func start() time.Time { return time.Unix(1000, 0) }

func answer(app int, name string, rcode int, addrs ...string) netstate.DNSMessage {
	m := netstate.DNSMessage{MAC: mac(app), Answer: true, Name: name, Type: "A", RCode: rcode, TTL: time.Minute, At: start()}
	for _, a := range addrs {
		m.Addresses = append(m.Addresses, netip.MustParseAddr(a))
	}
	return m
}

func (n *Network) add(ms ...netstate.DNSMessage) {
	n.Add(netstate.Messages{Link: "es1", DNS: ms})
}

func (n *Network) of(app int) Watched {
	all := n.Watched()
	if i := slices.IndexFunc(all, func(w Watched) bool { return w.Key == key(app) }); i >= 0 {
		return all[i]
	}
	return Watched{}
}

func names(w Watched) string {
	var list []string
	for _, a := range w.Recent {
		list = append(list, fmt.Sprintf("%s %dx", a.Name, a.Count))
	}
	return strings.Join(list, ", ")
}

func TestAnswersAreKeptByApp(t *testing.T) {
	n := NewNetwork()
	n.Use(local(2))
	query := answer(1, "a.test", 0)
	query.Answer = false
	n.add(query, answer(1, "a.test", 0, "192.0.2.1"), answer(2, "b.test", 3), answer(1, "c.test", 0, "192.0.2.1", "192.0.2.2"),
		answer(1, "a.test", 0, "192.0.2.3"), answer(9, "x.test", 5), answer(1, "", 2), answer(2, "b.test", 9))
	if got := names(n.of(1)) + "; " + names(n.of(2)); got != "a.test 2x, c.test 1x; b.test 2x" {
		t.Error(got)
	}
	c := n.Counts()
	if c.Queries != 1 || c.Answers != [classes]uint64{NoError: 3, NXDomain: 1, ServFail: 1, Refused: 1, OtherError: 1} {
		t.Errorf("%+v", c)
	}
	if one := n.of(1); one.Queries != 1 || one.Answers[NoError] != 3 || one.Answers[ServFail] != 1 || one.Answers[Refused] != 0 {
		t.Errorf("%+v", one)
	}
	for addr, want := range map[string]string{"192.0.2.1": "c.test", "192.0.2.2": "c.test", "192.0.2.3": "a.test", "192.0.2.9": ""} {
		if got := n.NameOf(key(1), netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is %q, want %q", addr, got, want)
		}
	}
	if got := n.NameOf(key(2), netip.MustParseAddr("192.0.2.1")); got != "" {
		t.Errorf("an app's name %q is another's", got)
	}
	if got := n.NameOf(key(3), netip.MustParseAddr("192.0.2.1")); got != "" {
		t.Errorf("no app has the name %q", got)
	}
	n.add(answer(1, "c.test", 0))
	if got := n.NameOf(key(1), netip.MustParseAddr("192.0.2.2")); got != "" {
		t.Errorf("%q has lost the address", got)
	}
}

// TestAFloodEvictsOnlyItsOwn is an app that asks for ever new names.
func TestAFloodEvictsOnlyItsOwn(t *testing.T) {
	n := NewNetwork()
	n.Limit(60)
	n.Use(local(3))
	n.add(answer(2, "kept.test", 0, "192.0.2.1"))
	for i := range 10000 {
		n.add(answer(1, fmt.Sprint("x", i, ".test"), 0, fmt.Sprintf("198.51.%d.%d", i/256%256, i%256)))
	}
	one := n.of(1)
	if len(one.Recent) != 20 || one.Evicted != 9980 || n.Counts().Evicted != 9980 || len(n.adapters[key(1)].names) != 20 ||
		len(n.adapters[key(1)].answers) != 20 || one.Recent[0].Name != "x9999.test" {
		t.Errorf("%d kept, %d evicted, %d names, the newest is %s", len(one.Recent), one.Evicted, len(n.adapters[key(1)].names),
			one.Recent[0].Name)
	}
	if got := names(n.of(2)); got != "kept.test 1x" {
		t.Errorf("the other app has %q", got)
	}
	n.Limit(1)
	if got := n.of(1); len(got.Recent) != minShare || got.Evicted != 9984 {
		t.Errorf("%d kept, %d evicted", len(got.Recent), got.Evicted)
	}
	n.Use(local(1)[:0])
	if got := n.Watched(); len(got) != 0 {
		t.Errorf("%v is left", got)
	}
}

func TestAnAdapterThatIsAnotherStartsAnew(t *testing.T) {
	n := NewNetwork()
	n.Use(local(1))
	n.add(answer(1, "a.test", 0, "192.0.2.1"))
	n.Use(local(2))
	if got := names(n.of(1)); got != "a.test 1x" {
		t.Errorf("%q is left", got)
	}
	other := local(1)
	other[0].MAC = mac(7)
	n.Use(other)
	if got := names(n.of(1)); got != "" {
		t.Errorf("%q is left", got)
	}
}

// TestASwitchIsWatchedByLink: all that comes by an adapter's link is the adapter's, but for the leases of others.
func TestASwitchIsWatchedByLink(t *testing.T) {
	n := NewNetwork()
	n.Use([]Adapter{{Key: key(1), Link: "es1a1", MAC: mac(1)}, {Key: key(2), Link: "es1a2", MAC: mac(2)}})
	ack := netstate.DHCPMessage{Type: netstate.DHCPAck, FromServer: true, MAC: mac(1), Address: netip.MustParseAddr("10.9.0.7"),
		At: start()}
	for _, link := range []string{"es1a1", "es1a2", "es9"} { // a broadcast leaves by all links
		n.Add(netstate.Messages{Link: link, DNS: []netstate.DNSMessage{answer(7, link+".test", 0)}, DHCP: []netstate.DHCPMessage{ack}})
	}
	if got := names(n.of(1)) + "; " + names(n.of(2)); got != "es1a1.test 1x; es1a2.test 1x" {
		t.Error(got)
	}
	if one, two := n.of(1).Lease, n.of(2).Lease; one.State != Assigned || two.State != "" {
		t.Errorf("%+v, %+v", one, two)
	}
}

// dhcp is a message of app 1, after some minutes.
func dhcp(kind netstate.DHCPType, minute int, addr string, lease time.Duration) netstate.DHCPMessage {
	m := netstate.DHCPMessage{Type: kind, MAC: mac(1), At: start().Add(time.Duration(minute) * time.Minute), Lease: lease}
	m.FromServer = kind == netstate.DHCPAck || kind == netstate.DHCPNak || kind == netstate.DHCPOffer
	if addr != "" {
		m.Address = netip.MustParseAddr(addr)
	}
	return m
}

func TestLeases(t *testing.T) {
	const own, hour = "10.1.0.1", time.Hour
	ack := func(minute int, addr string) netstate.DHCPMessage { return dhcp(netstate.DHCPAck, minute, addr, hour) }
	forged := ack(9, "10.1.0.66")
	forged.FromServer = false
	back := dhcp(netstate.DHCPRelease, 5, own, 0)
	for what, x := range map[string]struct {
		messages []netstate.DHCPMessage
		minute   int
		want     string
	}{
		"none":            {nil, 0, " invalid IP 0/0 "},
		"only asked":      {[]netstate.DHCPMessage{dhcp(netstate.DHCPDiscover, 0, "", 0), dhcp(netstate.DHCPOffer, 0, own, hour)}, 0, " invalid IP 0/0 "},
		"assigned":        {[]netstate.DHCPMessage{ack(0, own)}, 59, "assigned 10.1.0.1 0/0 assigned"},
		"expired":         {[]netstate.DHCPMessage{ack(0, own)}, 60, "expired 10.1.0.1 0/0 assigned"},
		"without end":     {[]netstate.DHCPMessage{dhcp(netstate.DHCPAck, 0, own, forever)}, 1 << 30, "assigned 10.1.0.1 0/0 assigned"},
		"renewed":         {[]netstate.DHCPMessage{ack(0, own), ack(30, own), ack(60, own)}, 60, "renewed 10.1.0.1 2/0 assigned"},
		"late":            {[]netstate.DHCPMessage{ack(0, own), ack(60, own)}, 60, "assigned 10.1.0.1 0/0 assigned"},
		"mismatched":      {[]netstate.DHCPMessage{ack(0, own), ack(5, "10.1.0.9")}, 5, "mismatched 10.1.0.9 0/0 mismatched 10.1.0.9"},
		"still":           {[]netstate.DHCPMessage{ack(0, "10.1.0.9"), ack(5, "10.1.0.9")}, 5, "mismatched 10.1.0.9 1/0 mismatched 10.1.0.9"},
		"released":        {[]netstate.DHCPMessage{ack(0, own), back}, 90, "released 10.1.0.1 0/0 released"},
		"declined":        {[]netstate.DHCPMessage{ack(0, own), dhcp(netstate.DHCPDecline, 1, own, 0)}, 9, "declined 10.1.0.1 0/0 declined"},
		"refused":         {[]netstate.DHCPMessage{ack(0, own), dhcp(netstate.DHCPNak, 9, "", 0)}, 90, "refused invalid IP 0/1 refused"},
		"once more":       {[]netstate.DHCPMessage{ack(0, own), back, ack(9, own)}, 9, "assigned 10.1.0.1 0/0 assigned"},
		"of no lease":     {[]netstate.DHCPMessage{back}, 9, " invalid IP 0/0 "},
		"of another one":  {[]netstate.DHCPMessage{ack(0, own), dhcp(netstate.DHCPRelease, 5, "10.1.0.9", 0)}, 9, "assigned 10.1.0.1 0/0 assigned"},
		"an inform":       {[]netstate.DHCPMessage{ack(0, own), ack(5, "")}, 9, "assigned 10.1.0.1 0/0 assigned"},
		"by an app":       {[]netstate.DHCPMessage{ack(0, own), forged}, 9, "assigned 10.1.0.1 0/0 assigned"},
		"of another app":  {[]netstate.DHCPMessage{{Type: netstate.DHCPNak, FromServer: true, MAC: mac(5)}}, 9, " invalid IP 0/0 "},
		"an unknown type": {[]netstate.DHCPMessage{dhcp("", 0, "", 0)}, 9, " invalid IP 0/0 "},
	} {
		n := NewNetwork()
		n.Use(local(1))
		n.Add(netstate.Messages{Link: "es1", DHCP: x.messages})
		l := n.of(1).Lease
		got := fmt.Sprintf("%s %v %d/%d %s", l.Current(start().Add(time.Duration(x.minute)*time.Minute)), l.Address, l.Renewals,
			l.Refusals, l.Word())
		if got != x.want {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
		total := uint64(0)
		for _, count := range n.Counts().DHCP {
			total += count
		}
		if total != uint64(len(x.messages)) {
			t.Errorf("%s: %d messages are counted", what, total)
		}
	}
}

// TestALeaseIsComparedWithTheConfig: the adapter gets another address, and the app keeps the former one for a while.
func TestALeaseIsComparedWithTheConfig(t *testing.T) {
	n := NewNetwork()
	n.Use(local(1))
	n.Add(netstate.Messages{Link: "es1", DHCP: []netstate.DHCPMessage{dhcp(netstate.DHCPAck, 0, "10.1.0.1", time.Hour)}})
	n.Changes(start())
	if n.Use(local(1)) {
		t.Error("the same adapter is a change")
	}
	moved := local(1)
	moved[0].IP = netip.MustParseAddr("10.1.0.9")
	for _, x := range []struct {
		to   []Adapter
		want string
	}{{moved, "mismatched 10.1.0.1"}, {local(1), "assigned"}} {
		if !n.Use(x.to) || n.of(1).Lease.Word() != x.want {
			t.Errorf("%q, want %q, as a change", n.of(1).Lease.Word(), x.want)
		}
		n.Changes(start())
	}
}

func TestRecordedLeasesAreTakenOver(t *testing.T) {
	n := NewNetwork()
	n.Use(local(4))
	n.Add(netstate.Messages{Link: "es1", DHCP: []netstate.DHCPMessage{dhcp(netstate.DHCPNak, 0, "", 0)}})
	at := func(app, last, minutes int) netstate.HeldLease {
		return netstate.HeldLease{MAC: mac(app), Address: netip.AddrFrom4([4]byte{10, 1, 0, byte(last)}),
			Until: start().Add(time.Duration(minutes) * time.Minute)}
	}
	if !n.Hold([]netstate.HeldLease{at(1, 1, 9), at(2, 2, 9), at(3, 77, 9), at(4, 4, 0), at(9, 9, 9)}, start()) ||
		n.Hold([]netstate.HeldLease{at(1, 1, 9)}, start()) {
		t.Error("changes are not reported")
	}
	texts := map[netinst.AdapterKey]string{}
	list, _ := n.Changes(start())
	for _, c := range list {
		texts[c.Key] = c.Text()
	}
	if len(texts) != 3 || texts[key(1)] != "refused" || texts[key(2)] != "assigned: 10.1.0.2" ||
		texts[key(3)] != "mismatched: the app has 10.1.0.77 instead of 10.1.0.3" {
		t.Errorf("%v", texts)
	}
	var got []string
	for app := 1; app <= 4; app++ {
		l := n.of(app).Lease
		got = append(got, fmt.Sprintf("%s %t", l.Word(), l.Recorded))
	}
	if want := "refused false; assigned true; mismatched 10.1.0.77 true;  false"; strings.Join(got, "; ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	n.Add(netstate.Messages{Link: "es1", DHCP: []netstate.DHCPMessage{{Type: netstate.DHCPAck, FromServer: true, MAC: mac(2),
		Address: netip.MustParseAddr("10.1.0.2"), At: start()}}})
	if l := n.of(2).Lease; l.State != Renewed || l.Recorded {
		t.Errorf("%+v", l)
	}
}

// TestChangesAreReportedAtABoundedRate is an app that takes and releases its lease every second.
func TestChangesAreReportedAtABoundedRate(t *testing.T) {
	n := NewNetwork()
	n.Use(local(2))
	reports, last, again := 0, "", time.Time{}
	const seconds = 600
	for s := range seconds {
		kind := netstate.DHCPAck
		if s%2 == 1 {
			kind = netstate.DHCPRelease
		}
		m := dhcp(kind, 0, "10.1.0.1", time.Hour)
		m.At = start().Add(time.Duration(s) * time.Second)
		changed := n.Add(netstate.Messages{Link: "es1", DHCP: []netstate.DHCPMessage{m}})
		list, due := n.Changes(m.At)
		if changed != (len(list) > 0 || !due.IsZero() && !due.Equal(again)) {
			t.Fatalf("second %d: changed is %t, reports %v, again at %v", s, changed, list, due)
		}
		again = due
		for _, c := range list {
			if reports++; c.Word == last {
				t.Fatalf("%s is reported twice", last)
			}
			last = c.Word
		}
	}
	if most := reportBurst + seconds/60; reports > most || reports < most-2 {
		t.Errorf("%d reports, want up to %d", reports, most)
	}
	list, due := n.Changes(again)
	if len(list) == 1 && list[0].Text() != "released: 10.1.0.1" {
		t.Error(list[0].Text())
	}
	if len(list) != 1 || list[0].Word != "released" || !due.IsZero() || list[0].Key != key(1) {
		t.Errorf("%v, %v; want the last state", list, due)
	}
	if list, due := n.Changes(again.Add(time.Hour)); len(list) != 0 || !due.IsZero() {
		t.Errorf("%v, %v without a change", list, due)
	}
}

func TestABudgetIsSharedByThoseThatRead(t *testing.T) {
	var b Budget
	now := start()
	read := func(of string) (n int) {
		for range 9 {
			n += b.Allow(of, now)
		}
		return n
	}
	if n := b.Allow("a", now); n != atOnce {
		t.Errorf("%d at once", n)
	}
	for i, want := range []string{"400 250 166", "166 166 166", "166 166 166"} {
		if got := fmt.Sprint(read("a"), read("b"), read("c")); got != want {
			t.Errorf("slice %d: %s, want %s", i, got, want)
		}
		now = now.Add(slice)
	}
	if got := read("a"); got != 166 {
		t.Errorf("%d of the share before", got)
	}
	now = now.Add(2 * slice)
	if got := read("a"); got != perSlice {
		t.Errorf("%d of all", got)
	}
	now = now.Add(-time.Hour) // a clock that is set back
	for i := range 1000 {
		b.Allow(fmt.Sprint(i), now)
	}
	now = now.Add(slice)
	if got := read("a"); got != minPerReader {
		t.Errorf("%d of 1000 readers'", got)
	}
}

func BenchmarkAnswer(b *testing.B) {
	n := NewNetwork()
	n.Limit(256)
	n.Use(local(1))
	m := netstate.Messages{Link: "es1", DNS: []netstate.DNSMessage{answer(1, "", 0, "192.0.2.1", "192.0.2.2")}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.DNS[0].Name = fmt.Sprint(i)
		n.Add(m)
	}
}
