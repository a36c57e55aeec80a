package netns_test

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
	"edgespan/platform/proc"
)

// A base chain that is deleted leads no packet to what other chains have become in the same update. The kernel has its
// old rules in force for a moment in which all else is new; an upgrade lost packets of apps then.
func TestABaseChainGoesWithoutLosingAPacket(t *testing.T) {
	t.Parallel()
	ns := netns.New(t)
	c := openNft(t, ns)
	in := nft.Table{Family: netstate.InetFamily, Name: "edgespan"}
	var filler []string // a larger change takes the kernel longer
	for i := range 300 {
		filler = append(filler, fmt.Sprintf("chain filler%d {", i), "drop", "}")
	}
	old := append([]string{"chain leaves {", "accept", "}",
		"chain out {", "type filter hook output priority 110; policy accept;", "jump leaves", "}"}, filler...)
	changed := append([]string{"chain leaves {", "drop", "}"}, filler...)
	none := func(string) bool { return false }
	stop, ended := countDrops(t, ns)
	for range 100 {
		for _, lines := range [][]string{old, changed} {
			if err := c.Update(nft.Update{Table: in, Create: true, Lines: lines, Keep: none}); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop.Store(true)
	n := <-ended
	t.Logf("%d packets sent, %d dropped", n.sent, n.dropped)
	if n.sent < 1000 || n.dropped > 0 {
		t.Errorf("%d packets sent, %d dropped, want none of many", n.sent, n.dropped)
	}
}

type sentPackets struct{ sent, dropped int }

// countDrops sends packets over lo until it is stopped. The kernel refuses one that a rule drops.
func countDrops(t *testing.T, ns *netns.NS) (stop *atomic.Bool, ended chan sentPackets) {
	t.Helper()
	var conn net.Conn
	err := proc.In(ns.Path, func() (err error) {
		conn, err = net.Dial("udp4", "127.0.0.1:9")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	stop, ended = new(atomic.Bool), make(chan sentPackets, 1)
	t.Cleanup(func() { stop.Store(true) })
	go func() {
		defer conn.Close()
		var n sentPackets
		for !stop.Load() {
			n.sent++
			if _, err := conn.Write([]byte("x")); errors.Is(err, unix.EPERM) {
				n.dropped++
			}
		}
		ended <- n
	}()
	return stop, ended
}
