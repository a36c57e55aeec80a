package guest

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnAppAsksForAnAddressWhenItMayBeAnotherOne(t *testing.T) {
	for name, c := range map[string]struct {
		was, then string // after 5 s
		want      time.Duration
	}{
		"no address":  {"", "", askSoon},
		"as before":   {"7 up 10.1.0.2", "7 up 10.1.0.2", askAgain},
		"a new link":  {"7 up 10.1.0.2", "8 up 10.1.0.2", 6 * time.Second},
		"no link now": {"7 up 10.1.0.2", "", 6 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			waitToAsk(t.Context(), func() string {
				if time.Since(begin) > 5*time.Second {
					return c.then
				}
				return c.was
			})
			if took := time.Since(begin); took != c.want {
				t.Errorf("%s: after %v, want %v", name, took, c.want)
			}
		})
	}
}

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
