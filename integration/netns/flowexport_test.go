package netns_test

import (
	"strings"
	"testing"

	"edgespan/integration/netns"
	"edgespan/platform/flowexport"
)

// TestAnExportFollowsTheUplink sends to a collector by UDP while the host's default route moves to another uplink: the
// socket would keep the address of the first one, and the provider of the second would drop what comes from it.
func TestAnExportFollowsTheUplink(t *testing.T) {
	t.Parallel()
	ns := netns.New(t)
	for _, x := range [][]string{{"wan0", "198.51.100.2", "1"}, {"wan1", "203.0.113.2", "2"}} {
		ns.Exec(t, "ip", "link", "add", x[0], "type", "veth", "peer", "name", "far"+x[2])
		ns.Exec(t, "ip", "link", "set", "far"+x[2], "up")
		ns.Exec(t, "ip", "addr", "add", x[1]+"/24", "dev", x[0])
		ns.Exec(t, "ip", "link", "set", x[0], "up")
		ns.Exec(t, "ip", "route", "add", "default", "dev", x[0], "metric", x[2])
	}
	ns.Do(t, func() error {
		c, err := flowexport.Dial(t.Context(), "udp", "192.0.2.9:4739")
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		if err := c.Check(); err != nil {
			t.Errorf("by the first uplink: %v", err)
		}
		ns.Exec(t, "ip", "route", "del", "default", "dev", "wan0")
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), "from 203.0.113.2 now instead of 198.51.100.2") {
			t.Errorf("by the second uplink: %v", err)
		}
		return nil
	})
}
