// Package kernel observes and changes the links, addresses, routes, policy rules and tracked connections of one network
// namespace through netlink, and reports their changes.
//
// It never decides which objects should exist, never runs a command, and never touches an object without edgespan's
// mark: links es<n>, es<n>a<k>, es<n>v<vni> and es-doomed, tap devices and VLANs whose alias carries it, and tables and
// rules of protocol netstate.RouteProtocol. The one exception is a foreign link that an adapter or a switch network
// names: it is enslaved to an edgespan bridge and released again.
//
// Read kernel.go first: it opens the namespace and serializes changes. Then read observe.go and link.go.
package kernel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// A network has 16 tables from tableFlows+16*number for known flows; the first of them is never used.
	tableFlows    = 30000
	tablesOfFlows = 16
	tableBase     = 20000 // tables, and rules "from" (docs/architecture.md, law 3)
	ruleToBase    = 21000
	ruleSpareBase = 22000
	ruleTreeBase  = 19000 // host's rules, which lead to those of networks, up to tableBase-1; also ruleSpareBase
	ruleMaps      = 17999 // host's rule for packets that a port map has led
	ruleFlowsBase = 18000 // rules for packets of known flows
	// Rules of networks whose subnet others may have, by link and by address.
	ruleBoundBase  = 15000
	ruleAnswerBase = 16000
	// Rules for the own packets of tunnels, and the tables to which they lead; also the host's rules around them.
	ruleTunnelBase = 14000
	tableUnderlay  = 50000
	maxNumber      = 999
	maxAdapter     = 9999
	maxVNI         = 1<<24 - 1

	requestTimeout = 5 * time.Second // for one netlink answer
	worldTimeout   = 5 * requestTimeout
	dumpTries      = 20 // a busy host interrupts some dumps
)

// Kernel gives access to one network namespace.
type Kernel struct {
	ns        netns.NsHandle // None: the process's own namespace
	path      string         // path of ns, "" for the process's own
	h         *netlink.Handle
	rt        raw
	one       sync.Mutex // see change
	turn      sync.Mutex // see change and quiet
	world     *dump.Shared[world]
	addrs     *dump.Shared[addrList]
	portFlags *dump.Shared[map[int]portFlags]             // bridge ports by link index
	vlans     *dump.Shared[map[int][]netstate.VLANMember] // of bridge ports, by link index
	// rules are edgespan's own, by network instance number, as they can be deleted.
	rules    *dump.Shared[map[int][]netlink.Rule]
	observed *dump.Shared[map[int][]netstate.Rule]
	flows    *dump.Batch[*forgetting]
	reaper   *reaper
	netns    *netnsOpener
	peers    seenPeers
}

// Open opens the namespace at a path ("" for the process's own) and deletes doomed links that an earlier process left
// behind.
func Open(netnsPath string) (*Kernel, error) {
	k := &Kernel{ns: netns.None(), path: netnsPath}
	var err error
	if netnsPath != "" {
		if k.ns, err = netns.GetFromPath(netnsPath); err != nil {
			return nil, fmt.Errorf("open namespace %s: %w", netnsPath, err)
		}
	}
	if k.netns, err = newNetnsOpener(netnsPath); err != nil {
		k.Close()
		return nil, err
	}
	if k.h, err = netlink.NewHandleAt(k.ns, unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER); err != nil {
		k.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := k.h.SetSocketTimeout(requestTimeout); err != nil {
		k.Close()
		return nil, fmt.Errorf("set netlink timeout: %w", err)
	}
	if k.rt, err = k.openRaw(requestTimeout); err != nil {
		k.Close()
		return nil, err
	}
	k.share()
	if k.reaper, err = newReaper(k); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Close closes the netlink sockets and leaves the host unchanged.
func (k *Kernel) Close() {
	if k.reaper != nil {
		k.reaper.close()
	}
	if k.h != nil {
		k.h.Close()
	}
	k.rt.close()
	if k.ns.IsOpen() {
		k.ns.Close()
	}
}

// change runs one change at a time, and never during a listing. The kernel interrupts a dump on each concurrent change,
// so a listing would never finish while a thousand networks start. f must wait only for the kernel and must not list
// anything itself.
func (k *Kernel) change(f func() error) error {
	k.one.Lock() // at most one change holds up a listing, not every waiting one
	defer k.one.Unlock()
	k.turn.Lock()
	defer k.turn.Unlock()
	return f()
}

// whileUnchanged runs a listing while edgespan changes nothing. Others may still change something; retry handles that.
func whileUnchanged[T any](k *Kernel, list func() (T, error)) (T, error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	return retry(list)
}

// do sends one message that changes something and waits for the kernel's answer.
func (k *Kernel) do(what, flags int, data ...nl.NetlinkRequestData) error {
	return k.change(func() error { return k.rt.do(what, flags, data...) })
}

// retry repeats a dump that a change interrupted (NLM_F_DUMP_INTR): its result may miss or repeat objects.
func retry[T any](list func() (T, error)) (T, error) {
	var v T
	var err error
	for range dumpTries {
		if v, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return v, err
		}
	}
	return v, err
}

// raw is a route netlink socket for messages that the library doesn't support. The kernel filters dumps on it
// (NETLINK_GET_STRICT_CHK).
type raw map[int]*nl.SocketHandle

func (k *Kernel) openRaw(timeout time.Duration) (raw, error) {
	s, err := nl.GetNetlinkSocketAt(k.ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	r := raw{unix.NETLINK_ROUTE: {Socket: s}}
	tv := unix.NsecToTimeval(timeout.Nanoseconds())
	err = errors.Join(s.SetSendTimeout(&tv), s.SetReceiveTimeout(&tv), s.SetExtAck(true),
		unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1))
	if err != nil {
		r.close()
		return nil, fmt.Errorf("set up netlink: %w", err)
	}
	return r, nil
}

func (r raw) close() {
	for _, s := range r {
		s.Close()
	}
}

func (r raw) request(what, flags int, data ...nl.NetlinkRequestData) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(what, flags)
	req.Sockets = r
	for _, d := range data {
		req.AddData(d)
	}
	return req
}

