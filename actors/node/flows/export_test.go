package flows

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/flowlog"
	"edgespan/netinst/netstate"
	"edgespan/netinst/verdict"
)

var errTimeout = errors.New("i/o timeout")

// collector is the other end of an export. It takes what is written, as long as it is up and does not hang.
type collector struct {
	mu       sync.Mutex
	down     bool // refuses connections
	hangs    bool // takes nothing
	half     int  // octets of the next message that it takes before it fails; 0: all of them
	dials    int
	messages [][]byte
}

func (c *collector) set(change func(*collector)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// dialed is how often it was asked for a connection.
func (c *collector) dialed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}

// all are the messages that have come.
func (c *collector) all() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.messages)
}

func (c *collector) dial(context.Context, string, string) (Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dials++; c.down {
		return nil, errors.New("connection refused")
	}
	return &conn{c, make(chan struct{}), sync.Once{}}, nil
}

type conn struct {
	c      *collector
	closed chan struct{}
	once   sync.Once
}

func (x *conn) Write(b []byte) (int, error) {
	x.c.mu.Lock()
	hangs, half := x.c.hangs, x.c.half
	x.c.half = 0
	if !hangs && (half == 0 || half >= len(b)) {
		defer x.c.mu.Unlock()
		x.c.messages = append(x.c.messages, slices.Clone(b))
		return len(b), nil
	}
	if half > 0 {
		x.c.messages = append(x.c.messages, slices.Clone(b[:half]))
	}
	x.c.mu.Unlock()
	select {
	case <-x.closed:
		return half, errors.New("use of closed connection")
	case <-time.After(10 * time.Second):
		return half, errTimeout
	}
}

func (x *conn) Check() error { return nil }
func (x *conn) Room() int    { return 1232 }
func (x *conn) Close() error { x.once.Do(func() { close(x.closed) }); return nil }

// received are the records of IPFIX that the collector has decoded: their octets sent, in the order of their arrival.
// The messages must be numbered in order.
func (c *collector) received(t *testing.T) (octets []uint64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.messages {
		seq := binary.BigEndian.Uint32(m[8:])
		if seq != 0 && int(seq) > len(octets) {
			t.Errorf("message %d after %d records", seq, len(octets))
		}
		for m = m[16:]; len(m) > 0; {
			id, n := binary.BigEndian.Uint16(m), binary.BigEndian.Uint16(m[2:])
			set := m[4:n]
			for m = m[n:]; id == 256 && len(set) > 3; {
				octets = append(octets, binary.BigEndian.Uint64(set[40:]))
				set = set[77:]
				for range 3 {
					set = set[1+int(set[0]):]
				}
			}
		}
	}
	return octets
}

// lines are the lines of JSON that a socket got, and those that are missing; a line that was cut is left out.
func (c *collector) lines(t *testing.T) (locals []string, lost uint64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.messages {
		for line := range bytes.Lines(m) {
			var r nodeapi.FlowRecord
			switch err := json.Unmarshal(line, &r); {
			case err != nil && !bytes.HasSuffix(line, []byte("\n")):
			case err != nil:
				t.Errorf("%s: %v", line, err)
			case r.Kind == nodeapi.FlowsLost:
				lost += r.Lost
			default:
				locals = append(locals, r.Local)
			}
		}
	}
	return locals, lost
}

// rig is a Recorder of one network with one app, on a fake clock.
type rig struct {
	*testing.T
	*Recorder
	store     memory
	collector collector

	mu     sync.Mutex
	goesOn []netstate.EndedFlow
	said   []string
}

func (r *rig) setGoesOn(list ...netstate.EndedFlow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.goesOn = list
}

// memory is a Store that counts.
type memory struct {
	mu    sync.Mutex
	lines int
}

func (m *memory) Write(b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines += bytes.Count(b, []byte("\n"))
	return nil
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines
}

func (*memory) Stored() (func(context.Context, func([]byte) error) error, error) { return nil, nil }

var app = netip.MustParseAddr("10.1.0.2")

func onRig(t *testing.T, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		quiet := func(ctx context.Context, _ func(netstate.FlowEvents)) error { <-ctx.Done(); return nil }
		r.Recorder = New(Options{Store: &r.store, Ended: quiet, Denied: quiet, Dial: r.collector.dial,
			Name: func(uuid.UUID) string { return "web" }, Stored: func(error) {}, Deaf: func(error) {},
			Exported: func(to, address string, err error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.said = append(r.said, fmt.Sprint(to, " ", address, " ", err))
			},
			List: func(_ context.Context, each func(netstate.EndedFlow)) error {
				r.mu.Lock()
				list := r.goesOn
				r.mu.Unlock()
				for _, f := range list {
					each(f)
				}
				return nil
			}})
		r.Use(book())
		go r.Recorder.Run(ctx)
		f(r)
		cancel()
		synctest.Wait()
	})
}

