package bench

import (
	encoding "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"edgespan/platform/proc"
)

// The rules that one packet of an established flow crosses on its way, those that do not match included, beside the
// same policy by hand, and those that the first packet of another flow crosses. Nothing is timed.
func BenchmarkRulesCrossed(b *testing.B) {
	hand := newSite(b)
	defer hand.close()
	hand.byHand()
	for _, count := range counts(b) {
		b.Run(fmt.Sprintf("networks=%d", count), func(b *testing.B) {
			s := newSite(b)
			defer s.close()
			s.edgespan(count)
			for w, way := range ways {
				if way.network && count == 0 {
					continue
				}
				b.Run(way.name, func(b *testing.B) {
					own, first := s.crossed(b, w)
					other, _ := hand.crossed(b, w)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(first), "rules-first")
					b.ReportMetric(float64(own), "rules")
					b.ReportMetric(float64(other), "rules-by-hand")
					b.ReportMetric(float64(own-other), "extra")
				})
			}
		})
	}
}

// chainKey names a chain of nftables; chains of iptables-nft are such chains, too.
type chainKey struct{ family, table, chain string }

const traceTable = "bench_trace"

// crossed counts the rules that one packet of a way crosses in the node's namespace, and the first one of another flow;
// of the latter those of nftables alone.
func (s *site) crossed(b *testing.B, way int) (n, first int) {
	b.Helper()
	st := ways[way].open(s)
	defer st.close()
	match := fmt.Sprintf("udp dport %d meta nftrace set 1", st.port)
	text := "table bridge " + traceTable + " {\nchain c { type filter hook prerouting priority -1000\n" + match + "\n}\n}\n" +
		"table inet " + traceTable + " {\nchain c { type filter hook prerouting priority -1000\n" + match + "\n}\n" +
		"chain o { type filter hook output priority -1000\n" + match + "\n}\n}\n"
	s.feed(text, "nft", "-f", "-")
	events, begins := s.trace(st.one), s.trace(st.first)
	s.ns.Exec(b, "nft", "delete", "table", "bridge", traceTable)
	s.ns.Exec(b, "nft", "delete", "table", "inet", traceTable)
	count := func() error {
		var err, err2 error
		n, err = countCrossed(s.listed, events)
		first, err2 = countCrossed(s.listed, begins)
		return errors.Join(err, err2)
	}
	err := count()
	if err != nil { // nothing is listed yet, or something changed since; a listing takes nft seconds
		s.listed = s.rules()
		err = count()
	}
	if err != nil {
		b.Fatal(err)
	}
	if *legacy {
		n += s.crossedLegacy(st)
	}
	return n, first
}

// rules lists the handles of each chain's rules, in their order.
func (s *site) rules() map[chainKey][]uint64 {
	s.Helper()
	var doc struct {
		Nftables []struct {
			Rule *struct {
				Family, Table, Chain string
				Handle               uint64
			}
		}
	}
	s.check(json.Unmarshal([]byte(s.ns.Exec(s.B, "nft", "-j", "-a", "list", "ruleset")), &doc))
	list := map[chainKey][]uint64{}
	for _, o := range doc.Nftables {
		if r := o.Rule; r != nil {
			k := chainKey{r.Family, r.Table, r.Chain}
			list[k] = append(list[k], r.Handle)
		}
	}
	return list
}

// traceEvent is what the kernel says of a packet at a rule, or at the end of a chain.
type traceEvent struct {
	chain  chainKey
	kind   uint32
	rule   uint64
	code   int32
	target string
}

// linux/netfilter/nf_tables.h
const (
	nftMsgTrace, groupTrace                  = 17, 9
	attrTable, attrChain, attrRule, attrType = 1, 2, 3, 4
	attrVerdict                              = 5
	verdictCode, verdictChain                = 1, 2
	nftContinue, nftJump, nftGoto, nftReturn = -1, -3, -4, -5
	tracePolicy                              = 1
)

var families = map[byte]string{
	unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_INET: "inet", unix.NFPROTO_BRIDGE: "bridge",
	unix.NFPROTO_ARP: "arp", unix.NFPROTO_NETDEV: "netdev",
}