// do sends one message and waits for the kernel's answer.
func (r raw) do(what, flags int, data ...nl.NetlinkRequestData) error {
	_, err := r.request(what, flags|unix.NLM_F_ACK, data...).Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// LinkNumber returns the network instance number in a link's name, and whether the name is one of edgespan's: es<n>,
// es<n>a<k>, es<n>v<vni> or evpn<n>.
func LinkNumber(name string) (int, bool) {
	if n, tunnel := netstate.VPNNumber(name); tunnel {
		return n, n <= maxNumber
	}
	rest, ok := strings.CutPrefix(name, "es")
	if !ok {
		return 0, false
	}
	num, adapter, isAdapter := strings.Cut(rest, "a")
	num, vni, isTunnel := strings.Cut(num, "v")
	n, ok := number(num, 1, maxNumber)
	if isAdapter && ok {
		_, ok = number(adapter, 0, maxAdapter)
	}
	if isTunnel && ok {
		_, ok = number(vni, 0, maxVNI)
		ok = ok && !isAdapter
	}
	return n, ok
}

// number parses a decimal between low and high in its canonical spelling.
func number(s string, low, high int) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high || strconv.Itoa(n) != s {
		return 0, false
	}
	return n, true
}

// TableNumber returns the network instance number of a route table, and whether the table is one of edgespan's (20001
// to 20999, 30017 to 45999 for known flows, and 50001 to 50999 for the own packets of tunnels).
func TableNumber(table int) (int, bool) {
	if n := table - tableUnderlay; n >= 1 && n <= maxNumber {
		return n, true
	}
	n := table - tableBase
	if of := table - tableFlows; of > 0 && of%tablesOfFlows != 0 {
		n = of / tablesOfFlows
	}
	return n, n >= 1 && n <= maxNumber
}

// PriorityNumber returns the network instance number of a policy rule's priority, 0 for host, and whether the priority
// is one of edgespan's (14000, 15000, 16000, 18000, 20000, 21000 and 22000 plus the number; host's are 14000, 15000,
// 17999, 18000, 19000 to 19999, 21000 and 22000).
func PriorityNumber(prio int) (int, bool) {
	if prio >= ruleTreeBase && prio < tableBase || prio == ruleSpareBase ||
		prio == ruleFlowsBase || prio == ruleMaps || prio == ruleToBase || prio == ruleTunnelBase ||
		prio == ruleBoundBase {
		return 0, true
	}
	for _, base := range []int{ruleTunnelBase, ruleBoundBase, ruleAnswerBase, ruleFlowsBase, tableBase, ruleToBase,
		ruleSpareBase} {
		if n := prio - base; n >= 1 && n <= maxNumber {
			return n, true
		}
	}
	return 0, false
}