// book is that of a network with a log, and with an app.
func book() *flowlog.Book {
	a := netinst.Adapter{Config: netinst.AppAdapterConfig{AppUUID: uuid.UUID{1}, Activate: true}}
	a.Lease.IP = app
	subnet := netip.MustParsePrefix("10.1.0.0/24")
	in := []netinst.Input{{Owner: netstate.Owner{Number: 1}, Adapters: []netinst.Adapter{a},
		Config: netinst.NetworkInstanceConfig{UUID: uuid.UUID{2}, Type: netinst.Local, FlowLog: true, Port: "wan",
			IPv4: netinst.IPv4Config{Subnet: subnet, Gateway: subnet.Addr().Next()}}}}
	return flowlog.NewBook(verdict.New(in, nil), in)
}

// flow is the n-th flow of the app, which has sent so many octets since a second ago.
func flow(n int, octets uint64) netstate.EndedFlow {
	f := netstate.EndedFlow{Flow: netstate.Flow{Proto: 17, Src: netip.AddrPortFrom(app, uint16(n)),
		Dst: netip.MustParseAddrPort("192.0.2.9:9")}, Out: netstate.Traffic{Packets: 1, Bytes: octets},
		Start: time.Now().Add(-time.Second), End: time.Now()}
	f.ReplySrc, f.ReplyDst = f.Dst, f.Src
	return f
}

// end lets flows end, with 1 octet each.
func (r *rig) end(first, many int) {
	for n := range many {
		r.take(netstate.FlowEvents{Ended: []netstate.EndedFlow{flow(first+n, 1)}})
		if n%100 == 99 {
			synctest.Wait()
		}
	}
	synctest.Wait()
}

func (r *rig) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) export(to Export) {
	r.Export(r.Context(), to)
	synctest.Wait()
}

func (r *rig) wantSaid(want ...string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.said, want) {
		r.Errorf("said %q, want %q", r.said, want)
	}
}

var (
	toUDP    = Export{Collector: "udp://192.0.2.7:4739", Domain: 1, Templates: time.Minute}
	toTCP    = Export{Collector: "tcp://192.0.2.7:4739", Domain: 1}
	toSocket = Export{Socket: "/run/flows.sock"}
)

// TestACollectorThatHangsHoldsUpNothing lets a collector take a connection and then nothing, while more flows end than
// may wait for it: the log has them all, and those that the collector misses are counted. When it is well again, it gets
// what waited, once.
func TestACollectorThatHangsHoldsUpNothing(t *testing.T) {
	for _, to := range []Export{toTCP, toUDP, toSocket} {
		onRig(t, func(r *rig) {
			r.collector.set(func(c *collector) { c.hangs = true })
			r.export(to)
			const many = 30000
			r.end(1, many)
			if n := r.store.count(); n != many {
				r.Errorf("%d lines are stored, want %d", n, many)
			}
			r.settle(11 * time.Second)
			name := ToCollector
			if to == toSocket {
				name = ToSocket
			}
			n := r.Counts().Exports[name]
			if n.Exported != 0 || n.Dropped == 0 || n.Failures != 1 || !n.Failing {
				r.Errorf("while it hangs: %+v", n)
			}
			r.collector.set(func(c *collector) { c.hangs = false })
			r.settle(time.Minute)
			r.end(60000, 10)
			n = r.Counts().Exports[name]
			got, lost := 0, n.Dropped
			if to != toSocket {
				got = len(r.collector.received(r.T))
			} else {
				var locals []string
				locals, lost = r.collector.lines(r.T)
				got = len(slices.Compact(slices.Sorted(slices.Values(locals))))
				n.Exported-- // the line about the lost ones
			}
			if got+int(n.Dropped) != many+10 || int(n.Exported) != got || lost != n.Dropped || n.Failing {
				r.Errorf("afterwards: %+v, %d came, %d are said to be lost", n, got, lost)
			}
			address := "192.0.2.7:4739"
			if to == toSocket {
				address = "/run/flows.sock"
			}
			r.wantSaid(name+" "+address+" i/o timeout", name+" "+address+" <nil>")
		})
	}
}

// TestACollectorThatIsAwayIsAskedLessAndLess counts the attempts of a day; once it is there, it gets what is new.
func TestACollectorThatIsAwayIsAskedLessAndLess(t *testing.T) {
	onRig(t, func(r *rig) {
		r.collector.down = true
		r.export(toTCP)
		r.settle(24 * time.Hour)
		if n := r.collector.dialed(); n < 2800 || n > 2900 {
			r.Errorf("%d attempts in a day", n)
		}
		r.end(1, 5)
		r.collector.set(func(c *collector) { c.down = false })
		r.settle(31 * time.Second)
		if got := len(r.collector.received(r.T)); got != 5 {
			r.Errorf("%d records came", got)
		}
		r.wantSaid("collector 192.0.2.7:4739 connection refused", "collector 192.0.2.7:4739 <nil>")
	})
}

