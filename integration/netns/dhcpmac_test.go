package netns_test

import (
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dhcp"
)

// An interface that gets another MAC address would never get a lease again: servers answer to the address in the
// client's messages.
func TestADHCPSocketEndsWithItsMACAddress(t *testing.T) {
	u := newUplinks(t)
	open := func() (*dhcp.Conn, chan error) {
		c, err := dhcp.Open(u.node.Path, "wan0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Receive(t.Context(), func(netstate.DHCPReply) {}) }()
		return c, ended
	}
	discover := netstate.DHCPQuery{Type: netstate.DHCPDiscover, XID: 7}
	c, ended := open()
	if err := c.Send(discover); err != nil {
		t.Fatal(err)
	}
	u.node.Exec(t, "ip", "link", "set", "wan0", "address", "02:00:00:00:00:55")
	if err := c.Send(discover); err == nil || !strings.Contains(err.Error(), "another MAC address") {
		t.Errorf("sent with the MAC address of before: %v", err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the socket ended without a reason")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the socket is still there")
	}
	c, ended = open()
	if err := c.Send(discover); err != nil {
		t.Errorf("with the new one: %v", err)
	}
	u.node.Exec(t, "ip", "link", "del", "wan0")
	<-ended
}
