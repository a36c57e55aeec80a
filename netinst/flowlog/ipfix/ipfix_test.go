package ipfix

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/flowlog"
	"edgespan/netinst/netstate"
	"edgespan/netinst/verdict"
)

var update = flag.Bool("update", false, "write the golden")

// decoder reads messages by RFC 7011 alone: it knows no field but by the templates that it has read.
type decoder struct {
	templates map[uint16][]field
	records   []map[field]string // the octets of fields, by their elements
}

func (d *decoder) message(b []byte) error {
	if len(b) < 16 || binary.BigEndian.Uint16(b) != 10 || int(binary.BigEndian.Uint16(b[2:])) != len(b) {
		return errors.New("no message, or not of its length")
	}
	for b = b[16:]; len(b) > 0; {
		if len(b) < 4 || int(binary.BigEndian.Uint16(b[2:])) > len(b) || binary.BigEndian.Uint16(b[2:]) <= 4 {
			return fmt.Errorf("the length of a set: % x", b)
		}
		id, n := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		read := d.data
		if id == 2 {
			read = d.template
		}
		if err := read(id, b[4:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (d *decoder) template(_ uint16, b []byte) error {
	for len(b) >= 4 {
		id, n := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		b = b[4:]
		var list []field
		for range n {
			if len(b) < 4 {
				return errors.New("a template ends too early")
			}
			f := field{element: binary.BigEndian.Uint16(b), length: binary.BigEndian.Uint16(b[2:])}
			b = b[4:]
			if f.element&0x8000 != 0 {
				if len(b) < 4 || binary.BigEndian.Uint32(b) != 29305 {
					return errors.New("not the enterprise of reverse elements")
				}
				f.element, f.reverse, b = f.element&0x7fff, true, b[4:]
			}
			list = append(list, f)
		}
		d.templates[id] = list
	}
	return nil
}

func (d *decoder) data(id uint16, b []byte) error {
	list := d.templates[id]
	if list == nil {
		return fmt.Errorf("no template %d", id)
	}
	for len(b) > 3 { // less is padding
		r := map[field]string{{element: 0, length: id}: ""}
		for _, f := range list {
			n := int(f.length)
			if n == 65535 {
				n, b = int(b[0]), b[1:]
				if n == 255 {
					n, b = int(binary.BigEndian.Uint16(b)), b[2:]
				}
			}
			if n > len(b) {
				return errors.New("a record ends too early")
			}
			r[field{element: f.element, reverse: f.reverse}], b = string(b[:n]), b[n:]
		}
		d.records = append(d.records, r)
	}
	if strings.Trim(string(b), "\x00") != "" {
		return errors.New("padding that is not 0")
	}
	return nil
}

func (d *decoder) number(r map[field]string, element uint16, reverse bool) (n uint64) {
	for _, c := range []byte(r[field{element: element, reverse: reverse}]) {
		n = n<<8 | uint64(c)
	}
	return n
}

func (d *decoder) end(r map[field]string, address, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice([]byte(r[field{element: address}]))
	return netip.AddrPortFrom(a, uint16(d.number(r, port, false)))
}

// say is a record as a sentence, with the elements by their numbers.
func (d *decoder) say(r map[field]string) string {
	source, destination, natSource, natDestination := uint16(8), uint16(12), uint16(225), uint16(226)
	if _, six := r[field{element: 27}]; six {
		source, destination, natSource, natDestination = 27, 28, 281, 282
	}
	return fmt.Sprintf("%v > %v as %v > %v proto %d, %d/%d, answered %d/%d, from %d to %d, biflow %d reason %d event %d "+
		"status %d, %s %s %s", d.end(r, source, 7), d.end(r, destination, 11), d.end(r, natSource, 227),
		d.end(r, natDestination, 228), d.number(r, 4, false), d.number(r, 2, false), d.number(r, 1, false),
		d.number(r, 2, true), d.number(r, 1, true), d.number(r, 152, false), d.number(r, 153, false),
		d.number(r, 239, false), d.number(r, 136, false), d.number(r, 233, false), d.number(r, 89, false),
		r[field{element: 82}], r[field{element: 96}], r[field{element: 335}])
}

func record(local, remote, nat string) flowlog.Record {
	r := flowlog.Record{Network: uuid.UUID{1}, Adapter: netinst.AdapterKey{AppUUID: uuid.UUID{15: 7}, Index: 1},
		Direction: netinst.Egress, Proto: 6, Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote),
		Rule: "web", Out: netstate.Traffic{Packets: 3, Bytes: 300}, In: netstate.Traffic{Packets: 2, Bytes: 200},
		Start: time.UnixMilli(1000), End: time.UnixMilli(2500)}
	if nat != "" {
		r.NAT = netip.MustParseAddrPort(nat)
	}
	return r
}

func TestRecords(t *testing.T) {
	const adapter = "00000000-0000-0000-0000-000000000007/1"
	four := func(change func(*flowlog.Record)) flowlog.Record {
		r := record("10.1.0.2:4000", "192.0.2.9:443", "198.51.100.2:61000")
		change(&r)
		return r
	}
	for what, c := range map[string]struct {
		r    flowlog.Record
		want string
	}{
		"out, translated": {four(func(*flowlog.Record) {}), "10.1.0.2:4000 > 192.0.2.9:443 as 198.51.100.2:61000 > " +
			"192.0.2.9:443 proto 6, 3/300, answered 2/200, from 1000 to 2500, biflow 1 reason 3 event 2 status 64, " +
			adapter + " web-shop web"},
		"by a port map": {four(func(r *flowlog.Record) {
			r.Direction, r.NAT = netinst.Ingress, netip.MustParseAddrPort("198.51.100.2:22")
		}),
			"192.0.2.9:443 > 198.51.100.2:22 as 192.0.2.9:443 > 10.1.0.2:4000 proto 6, 2/200, answered 3/300, from 1000 " +
				"to 2500, biflow 1 reason 3 event 2 status 64, " + adapter + " web-shop web"},
		"in, of IPv6, that goes on": {func() flowlog.Record {
			r := record("[fd00::2]:80", "[2001:db8::9]:5000", "")
			r.Direction, r.GoesOn, r.Proto = netinst.Ingress, true, 17
			return r
		}(), "[2001:db8::9]:5000 > [fd00::2]:80 as [2001:db8::9]:5000 > [fd00::2]:80 proto 17, 2/200, answered 3/300, " +
			"from 1000 to 2500, biflow 1 reason 2 event 5 status 64, " + adapter + " web-shop web"},
		"that ended of itself": {four(func(r *flowlog.Record) { r.Proto, r.NAT = 17, netip.AddrPort{} }),
			"10.1.0.2:4000 > 192.0.2.9:443 as 10.1.0.2:4000 > 192.0.2.9:443 proto 17, 3/300, answered 2/200, from 1000 to " +
				"2500, biflow 1 reason 1 event 2 status 64, " + adapter + " web-shop web"},
		"that the rules allow no more, of unknown begin": {four(func(r *flowlog.Record) {
			r.Denied, r.Start = true, time.Time{}
		}), "10.1.0.2:4000 > 192.0.2.9:443 as 198.51.100.2:61000 > 192.0.2.9:443 proto 6, 3/300, answered 2/200, from 2500 " +
			"to 2500, biflow 1 reason 4 event 2 status 64, " + adapter + " web-shop web"},
		"a denied packet, by no rule": {four(func(r *flowlog.Record) {
			r.Packet, r.Denied, r.Rule, r.BuiltIn, r.NAT = true, true, "", verdict.ImplicitDrop, netip.AddrPort{}
			r.Out, r.In = netstate.Traffic{Packets: 1, Bytes: 60}, netstate.Traffic{}
		}), "10.1.0.2:4000 > 192.0.2.9:443 as 10.1.0.2:4000 > 192.0.2.9:443 proto 6, 1/60, answered 0/0, from 1000 to " +
			"2500, biflow 1 reason 4 event 3 status 129, " + adapter + " web-shop implicit-drop"},
	} {
		d := &decoder{templates: map[uint16][]field{}}
		s := Session{Domain: 1}
		m, taken := s.Message(nil, time.Unix(9, 0), true, [][]byte{Append(nil, c.r, "web-shop")}, MinRoom)
		if err := d.message(m); err != nil || taken != 1 || len(d.records) != 1 {
			t.Fatalf("%s: %v, %d records", what, err, len(d.records))
		}
		if got := d.say(d.records[0]); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, c.want)
		}
	}
}

// TestTheMessageIsAsBefore compares all octets of a message with those that a collector has read.
func TestTheMessageIsAsBefore(t *testing.T) {
	records := [][]byte{
		Append(nil, record("10.1.0.2:4000", "192.0.2.9:443", "198.51.100.2:61000"), "web"),
		Append(nil, record("10.1.0.2:4001", "192.0.2.9:443", ""), strings.Repeat("☃", 64)),
		Append(nil, record("[fd00::2]:80", "[2001:db8::9]:5000", ""), ""),
	}
	s := Session{Domain: 0xd0d1d2d3, sent: 0xffffffff}
	m, _ := s.Message(nil, time.Unix(0x60000000, 0), true, records, 1400)
	got := hex.Dump(m)
	const path = "testdata/message.golden"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%v\n%s", err, got)
	}
	if s.sent != 2 {
		t.Errorf("the next message has the number %d", s.sent)
	}
}