// TestALineThatWasCutIsSentAgain breaks a connection in the middle of a line.
func TestALineThatWasCutIsSentAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.export(toSocket)
		r.end(1000, 1)
		first := len(r.collector.all()[0])
		r.collector.set(func(c *collector) { c.half = 2*first + first/2 })
		r.take(netstate.FlowEvents{Ended: []netstate.EndedFlow{flow(2000, 1), flow(2001, 1), flow(2002, 1), flow(2003, 1)}})
		r.settle(time.Minute)
		locals, lost := r.collector.lines(r.T)
		if want := "10.1.0.2:1000 10.1.0.2:2000 10.1.0.2:2001 10.1.0.2:2002 10.1.0.2:2003"; lost != 0 ||
			strings.Join(locals, " ") != want {
			r.Errorf("%q, %d lost, want %s", locals, lost, want)
		}
		if n := r.Counts().Exports[ToSocket]; n.Exported != 5 || n.Dropped != 0 || n.Failures != 1 {
			r.Errorf("%+v", n)
		}
	})
}

// TestTemplatesAreSentAgainOverUDP also while there are no flows (RFC 7011 §8.4), and over TCP only once.
func TestTemplatesAreSentAgainOverUDP(t *testing.T) {
	for to, want := range map[Export]int{toUDP: 11, toTCP: 1} {
		onRig(t, func(r *rig) {
			r.export(to)
			r.settle(10 * time.Minute)
			r.end(1, 1)
			templates := 0
			for _, m := range r.collector.all() {
				if binary.BigEndian.Uint16(m[16:]) == 2 {
					templates++
				}
			}
			if first := r.collector.all()[0]; templates != want || binary.BigEndian.Uint16(first[16:]) != 2 {
				r.Errorf("%v: %d messages with templates, want %d", to, templates, want)
			}
			if got := r.collector.received(r.T); len(got) != 1 {
				r.Errorf("%v: %d records", to, len(got))
			}
		})
	}
}

// TestAChangeOfTheCollector sends the rest to the new one, without a restart, and leaves the socket alone.
func TestAChangeOfTheCollector(t *testing.T) {
	onRig(t, func(r *rig) {
		both := toUDP
		both.Socket = toSocket.Socket
		r.collector.hangs = true
		r.export(both)
		r.end(1, 3)
		if n := r.collector.dialed(); n != 2 {
			r.Errorf("%d connections", n)
		}
		r.collector.set(func(c *collector) { c.hangs = false })
		both.Collector = toTCP.Collector
		r.export(both)
		r.end(10, 2)
		r.settle(time.Second)
		if n := r.Counts().Exports[ToCollector]; n.Exported != 2 || n.Dropped != 3 || n.Failing || r.collector.dialed() != 3 {
			r.Errorf("%+v, %d connections", n, r.collector.dialed())
		}
		r.settle(time.Minute)
		if n := r.Counts().Exports[ToSocket]; n.Exported != 5 || n.Dropped != 0 {
			r.Errorf("the socket: %+v", n)
		}
		r.export(Export{})
		r.end(20, 1)
		if n := len(r.Counts().Exports); n != 0 {
			r.Errorf("%d destinations are left", n)
		}
	})
}

// TestFlowsThatGoOnAreExportedOnce adds up what a collector gets of a flow that goes on for long: what it counted since
// the export began, and of one that began later, all.
func TestFlowsThatGoOnAreExportedOnce(t *testing.T) {
	onRig(t, func(r *rig) {
		old, young := flow(1, 1000), flow(2, 10)
		old.Start = time.Now().Add(-time.Hour)
		r.setGoesOn(old, young)
		r.export(toUDP)
		for range 3 {
			r.settle(5 * time.Minute)
			old.Out.Bytes, young.Out.Bytes = old.Out.Bytes+100, young.Out.Bytes+100
			old.End, young.End = time.Now(), time.Now()
			r.setGoesOn(old, young)
		}
		r.setGoesOn()
		r.take(netstate.FlowEvents{Ended: []netstate.EndedFlow{old, young}})
		r.settle(time.Second)
		if got := fmt.Sprint(r.collector.received(r.T)); got != "[0 10 100 100 100 100 100 100]" {
			r.Errorf("the collector has %s", got)
		}
		if n := r.Counts(); n.Recorded[nodeapi.FlowGoesOn] != 6 || n.Recorded[nodeapi.FlowEnded] != 2 {
			r.Errorf("%+v", n)
		}
	})
}
