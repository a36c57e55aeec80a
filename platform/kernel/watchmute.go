package kernel

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"edgespan/pubsub/backoff"
)

// An app can set its end of a link up and down as often as it likes, and each time the kernel sends some five messages
// about the host's end that report no change. Waking up for them costs a tenth of a core. So a link with more than
// idleMax of them within a second is muted: a socket filter drops the kernel's messages about it before the process
// wakes up. When the mute ends, the link is read once, so that changes made meanwhile are reported then. A deleted link
// is reported at once.
const (
	idleMax  = 50
	muteCalm = time.Minute
	muteLate = 100 * time.Millisecond // a link is heard again at most this much later
	mutedMax = 1000                   // links at a time: a filter has at most 4,096 instructions (BPF_MAXINSNS)
)

// muteRests is how long a link is muted in consecutive mutes; a contest is checked at the same rate.
var muteRests = backoff.Backoff{First: time.Second, Max: 10 * time.Second}

// mutes holds the links that send messages without a change, by index.
type mutes map[int]*mute

type mute struct {
	since time.Time     // start of the second in which count messages arrived
	count int           // messages without a change
	on    bool          // the link is muted
	rest  time.Duration // length of the last mute
	until time.Time     // when it ends or ended
}

// idle counts a message without a change, and reports whether its link is muted from now on.
func (ms mutes) idle(index int, now time.Time) bool {
	m := ms[index]
	if m == nil {
		m = &mute{since: now}
		ms[index] = m
	}
	if now.Sub(m.since) >= time.Second {
		m.since, m.count = now, 0
	}
	m.count++
	if m.on || m.count <= idleMax || len(ms.muted()) >= mutedMax {
		return false
	}
	if now.Sub(m.until) >= muteCalm {
		m.rest = 0
	}
	m.rest = muteRests.Next(m.rest)
	m.on, m.until, m.count = true, now.Add(m.rest), 0
	return true
}

// muted returns the muted links in order.
func (ms mutes) muted() []int {
	var on []int
	for index, m := range ms {
		if m.on {
			on = append(on, index)
		}
	}
	slices.Sort(on)
	return on
}

// over ends the expired mutes.
func (ms mutes) over(now time.Time) (heard []int) {
	for index, m := range ms {
		if m.on && !now.Before(m.until) {
			m.on, m.since, m.count = false, now, 0
			heard = append(heard, index)
		}
	}
	slices.Sort(heard)
	return heard
}

// due returns when the first mute ends, zero without any.
func (ms mutes) due() (first time.Time) {
	for _, m := range ms {
		if m.on && (first.IsZero() || m.until.Before(first)) {
			first = m.until
		}
	}
	return first
}

// Offsets in a route netlink message (linux/netlink.h, linux/rtnetlink.h).
const (
	messageType  = 4
	messageIndex = unix.SizeofNlMsghdr + 4
)

// muteFilter returns the classic BPF program that drops messages about new states of these links. BPF loads values in
// network order, but the kernel wrote them in host order.
func muteFilter(links []int) []unix.SockFilter {
	pass := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	var request [4]byte
	nl.NativeEndian().PutUint16(request[:], unix.RTM_NEWLINK)
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: messageType},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(request[0])<<8 | uint32(request[1]), Jt: 1},
		pass,
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: messageIndex},
	}
	for _, index := range links {
		nl.NativeEndian().PutUint32(request[:], uint32(index))
		k := uint32(request[0])<<24 | uint32(request[1])<<16 | uint32(request[2])<<8 | uint32(request[3])
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: 1}, drop)
	}
	return append(prog, pass)
}

// mute mutes the links with too many messages without a change, and unmutes others. It makes sure that the next wait
// ends in time.
func (l *listener) mute(n *changes) error {
	changed := false
	for _, index := range n.idle {
		changed = l.mutes.idle(index, n.at) || changed
	}
	for _, index := range n.gone {
		if m := l.mutes[index]; m != nil {
			changed = changed || m.on
			delete(l.mutes, index)
		}
	}
	var heard []int
	if !l.due.IsZero() && !n.at.Before(l.due) {
		heard = l.mutes.over(n.at)
	}
	if changed || len(heard) > 0 {
		if err := l.filter(l.mutes.muted()); err != nil {
			return err
		}
		l.due = l.mutes.due()
	}
	for _, index := range heard {
		l.read(index, n)
	}
	wait, other := nextWait(l.wait, l.due, n.at)
	if !other {
		return nil
	}
	l.wait = wait
	tv := unix.NsecToTimeval(wait.Nanoseconds())
	return l.sock.SetReceiveTimeout(&tv)
}

// nextWait returns how long the socket may wait next so that it ends soon after due (without due: 0, no limit), and
// whether setting it is worth a system call: a host with thousands of changes a second would pay one for each.
func nextWait(set time.Duration, due, now time.Time) (wait time.Duration, other bool) {
	if due.IsZero() {
		return 0, set != 0
	}
	wait = max(due.Sub(now), time.Millisecond)
	return wait, set == 0 || set < wait || set > wait+muteLate
}

func (l *listener) filter(links []int) error {
	if len(links) == 0 {
		if err := unix.SetsockoptInt(l.sock.GetFd(), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != nil &&
			!errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("hear all links: %w", err)
		}
		return nil
	}
	prog := muteFilter(links)
	if err := unix.SetsockoptSockFprog(l.sock.GetFd(), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}); err != nil {
		return fmt.Errorf("mute links: %w", err)
	}
	return nil
}

// read requests the state of a link and handles the answer like a kernel message. Call it once the link is unmuted, so
// that no change is missed.
func (l *listener) read(index int, n *changes) {
	ask := nl.NewIfInfomsg(unix.AF_UNSPEC)
	ask.Index = int32(index)
	answers, err := l.k.rt.request(unix.RTM_GETLINK, 0, ask).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil { // it is gone, which the kernel reports too, or a listing finds
		n.changed(l.owners[index])
		return
	}
	for _, data := range answers {
		n.readLink(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWLINK}, Data: data}, l.owners)
	}
}
