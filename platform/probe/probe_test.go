package probe

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

func TestEchoIsAnsweredBySomebodyAndNotByNobody(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::1"} {
		self := netip.MustParseAddr(a)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		took, err := Echo(ctx, self, self)
		cancel()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			t.Skipf("not here: %v", err)
		}
		if err != nil || took <= 0 {
			t.Errorf("%s answers after %v, %v", a, took, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Echo(ctx, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("240.0.0.1")); err == nil {
		t.Error("240.0.0.1 answers")
	}
	if _, err := Echo(t.Context(), netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("127.0.0.1")); err == nil ||
		errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("from an address of somebody else: %v", err)
	}
}

func TestTheSumOfRFC1071(t *testing.T) {
	if got := checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != 0x220d {
		t.Errorf("%#04x, want 0x220d", got)
	}
}
