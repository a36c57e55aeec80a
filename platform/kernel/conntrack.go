package kernel

import (
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
		Proto: f.Forward.Protocol,
		Src:   endpoint(f.Forward.SrcIP, f.Forward.SrcPort), Dst: endpoint(f.Forward.DstIP, f.Forward.DstPort),
		ReplySrc: endpoint(f.Reverse.SrcIP, f.Reverse.SrcPort), ReplyDst: endpoint(f.Reverse.DstIP, f.Reverse.DstPort),
	})
}

func endpoint(ip net.IP, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(addr(ip).Unmap(), port)
}

// ForgetFlows deletes the IPv4 connections that match from the kernel's table and
// returns how many, so that their next packet is judged as a new one.
func (k *Kernel) ForgetFlows(match func(netstate.Flow) bool) (int, error) {
	total := uint(0)
	_, err := retry(func() (uint, error) {
		n, err := k.h.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, judge(match))
		total += n
		return n, err
	})
	if err != nil {
		return int(total), fmt.Errorf("forget flows: %w", err)
	}
	return int(total), nil
}
