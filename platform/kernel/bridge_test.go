package kernel

import (
	"bytes"
	"encoding/binary"
	"maps"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A bridge with many booleans in one attribute tells which of them its kernel knows: one that is not known has no value,
// and writing one leaves the others.
func TestABooleanOfABridgeIsOneBitOfAnAttribute(t *testing.T) {
	u32 := func(values ...uint32) (b []byte) {
		for _, v := range values {
			b = binary.NativeEndian.AppendUint32(b, v)
		}
		return b
	}
	for name, c := range map[string]struct {
		kind int
		data []byte
		want map[string]uint64
	}{
		"not set":                 {unix.IFLA_BR_MULTI_BOOLOPT, u32(0, 3), map[string]uint64{"no_linklocal_learn": 0}},
		"not set, but others":     {unix.IFLA_BR_MULTI_BOOLOPT, u32(2, 3), map[string]uint64{"no_linklocal_learn": 0}},
		"set":                     {unix.IFLA_BR_MULTI_BOOLOPT, u32(1, 1), nil},
		"set, and others":         {unix.IFLA_BR_MULTI_BOOLOPT, u32(3, 3), nil},
		"unknown to the kernel":   {unix.IFLA_BR_MULTI_BOOLOPT, u32(0, 2), nil},
		"of another kernel":       {unix.IFLA_BR_MULTI_BOOLOPT, u32(0), nil},
		"a number, and no limit":  {unix.IFLA_BR_FDB_MAX_LEARNED, u32(0), map[string]uint64{"fdb_max_learned": 0}},
		"a number, as it must be": {unix.IFLA_BR_FDB_MAX_LEARNED, u32(16384), nil},
	} {
		if got := oddAttrs(nl.NewRtAttr(c.kind, c.data).Serialize()); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for _, a := range bridgeAttrs {
		switch {
		case a.name == "no_linklocal_learn" && !bytes.Equal(a.encode(1), u32(1, 1)),
			a.name == "no_linklocal_learn" && !bytes.Equal(a.encode(0), u32(0, 1)),
			a.name == "fdb_max_learned" && !bytes.Equal(a.encode(16384), u32(16384)):
			t.Errorf("%s: 1 is %x, 0 is %x", a.name, a.encode(1), a.encode(0))
		}
		for _, v := range []uint64{0, 1} {
			if got, is := a.value(a.encode(v)); !is || got != v {
				t.Errorf("%s: %d is %d, %v", a.name, v, got, is)
			}
		}
	}
}
