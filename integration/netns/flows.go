package netns

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// FillFlows adds n tracked UDP connections to the current namespace, numbered from from, half of them to port 7 and
// half to port 8. The kernel does not evict them, since they are ASSURED (ctnetlink,
// linux/netfilter/nfnetlink_conntrack.h).
func FillFlows(from, n int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	const status = 1<<1 | 1<<2 | 1<<3 // IPS_SEEN_REPLY, IPS_ASSURED, IPS_CONFIRMED
	nested := func(kind int, parts ...nl.NetlinkRequestData) *nl.RtAttr {
		a := nl.NewRtAttr(kind|unix.NLA_F_NESTED, nil)
		for _, p := range parts {
			a.AddChild(p)
		}
		return a
	}
	tuple := func(kind int, src, dst []byte, sport, dport uint16) *nl.RtAttr {
		return nested(kind,
			nested(nl.CTA_TUPLE_IP, nl.NewRtAttr(nl.CTA_IP_V4_SRC, src), nl.NewRtAttr(nl.CTA_IP_V4_DST, dst)),
			nested(nl.CTA_TUPLE_PROTO, nl.NewRtAttr(nl.CTA_PROTO_NUM, []byte{unix.IPPROTO_UDP}),
				nl.NewRtAttr(nl.CTA_PROTO_SRC_PORT, nl.BEUint16Attr(sport)),
				nl.NewRtAttr(nl.CTA_PROTO_DST_PORT, nl.BEUint16Attr(dport))))
	}
	for i := from; i < from+n; i++ {
		src := []byte{172, 16 + byte(i>>16), byte(i >> 8), byte(i)}
		dst, port := []byte{198, 51, 100, 7}, uint16(7+i%2)
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_NEW, unix.NLM_F_CREATE)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET})
		for _, a := range []*nl.RtAttr{
			tuple(nl.CTA_TUPLE_ORIG, src, dst, 5000, port), tuple(nl.CTA_TUPLE_REPLY, dst, src, port, 5000),
			nl.NewRtAttr(nl.CTA_TIMEOUT, nl.BEUint32Attr(600)), nl.NewRtAttr(nl.CTA_STATUS, nl.BEUint32Attr(status)),
		} {
			req.AddData(a)
		}
		if err := unix.Sendto(fd, req.Serialize(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return fmt.Errorf("flow %d: %w", i, os.NewSyscallError("sendto", err))
		}
	}
	return nil
}
