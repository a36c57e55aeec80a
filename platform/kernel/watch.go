package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	coalesce = 20 * time.Millisecond
	// Listing the host's interfaces takes at most a tenth of the time, however often others change one, but no change
	// waits longer than listRest for it.
	listShare   = 10
	listRest    = time.Second
	watchBuffer = 4 << 20 // octets: holds bursts of thousands of messages
)

// changes collects the subjects of a burst of kernel messages.
type changes struct {
	lost    bool // messages were lost: anything may have changed
	foreign bool // a foreign link, an address of one, or a route of the main table
	netns   bool
	forward bool // forwarding of a foreign link changed
	touched map[int]bool
	links   map[netstate.LinkTouch]bool
	idle    []int     // indexes of adapter links with a message that reported no change
	gone    []int     // deleted links
	at      time.Time // when the last message was read
	err     error
}

func (n *changes) join(o changes) {
	n.lost, n.foreign, n.netns, n.forward = n.lost || o.lost, n.foreign || o.foreign, n.netns || o.netns, n.forward ||
		o.forward
	if n.touched == nil {
		n.touched = map[int]bool{}
	}
	if n.links == nil {
		n.links = map[netstate.LinkTouch]bool{}
	}
	maps.Copy(n.touched, o.touched)
	maps.Copy(n.links, o.links)
	n.at = o.at
	n.err = errors.Join(n.err, o.err)
}

// Watch emits every change until ctx ends (then it returns nil) or it can no longer listen to the kernel. The first
// event is a Resync. A burst of changes within 20 ms is one event; an overflow of the socket (ENOBUFS) leads to a
// Resync.
func (k *Kernel) Watch(ctx context.Context, emit func(netstate.HostEvent)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sock, err := nl.SubscribeAt(k.ns, netns.None(), unix.NETLINK_ROUTE, unix.RTNLGRP_LINK,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
		unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF)
	if err != nil {
		return fmt.Errorf("subscribe to netlink: %w", err)
	}
	defer sock.Close()
	if err := sock.SetReceiveBufferSize(watchBuffer, true); err != nil {
		// The limit applies without CAP_NET_ADMIN in the initial namespace.
		if err := sock.SetReceiveBufferSize(watchBuffer, false); err != nil {
			return fmt.Errorf("set netlink buffer: %w", err)
		}
	}
	in := make(chan changes)
	go k.listen(ctx, sock, in)
	if err := watchNetns(ctx, k.netns.dir, inotify, in); err != nil {
		return err
	}
	return emitChanges(ctx, k, in, emit)
}

// lister lists what an event carries whole.
type lister interface {
	Interfaces() ([]netstate.Interface, error)
	Forwarding() (netstate.Forwarding, error)
}

// reported is what the last events carried.
type reported struct {
	interfaces []netstate.Interface
	forwarding netstate.Forwarding
	tracked    limit
}

// emitChanges merges changes into events.
func emitChanges(ctx context.Context, k lister, in <-chan changes, emit func(netstate.HostEvent)) error {
	var last reported
	pending := changes{lost: true}
	timer := time.NewTimer(0)
	defer timer.Stop()
	running := true
	gap := coalesce
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-in:
			if n.err != nil {
				return n.err
			}
			pending.join(n)
			if !running {
				timer.Reset(gap)
				running = true
			}
		case <-timer.C:
			running = false
			var ev netstate.HostEvent
			var err error
			ev, gap, err = last.event(k, pending)
			switch {
			case errors.Is(err, netlink.ErrDumpInterrupted): // others change links faster than these can be listed
				timer.Reset(gap)
				running = true
				if pending.lost {
					continue
				}
				pending = changes{foreign: pending.foreign, forward: pending.forward}
			case err != nil:
				return err
			default:
				pending = changes{}
			}
			if !isEmpty(ev) {
				emit(ev)
			}
		}
	}
}

// event returns what there is to report of changes, and how long the next ones are merged. After an error it lacks what
// could not be listed.
func (r *reported) event(k lister, pending changes) (ev netstate.HostEvent, gap time.Duration, err error) {
	ev = netstate.HostEvent{
		Resync: pending.lost, Namespaces: pending.netns || pending.lost,
		HostRouting: pending.foreign || pending.lost, Touched: slices.Sorted(maps.Keys(pending.touched)),
		Links: slices.SortedFunc(maps.Keys(pending.links), compareTouches), At: pending.at,
	}
	gap = coalesce
	if pending.lost || pending.foreign {
		began := time.Now()
		now, err := k.Interfaces()
		gap = min(max(coalesce, listShare*time.Since(began)), listRest)
		if err != nil {
			return ev, gap, err
		}
		if pending.lost || !reflect.DeepEqual(now, r.interfaces) {
			ev.Namespaces = ev.Namespaces || !slices.Equal(names(now), names(r.interfaces))
			ev.Interfaces, r.interfaces = now, now
		}
	}
	if pending.lost || pending.foreign || pending.forward {
		f, err := k.Forwarding()
		if err != nil {
			return ev, gap, err
		}
		if pending.lost || !f.Equal(r.forwarding) {
			sent := f // the receiver adds to it
			ev.Forwarding, r.forwarding = &sent, f
		}
	}
	ev.MaxTracked = r.tracked.changed(pending.lost)
	return ev, gap, nil
}

