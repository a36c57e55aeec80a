package scenario

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"edgespan/integration/lab"
)

// While the machine can track no further flow, nobody opens one; but the node goes on asking its own
// helpers, whose answers prove that nothing of the network is broken.
func TestAFullTableOfFlowsIsNoFaultOfANetwork(t *testing.T) {
	w := newWorld(t, "web")
	named := func(name string) string {
		return doc([]string{strings.Replace(network(1, ""), "{domain: n1.edge}", "{domain: n1.edge, hosts: {"+name+": 10.1.0.9}}", 1)}, onNet(1, 1, "web", allowAll))
	}
	w.start(named("first"))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	pid := w.dnsmasq()
	limit := w.number("/proc/sys/net/netfilter/nf_conntrack_max")
	began := time.Now()
	next := 0
	fill := func(n int) {
		t.Helper()
		if err := w.inside("node", func() error { return fillFlows(next, n) }); err != nil {
			t.Fatal(err)
		}
		next += n
		w.fails("node", "ping", "-c1", "-W1", lab.Gateway)
	}
	fill(limit)
	t.Logf("%d of %d flows after %v", w.number("/proc/sys/net/netfilter/nf_conntrack_count"), limit, time.Since(began).Round(time.Millisecond))
	for _, name := range []string{"second", "third"} { // each apply has the self-test ask
		fill(500) // flows from before have ended
		w.apply(named(name))
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
		if s := w.status("ni", ni(1)); s["state"] != "Present" || s["error"] != "" {
			t.Errorf("with a full table the network is %v", s)
		}
	}
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq %s became %s", pid, now)
	}
	if events := w.cli("events"); strings.Contains(events, "Failed") {
		t.Errorf("it was not Present all the time:\n%s", events)
	}
}

// number reads one from a file in the node.
func (w *world) number(path string) int {
	w.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(w.in("node", "cat", path)))
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// fillFlows has n connections tracked in this namespace, the first of number from, that the kernel
// evicts for none: they are ASSURED (ctnetlink, linux/netfilter/nfnetlink_conntrack.h).
func fillFlows(from, n int) error {
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
				nl.NewRtAttr(nl.CTA_PROTO_SRC_PORT, nl.BEUint16Attr(sport)), nl.NewRtAttr(nl.CTA_PROTO_DST_PORT, nl.BEUint16Attr(dport))))
	}
	for i := from; i < from+n; i++ {
		src := []byte{172, 16 + byte(i>>16), byte(i >> 8), byte(i)}
		dst := []byte{198, 51, 100, 7}
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_NEW, unix.NLM_F_CREATE)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET})
		for _, a := range []*nl.RtAttr{
			tuple(nl.CTA_TUPLE_ORIG, src, dst, 5000, 7), tuple(nl.CTA_TUPLE_REPLY, dst, src, 7, 5000),
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
