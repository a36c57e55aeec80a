package ipfix

import (
	"encoding/binary"
	"math"
	"net/netip"
	"strings"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/flowlog"
)

const (
	version = 10
	setLen  = 4   // of a set's header
	maxName = 256 // octets of 64 characters, which a display name has at most
	maxRule = 64  // octets of a rule's name
	tcp     = 6

	// MinRoom is the smallest message that holds any record. MaxRoom is the largest message (RFC 7011 §3.1).
	MinRoom = 520
	MaxRoom = math.MaxUint16
)

// Append appends the data record of a flow, after the id of its template, as Session.Message takes it. name is the
// display name of the app. The counts are those that the flow has beyond its last record (flowlog.Deltas).
func Append(b []byte, r flowlog.Record, name string) []byte {
	template := uint16(template6)
	if r.Local.Addr().Is4() && r.Remote.Addr().Is4() {
		template = template4
	}
	start, end := r.Start, r.End
	if start.IsZero() || start.After(end) {
		start = end
	}
	// The source is the end that began the flow. Addresses are those before translation, postNAT… those behind it.
	source, destination, natSource, natDestination := r.Local, r.Remote, r.Local, r.Remote
	sent, answered := r.Out, r.In
	if r.NAT.IsValid() {
		natSource = r.NAT
	}
	if r.Direction == netinst.Ingress {
		source, destination, natSource, natDestination = r.Remote, r.Local, r.Remote, r.Local
		sent, answered = r.In, r.Out
		if r.NAT.IsValid() {
			destination = r.NAT
		}
	}
	b = binary.BigEndian.AppendUint16(b, template)
	b = binary.BigEndian.AppendUint64(b, millis(start))
	b = binary.BigEndian.AppendUint64(b, millis(end))
	for _, a := range [...]netip.AddrPort{source, destination, natSource, natDestination} {
		b = appendAddr(b, template, a.Addr())
	}
	for _, a := range [...]netip.AddrPort{source, destination, natSource, natDestination} {
		b = binary.BigEndian.AppendUint16(b, a.Port())
	}
	for _, n := range [...]uint64{sent.Bytes, sent.Packets, answered.Bytes, answered.Packets} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	reason, event, status := how(r)
	b = append(b, r.Proto, initiator, reason, event, status)
	rule := r.Rule
	if rule == "" {
		rule = string(r.BuiltIn)
	}
	b = appendText(b, strings.Replace(r.Adapter.String(), "#", "/", 1), maxName)
	b = appendText(b, name, maxName)
	return appendText(b, rule, maxRule)
}

// how returns flowEndReason, firewallEvent and forwardingStatus of a record.
func how(r flowlog.Record) (reason, event, status byte) {
	switch {
	case r.Packet:
		return endForced, flowDenied, droppedACL
	case r.GoesOn:
		return endActive, flowUpdate, forwarded
	case r.Denied:
		return endForced, flowDeleted, forwarded
	case r.Proto == tcp:
		return endSeen, flowDeleted, forwarded
	}
	return endIdle, flowDeleted, forwarded
}

func millis(t time.Time) uint64 { return uint64(max(0, t.UnixMilli())) }

func appendAddr(b []byte, template uint16, a netip.Addr) []byte {
	if template == template4 {
		four := a.As4()
		return append(b, four[:]...)
	}
	six := a.As16()
	return append(b, six[:]...)
}

// appendText appends a field of variable length (RFC 7011 §7), cut to so many octets.
func appendText(b []byte, s string, limit int) []byte {
	s = strings.ToValidUTF8(s[:min(len(s), limit)], "")
	if len(s) < math.MaxUint8 {
		return append(append(b, byte(len(s))), s...)
	}
	return append(binary.BigEndian.AppendUint16(append(b, math.MaxUint8), uint16(len(s))), s...)
}

// Session numbers the messages of one transport session (RFC 7011 §3.1).
type Session struct {
	Domain uint32 // observation domain
	sent   uint32 // data records
}

// Message appends a message of at most room octets to an empty b: with the templates, if they are due, and with the
// first records of the list. It returns how many; the records count as sent.
func (s *Session) Message(b []byte, now time.Time, templates bool, records [][]byte, room int) (message []byte,
	taken int) {
	room = min(max(room, MinRoom), MaxRoom)
	b = binary.BigEndian.AppendUint16(b, version)
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(now.Unix()))
	b = binary.BigEndian.AppendUint32(b, s.sent)
	b = binary.BigEndian.AppendUint32(b, s.Domain)
	if templates {
		b = appendTemplates(b)
	}
	set, open := 0, uint16(0) // the set that records are added to
	for _, r := range records {
		template, more := binary.BigEndian.Uint16(r), len(r)-2
		if template != open {
			more += setLen
		}
		if len(b)+more+padded > room {
			break
		}
		if template != open {
			b = endSet(b, set)
			set, open = len(b), template
			b = append(binary.BigEndian.AppendUint16(b, template), 0, 0)
		}
		b = append(b, r[2:]...)
		taken++
	}
	b = endSet(b, set)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	s.sent += uint32(taken)
	return b, taken
}

// padded is the most that endSet adds.
const padded = 3

// endSet pads the set that begins at an offset to 4 octets, which is less than any record has, and enters its length; 0
// is no set.
func endSet(b []byte, at int) []byte {
	if at == 0 {
		return b
	}
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	binary.BigEndian.PutUint16(b[at+2:], uint16(len(b)-at))
	return b
}

func appendTemplates(b []byte) []byte {
	at := len(b)
	b = append(binary.BigEndian.AppendUint16(b, templateSet), 0, 0)
	for _, template := range []uint16{template4, template6} {
		list := fields(template)
		b = binary.BigEndian.AppendUint16(b, template)
		b = binary.BigEndian.AppendUint16(b, uint16(len(list)))
		for _, f := range list {
			element := f.element
			if f.reverse {
				element |= 1 << 15
			}
			b = binary.BigEndian.AppendUint16(b, element)
			b = binary.BigEndian.AppendUint16(b, f.length)
			if f.reverse {
				b = binary.BigEndian.AppendUint32(b, reversePEN)
			}
		}
	}
	return endSet(b, at)
}
