package guest

import (
	"net"
	"net/netip"
	"testing"
)

// Where an upgrade takes an app's link or route away, the kernel refuses what the app sends: it is lost.
func TestABeaconThatTheKernelRefusesCounts(t *testing.T) {
	s, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := beaconer{name: "1.1", sent: map[string]int{}}
	none := netip.MustParseAddrPort("127.0.0.1:0")
	if _, err := s.WriteToUDPAddrPort([]byte("x"), none); err == nil {
		t.Fatal("this kernel refuses nothing")
	}
	for n := range 2 {
		b.beacon(s, Target{To: "1.2", Addr: none}, n)
	}
	if b.sent["1.2:0"] != 2 {
		t.Errorf("%v", b.sent)
	}
}