func isEmpty(ev netstate.HostEvent) bool {
	return !ev.Resync && ev.Interfaces == nil && ev.Forwarding == nil && ev.MaxTracked == nil && !ev.Namespaces &&
		!ev.HostRouting && len(ev.Touched)+len(ev.Links) == 0
}

// limit is the machine's limit of tracked flows, as last reported. The kernel tells of no change, and has none until
// rules load the module.
type limit int

// changed returns the limit if it has changed, or always.
func (l *limit) changed(always bool) *int {
	n := maxTracked()
	if !always && n == int(*l) {
		return nil
	}
	*l = limit(n)
	return &n
}

// maxTracked returns the limit of tracked flows of the machine, over all of its network namespaces; 0 if it tracks none
// (net/netfilter/nf_conntrack_standalone.c).
func maxTracked() int {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

func names(interfaces []netstate.Interface) []string {
	var out []string
	for _, i := range interfaces {
		out = append(out, i.Name)
	}
	return out
}

// listener reads the kernel's messages about the host.
type listener struct {
	k       *Kernel
	sock    *nl.NetlinkSocket
	owners  ownLinks
	foreign map[int]bool
	mutes   mutes
	due     time.Time     // when the first mute ends, zero without any
	wait    time.Duration // receive timeout of the socket, 0 for none
}

// listen turns kernel messages into changes until the socket is closed.
func (k *Kernel) listen(ctx context.Context, sock *nl.NetlinkSocket, in chan<- changes) {
	l := listener{k: k, sock: sock, owners: ownLinks{}, foreign: map[int]bool{}, mutes: mutes{}}
	if links, err := retry(k.h.LinkList); err == nil {
		for _, link := range links {
			l.owners.learn(link.Attrs().Index, link.Attrs().Name, link.Attrs().Alias)
			l.foreign[link.Attrs().Index] = l.owners[link.Attrs().Index] == nil
		}
	}
	for ctx.Err() == nil {
		n := l.hear()
		if ctx.Err() != nil {
			return
		}
		if n.lost || n.err != nil || n.foreign || n.forward || len(n.touched)+len(n.links) > 0 {
			select {
			case in <- n:
			case <-ctx.Done():
			}
		}
		if n.err != nil {
			return
		}
	}
}

// hear waits for the next messages, or until a muted link is due to be heard again.
func (l *listener) hear() changes {
	msgs, _, err := l.sock.Receive()
	n := changes{touched: map[int]bool{}, links: map[netstate.LinkTouch]bool{}, at: time.Now()}
	switch {
	case errors.Is(err, unix.ENOBUFS):
		n.lost = true // the socket continues; a listing recovers the lost messages
	case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
	case err != nil:
		n.err = fmt.Errorf("receive from netlink: %w", err)
		return n
	}
	for _, m := range msgs {
		n.read(m, l.owners)
		n.readForwarding(m, l.owners, l.foreign)
	}
	if err := l.mute(&n); err != nil {
		n.err = err
	}
	return n
}

// read records the subject of one kernel message.
func (n *changes) read(m syscall.NetlinkMessage, owners ownLinks) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		n.readLink(m, owners)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if len(m.Data) < unix.SizeofIfAddrmsg {
			return
		}
		if l := owners[int(nl.DeserializeIfAddrmsg(m.Data).Index)]; l != nil && !l.lent {
			n.touched[l.num] = true
		} else {
			n.foreign = true
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		r, err := parseRoute(m.Data)
		if num, own := TableNumber(r.table); own && err == nil {
			n.touched[num] = true
		} else if r.table == unix.RT_TABLE_MAIN {
			n.foreign = true
		}
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		n.readRule(m.Data)
	}
}

func (n *changes) readRule(data []byte) {
	if len(data) < unix.SizeofRtMsg {
		return
	}
	attrs, err := nl.ParseRouteAttr(data[unix.SizeofRtMsg:])
	if err != nil {
		return
	}
	for _, a := range attrs {
		if a.Attr.Type == nl.FRA_PRIORITY {
			if num, own := PriorityNumber(int(u32(a.Value))); own {
				n.touched[num] = true
			}
		}
	}
}

func compareTouches(a, b netstate.LinkTouch) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
}