func TestAMessageIsNoLargerThanItsRoom(t *testing.T) {
	const templateLen = 240
	longest := record("[fd00::2]:80", "[2001:db8::9]:5000", "")
	longest.Adapter.Index, longest.Rule = 999, strings.Repeat("r", 64)
	records := [][]byte{Append(nil, longest, strings.Repeat("🐘", 64))}
	s := Session{}
	if m, taken := s.Message(nil, time.Unix(0, 0), false, records, 0); taken != 1 || len(m) > MinRoom {
		t.Errorf("the longest record: %d taken, %d octets", taken, len(m))
	}
	for range 500 {
		records = append(records, records[0])
	}
	for _, room := range []int{MinRoom, 1232, 1472, MaxRoom + 1} {
		m, taken := s.Message(nil, time.Unix(0, 0), true, records, room)
		if len(m) > room || taken < (room-templateLen)/len(records[0])-1 {
			t.Errorf("%d octets and %d records in a room of %d", len(m), taken, room)
		}
	}
	if m, taken := s.Message(nil, time.Unix(0, 0), false, nil, 0); len(m) != 16 || taken != 0 {
		t.Errorf("without records: % x", m)
	}
}

// FuzzMessages decodes messages again: no record is lost, changed or sent twice.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{10, 1, 0, 2}, []byte{192, 0, 2, 9}, uint16(1), uint16(2), uint64(3), int64(4), "web", "rule",
		uint16(600), uint8(5))
	f.Add(make([]byte, 16), []byte{15: 1}, uint16(0), uint16(2), uint64(1)<<63, int64(-4), "\xff\xfe", "", uint16(1500),
		uint8(40))
	f.Fuzz(func(t *testing.T, local, remote []byte, port, rport uint16, bytes uint64, at int64, name, rule string,
		room uint16, n uint8) {
		l, ok1 := netip.AddrFromSlice(local)
		m, ok2 := netip.AddrFromSlice(remote)
		if !ok1 || !ok2 || l.Is4() != m.Is4() {
			t.Skip("no ends of a flow")
		}
		r := flowlog.Record{Local: netip.AddrPortFrom(l, port), Remote: netip.AddrPortFrom(m, rport), Rule: rule,
			Out: netstate.Traffic{Bytes: bytes, Packets: bytes / 2}, End: time.UnixMilli(at)}
		var list [][]byte
		for i := range int(n) {
			r.Proto = uint8(i)
			list = append(list, Append(nil, r, name))
		}
		d, s := &decoder{templates: map[uint16][]field{}}, Session{}
		for first := true; first || len(list) > 0; first = false {
			before := len(d.records)
			message, taken := s.Message(nil, time.Unix(0, 0), first, list, int(room))
			if err := d.message(message); err != nil || len(message) > max(int(room), MinRoom) {
				t.Fatalf("%v, %d octets in %d: % x", err, len(message), room, message)
			}
			if len(d.records)-before != taken || taken == 0 && !first {
				t.Fatalf("%d records in the message, %d taken", len(d.records)-before, taken)
			}
			list = list[taken:]
		}
		if len(d.records) != int(n) || s.sent != uint32(n) {
			t.Fatalf("%d records of %d, %d counted", len(d.records), n, s.sent)
		}
		for i, got := range d.records {
			source, destination := uint16(8), uint16(12)
			if !l.Is4() {
				source, destination = 27, 28
			}
			if d.end(got, source, 7) != r.Local || d.end(got, destination, 11) != r.Remote || d.number(got, 1, false) != bytes ||
				d.number(got, 1, true) != 0 || d.number(got, 4, false) != uint64(i) ||
				d.number(got, 153, false) != uint64(max(0, at)) {
				t.Fatalf("%s, of %+v", d.say(got), r)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	r, buf := record("10.1.0.2:4000", "192.0.2.9:443", "198.51.100.2:61000"), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], r, "web")
	}
}