// trace has one packet sent and returns what the kernel says of it, in order.
func (s *site) trace(send func() error) []traceEvent {
	s.Helper()
	var events []traceEvent
	s.check(proc.In(s.ns.Path, func() error {
		sock, err := nl.Subscribe(unix.NETLINK_NETFILTER, groupTrace)
		if err != nil {
			return fmt.Errorf("subscribe to traces: %w", err)
		}
		defer sock.Close()
		if err := errors.Join(unix.SetsockoptInt(sock.GetFd(), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
			sock.SetReceiveTimeout(&unix.Timeval{Usec: 200_000}), send()); err != nil {
			return err
		}
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
			msgs, _, err := sock.Receive()
			if errors.Is(err, unix.EAGAIN) {
				if len(events) > 0 {
					return nil
				}
				continue
			}
			if err != nil {
				return fmt.Errorf("receive a trace: %w", err)
			}
			for _, m := range msgs {
				if m.Header.Type != unix.NFNL_SUBSYS_NFTABLES<<8|nftMsgTrace {
					continue
				}
				e, err := readTrace(m.Data)
				if err != nil {
					return err
				}
				events = append(events, e)
			}
		}
		return errors.New("no trace of the packet came within 5 s")
	}))
	return events
}

func readTrace(data []byte) (traceEvent, error) {
	e := traceEvent{chain: chainKey{family: families[data[0]]}}
	attrs, err := nl.ParseRouteAttr(data[4:])
	if err != nil {
		return e, fmt.Errorf("read a trace: %w", err)
	}
	text := func(b []byte) string { return strings.TrimRight(string(b), "\x00") }
	for _, a := range attrs {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case attrTable:
			e.chain.table = text(a.Value)
		case attrChain:
			e.chain.chain = text(a.Value)
		case attrRule:
			e.rule = encoding.BigEndian.Uint64(a.Value)
		case attrType:
			e.kind = encoding.BigEndian.Uint32(a.Value)
		case attrVerdict:
			inner, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return e, fmt.Errorf("read a verdict: %w", err)
			}
			for _, v := range inner {
				switch v.Attr.Type {
				case verdictCode:
					e.code = int32(encoding.BigEndian.Uint32(v.Value))
				case verdictChain:
					e.target = text(v.Value)
				}
			}
		}
	}
	return e, nil
}

// walk follows a packet through chains. A frame is a chain and the next rule of it that the packet meets.
type walk struct {
	rules   map[chainKey][]uint64
	frames  []frame
	crossed int
}

type frame struct {
	chain chainKey
	next  int
}

// countCrossed counts the rules that a packet met. The kernel tells of those that matched; a packet that comes to a
// rule has met all rules before it in that chain, and one that leaves a chain at its end has met all of it.
func countCrossed(rules map[chainKey][]uint64, events []traceEvent) (int, error) {
	w := walk{rules: rules}
	for _, e := range events {
		if e.chain.table == traceTable {
			continue
		}
		if err := w.step(e); err != nil {
			return 0, err
		}
	}
	w.leave(0)
	return w.crossed, nil
}

func (w *walk) step(e traceEvent) error {
	if e.kind == tracePolicy {
		w.reach(e.chain, 0)
		w.leave(0)
		return nil
	}
	if e.rule == 0 {
		return nil // the end of a chain: the next event shows it, too
	}
	at := slices.Index(w.rules[e.chain], e.rule)
	if at < 0 {
		return fmt.Errorf("trace names rule %d of %v, which is not listed", e.rule, e.chain)
	}
	w.reach(e.chain, at)
	top := len(w.frames) - 1
	w.crossed += at + 1 - w.frames[top].next
	w.frames[top].next = at + 1
	to := chainKey{e.chain.family, e.chain.table, e.target}
	switch e.code {
	case nftContinue:
	case nftJump:
		w.frames = append(w.frames, frame{chain: to})
	case nftGoto:
		w.frames[top] = frame{chain: to}
	case nftReturn:
		w.frames = w.frames[:top]
	default: // a verdict ends the hook's chain
		w.frames = nil
	}
	return nil
}

// reach makes a chain the innermost one, by leaving those at whose end the packet was or by beginning a hook's chain.
func (w *walk) reach(c chainKey, at int) {
	for i := len(w.frames) - 1; i >= 0; i-- {
		if w.frames[i].chain == c && w.frames[i].next <= at || w.frames[i].chain == c && at == 0 {
			w.leave(i + 1)
			return
		}
	}
	w.leave(0)
	w.frames = append(w.frames, frame{chain: c})
}

// leave counts what is left of the innermost chains, down to a depth, and leaves them.
func (w *walk) leave(depth int) {
	for _, f := range w.frames[depth:] {
		w.crossed += len(w.rules[f.chain]) - f.next
	}
	w.frames = w.frames[:depth]
}
