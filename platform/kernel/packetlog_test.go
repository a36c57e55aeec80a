package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
)

// logged is a message of nfnetlink_log.
func logged(prefix string, packet []byte) []byte {
	b := []byte{2, 0, 0, 0}
	b = appendAttr(b, ulogPrefix, append([]byte(prefix), 0))
	return appendAttr(b, ulogPayload, packet)
}

func head4(proto byte, options int, fragment uint16, payload ...byte) []byte {
	b := make([]byte, 20+options)
	b[0], b[9] = byte(0x45+options/4), proto
	binary.BigEndian.PutUint16(b[2:], 1234)
	binary.BigEndian.PutUint16(b[6:], fragment)
	copy(b[12:], []byte{10, 0, 0, 1, 192, 0, 2, 9})
	return append(b, payload...)
}

func head6(next byte, payload ...byte) []byte {
	b := make([]byte, 40)
	b[0], b[6], b[23], b[39] = 0x60, next, 1, 2
	binary.BigEndian.PutUint16(b[4:], 100)
	return append(b, payload...)
}

func TestDeniedPacketsAreRead(t *testing.T) {
	ports := []byte{0x0f, 0xa0, 0, 80}
	fragment := func(next byte, offset byte) []byte { return []byte{next, 0, 0, offset, 0, 0, 0, 1} }
	for what, x := range map[string]struct {
		packet []byte
		want   string
	}{
		"tcp":                          {head4(6, 0, 0, ports...), "6 10.0.0.1:4000 > 192.0.2.9:80 1234"},
		"with options":                 {head4(17, 8, 0, ports...), "17 10.0.0.1:4000 > 192.0.2.9:80 1234"},
		"icmp":                         {head4(1, 0, 0, 8, 0, 0, 0), "1 10.0.0.1:0 > 192.0.2.9:0 1234"},
		"first fragment":               {head4(17, 0, 0x2000, ports...), "17 10.0.0.1:4000 > 192.0.2.9:80 1234"},
		"later fragment":               {head4(17, 0, 5, ports...), "17 10.0.0.1:0 > 192.0.2.9:0 1234"},
		"cut before the ports":         {head4(17, 0, 0), "17 10.0.0.1:0 > 192.0.2.9:0 1234"},
		"options longer than it":       {append([]byte{0x4f}, head4(17, 0, 0, ports...)[1:]...), "17 10.0.0.1:0 > 192.0.2.9:0 1234"},
		"IPv6":                         {head6(17, ports...), "17 [::1]:4000 > [::2]:80 140"},
		"IPv6 with options":            {head6(60, slices.Concat([]byte{6, 0, 1, 4, 0, 0, 0, 0}, ports)...), "6 [::1]:4000 > [::2]:80 140"},
		"first fragment of IPv6":       {head6(44, append(fragment(17, 1), ports...)...), "17 [::1]:4000 > [::2]:80 140"},
		"later fragment of IPv6":       {head6(44, append(fragment(17, 8), ports...)...), "17 [::1]:0 > [::2]:0 140"},
		"endless headers":              {head6(60, slices.Repeat([]byte{60, 0, 0, 0, 0, 0, 0, 0}, 20)...), "60 [::1]:0 > [::2]:0 140"},
		"a header longer than it says": {head6(60, 6, 255, 0, 0, 0, 0, 0, 0), "60 [::1]:0 > [::2]:0 140"},
		"no packet":                    {nil, ""},
		"a short one":                  {head4(6, 0, 0)[:19], ""},
		"a short one of IPv6":          {head6(6)[:39], ""},
		"of another version":           {append([]byte{0x55}, head6(6)...), ""},
	} {
		p, ok := parseLogged(logged("ES1-2XE", x.packet), time.Unix(1, 0))
		got := ""
		if ok {
			got = fmt.Sprintf("%d %v > %v %d", p.Proto, p.Src, p.Dst, p.Bytes)
		}
		if got != x.want || ok && p.Chain != "ES1-2XE" {
			t.Errorf("%s: %q of %q, want %q", what, got, p.Chain, x.want)
		}
	}
}

// FuzzLogged reads what no kernel sends.
func FuzzLogged(f *testing.F) {
	f.Add(logged("ES1-2XE", head4(6, 0, 0, 1, 2, 3, 4)))
	f.Add(logged("", head6(44, 60, 0, 0, 1, 0, 0, 0, 0, 6, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseLogged(b, time.Unix(1, 0)); ok && (!p.Src.IsValid() || !p.Dst.IsValid()) {
			t.Errorf("%x: no ends: %+v", b, p)
		}
		if e, ok := parseEnded(b, time.Unix(1, 0)); ok && (!e.Src.IsValid() || !e.Dst.IsValid() || e.End.IsZero()) {
			t.Errorf("%x: no ends: %+v", b, e)
		}
	})
}
