package netns_test

import (
	"net"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// The numbers of dropped packets are those that iptables shows, for both backends.
func TestWhatAChainHasDroppedIsRead(t *testing.T) {
	for _, backend := range []string{"nf_tables", "legacy"} {
		t.Run(backend, func(t *testing.T) {
			if backend == "legacy" {
				legacyTools(t)
			}
			l := newLab(t)
			l.ns.Exec(t, "ip", "link", "set", "lo", "up")
			for _, rule := range []string{"-N ES1-1L", "-A ES1-1L -p tcp -j RETURN", "-A ES1-1L -p udp --sport 1:65535",
				"-A ES1-1L -p udp --dport 7 -m connlimit --connlimit-above 0 --connlimit-mask 0 -j DROP",
				"-A OUTPUT -o lo -j ES1-1L"} {
				l.ns.Exec(t, append([]string{"iptables"}, strings.Fields(rule)...)...)
			}
			ids := []netstate.ID{}
			for _, name := range []string{"ES1-1L", "ES1-2L"} {
				ids = append(ids, netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: name}.ID())
			}
			for n := range uint64(3) {
				got, err := l.host.Dropped(t.Context(), owner(1), ids)
				if err != nil || len(got) != 2 || got[ids[0]] != n || got[ids[1]] != 0 {
					t.Errorf("%v, %v: want %d and 0", got, err, n)
				}
				l.ns.Do(t, func() error {
					c, err := net.Dial("udp4", "127.0.0.1:7")
					if err != nil {
						return err
					}
					defer c.Close()
					_, _ = c.Write([]byte("x")) // refused, as the packet is dropped
					return nil
				})
			}
		})
	}
}
