package dnsmasq

import (
	"net/netip"
	"strings"
	"testing"
)

func TestSocketAt(t *testing.T) {
	const table = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ` +
		`ref pointer drops
  101: 0100010A:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 0
  102: 0100020A:0035 00000000:0000 07 00000000:00000300 00:00000000 00000000     0        0 4712 2 0000000000000000 0
`
	for addr, want := range map[string]struct {
		inode          string
		waiting, found bool
	}{
		"10.1.0.1:53": {"4711", false, true}, "10.2.0.1:53": {"4712", true, true}, "10.1.0.1:67": {}, "10.3.0.1:53": {},
	} {
		inode, waiting, found := socketAt(strings.NewReader(table), netip.MustParseAddrPort(addr))
		if inode != want.inode || waiting != want.waiting || found != want.found {
			t.Errorf("%s: %q, waiting %v, found %v", addr, inode, waiting, found)
		}
	}
}
