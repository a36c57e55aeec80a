package kernel

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// judge adapts a function to the library's filter.
type judge func(netstate.Flow) bool

// MatchConntrackFlow says whether the flow is to be forgotten.
func (j judge) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	return j(netstate.Flow{
		Proto: f.Forward.Protocol, Zone: f.Zone,
		Src: endpoint(f.Forward.SrcIP, f.Forward.SrcPort), Dst: endpoint(f.Forward.DstIP, f.Forward.DstPort),
		ReplySrc: endpoint(f.Reverse.SrcIP, f.Reverse.SrcPort), ReplyDst: endpoint(f.Reverse.DstIP, f.Reverse.DstPort),
	})
}

func endpoint(ip net.IP, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(addr(ip).Unmap(), port)
}

// wish is what one caller wants forgotten, and what became of it.
type wish struct {
	match func(netstate.Flow) bool
	count int
	err   error
}

// ForgetFlows begins to delete the IPv4 connections that match from the kernel's table,
// so that their next packet is judged as a new one. The answer waits for the end, or for
// that of ctx, and counts them. match is called by another goroutine.
func (k *Kernel) ForgetFlows(ctx context.Context, match func(netstate.Flow) bool) (answer func() (int, error)) {
	w := &wish{match: match}
	done := k.flows.Begin(w)
	return func() (int, error) {
		var err error
		select {
		case <-done:
			err = w.err
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return 0, fmt.Errorf("forget flows: %w", err)
		}
		return w.count, nil
	}
}

// walk goes through the table once for all who have asked: it visits every bucket,
// so it costs the same for one caller as for a hundred.
func (k *Kernel) walk(wishes []*wish) {
	_, err := retry(func() (uint, error) {
		return k.h.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, judge(func(f netstate.Flow) bool {
			forget := false
			for _, w := range wishes {
				if w.match(f) {
					w.count++
					forget = true
				}
			}
			return forget
		}))
	})
	for _, w := range wishes {
		w.err = err
	}
}
