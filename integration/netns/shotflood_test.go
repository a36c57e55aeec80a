package netns_test

import (
	"context"
	"net"
	"testing"
	"time"

	"edgespan/netinst/probe"
	shots "edgespan/platform/probe"

	"golang.org/x/sys/unix"
)

// A neighbour that floods the node with replies of its gateway, each for another host, wakes no shot and uses up no
// budget of a metered port.
func TestAFloodOfForgedARPRepliesIsNotRead(t *testing.T) {
	u := newUplinks(t)
	u.isp[0].Exec(t, "ip", "link", "set", "eth0", "arp", "off")
	flood, at := -1, unix.SockaddrLinklayer{Protocol: 0x0608, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	u.isp[0].Do(t, func() error {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		at.Ifindex = i.Index
		flood, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	defer unix.Close(flood)
	const gateway, node = "\x02\x00\x00\x00\x00\x66\xc0\x00\x02\x01", "\x02\x00\x00\x00\x00\x77\xc0\x00\x02\x02"
	forged := []byte("\x00\x01\x08\x00\x06\x04\x00\x02" + gateway + node)
	sent, stop, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if unix.Sendto(flood, forged, 0, &at) == nil {
					sent++
				}
				if sent%50 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
	defer cancel()
	_, bytes, err := shots.Shoot(ctx, u.node.Path, probe.ID{IfName: "wan0", Method: probe.ARP, Target: "192.0.2.1"})
	close(stop)
	<-done
	if err == nil || bytes > 100 || sent < 100 {
		t.Errorf("a shot among %d forged replies: %d bytes, %v", sent, bytes, err)
	}
	u.isp[0].Exec(t, "ip", "link", "set", "eth0", "arp", "on")
	u.succeeds(probe.ARP, "192.0.2.1")
}
