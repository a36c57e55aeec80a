package helper

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
)

// openBind returns an open bind, the endpoints of its two sockets on the loopback, and what arrives at each.
func openBind(t *testing.T) (b *bind, at []conn.Endpoint, got []chan []byte) {
	t.Helper()
	b = &bind{}
	fns, port, err := b.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if len(fns) != 2 {
		t.Skipf("%d sockets: no IPv6", len(fns))
	}
	for i, host := range []string{"127.0.0.1", "::1"} {
		e, err := b.ParseEndpoint(net.JoinHostPort(host, fmt.Sprint(port)))
		if err != nil {
			t.Fatal(err)
		}
		c := make(chan []byte, 1<<12)
		at, got = append(at, e), append(got, c)
		go func() {
			n := b.BatchSize()
			packets, sizes, eps := make([][]byte, n), make([]int, n), make([]conn.Endpoint, n)
			for i := range packets {
				packets[i] = make([]byte, 1<<16)
			}
			for {
				n, err := fns[i](packets, sizes, eps)
				if err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					return
				}
				for k := range n {
					c <- bytes.Clone(packets[k][:sizes[k]])
				}
			}
		}()
	}
	return b, at, got
}

// By turns to IPv4 and IPv6: wireguard-go's own bind sends some of these to wrong addresses.
func TestPacketsArriveAsTheyWereSent(t *testing.T) {
	from, _, _ := openBind(t)
	_, at, got := openBind(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		var sent [][]byte
		size := 1 + random.IntN(1400)
		for range 1 + random.IntN(from.BatchSize()) {
			if random.IntN(8) == 0 {
				size = 1 + random.IntN(1400)
			}
			p := make([]byte, size)
			for i := range p {
				p[i] = byte(random.Uint32())
			}
			sent = append(sent, p)
		}
		to := round % 2
		if err := from.Send(sent, at[to]); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for i, p := range sent {
			select {
			case q := <-got[to]:
				if !bytes.Equal(p, q) {
					t.Fatalf("round %d: packet %d has %d bytes, of %d: others", round, i, len(q), len(p))
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("round %d: packet %d of %d does not arrive", round, i, len(sent))
			}
		}
	}
	if len(got[0])+len(got[1]) > 0 {
		t.Error("more packets than were sent")
	}
}

func TestWhatIsSentTogether(t *testing.T) {
	for _, x := range []struct {
		sizes []int
		want  int
	}{
		{[]int{100}, 1},
		{[]int{100, 100, 100}, 3},
		{[]int{100, 100, 40}, 3},
		{[]int{100, 40, 40}, 2},
		{[]int{100, 101}, 1},
		{slicesOf(100, 10), maxSegments},
		{slicesOf(60, 1400), maxDatagram / 1400},
	} {
		var packets [][]byte
		for _, n := range x.sizes {
			packets = append(packets, make([]byte, n))
		}
		if got := together(packets); got != x.want {
			t.Errorf("%v: %d, want %d", x.sizes, got, x.want)
		}
	}
}

func slicesOf(n, size int) (out []int) {
	for range n {
		out = append(out, size)
	}
	return out
}

func TestAPortInUseIsAnError(t *testing.T) {
	b, at, _ := openBind(t)
	port := at[0].(*endpoint).Port()
	if _, _, err := (&bind{}).Open(port); err == nil {
		t.Error("opened twice")
	}
	if _, _, err := b.Open(0); !errors.Is(err, conn.ErrBindAlreadyOpen) {
		t.Errorf("opened again: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got, err := b.Open(port); err != nil || got != port {
		t.Errorf("port %d, %v", got, err)
	}
	if err := b.Send([][]byte{{1}}, &endpoint{}); err == nil {
		t.Error("sent to no address")
	}
}

// Who calls at one of several addresses is answered from that one, until it is cleared, and while it is an address of
// this machine; with a mark the route decides.
func TestAnAnswerComesFromTheAddressThatWasCalled(t *testing.T) {
	b := &bind{}
	receive, port, err := b.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	caller, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	const called = "127.0.0.42"
	to := netip.AddrPortFrom(netip.MustParseAddr(called), port)
	if _, err := caller.WriteToUDPAddrPort([]byte("call"), to); err != nil {
		t.Fatal(err)
	}
	packets, sizes, eps := [][]byte{make([]byte, 2000)}, make([]int, 1), make([]conn.Endpoint, 1)
	if n, err := receive[0](packets, sizes, eps); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	at := eps[0].(*endpoint)
	answered := func(count int) (from string) {
		t.Helper()
		if err := b.Send(slices.Repeat([][]byte{{1, 2, 3}}, count), at); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 2000)
		for range count {
			_ = caller.SetReadDeadline(time.Now().Add(10 * time.Second))
			_, a, err := caller.ReadFromUDPAddrPort(buf)
			if err != nil {
				t.Fatal(err)
			}
			from = a.Addr().String()
		}
		return from
	}
	for _, count := range []int{1, 3} {
		if got := answered(count); got != called {
			t.Errorf("%d answered from %s, want %s", count, got, called)
		}
	}
	b.mark = 1
	if got := answered(1); got == called {
		t.Error("with a mark, too")
	}
	b.mark = 0
	at.called = netip.MustParseAddr("192.0.2.77") // no host's
	if got := answered(1); got == called || at.SrcIP().IsValid() {
		t.Errorf("from %s, which is none of this machine: kept %s", got, at.SrcIP())
	}
	at.called = netip.MustParseAddr(called)
	if got := answered(1); got == called {
		t.Error("after it was cleared")
	}
}
