package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/actors/node/flows"
	"edgespan/actors/node/metrics"
	scrapes "edgespan/config/httpapi/metrics"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
)

// flowFrom is a flow of an address that ended; nth makes flows differ.
func flowFrom(addr string, nth int) netstate.EndedFlow {
	src := netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(1024+nth))
	f := netstate.EndedFlow{Flow: netstate.Flow{Proto: 6, Src: src, Dst: netip.MustParseAddrPort("192.0.2.9:443")},
		Out: netstate.Traffic{Packets: 4, Bytes: 400}, In: netstate.Traffic{Packets: 3, Bytes: 300},
		Start: time.Now().Add(-time.Second), End: time.Now()}
	f.ReplySrc, f.ReplyDst = f.Dst, netip.MustParseAddrPort("192.0.2.2:61000")
	return f
}

// ended reports flows that have ended, and how many were lost before; false if the node doesn't listen.
func (r *rig) ended(lost uint64, flows ...netstate.EndedFlow) bool {
	return r.host.EmitFlows(netstate.FlowEvents{Lost: lost, Ended: flows})
}

func (r *rig) flowLog(q nodeapi.FlowLogQuery) []nodeapi.FlowRecord {
	r.Helper()
	var list []nodeapi.FlowRecord
	if err := r.node.FlowLog(r.Context(), q,
		func(x nodeapi.FlowRecord) error { list = append(list, x); return nil }); err != nil {
		r.Fatal(err)
	}
	return list
}

// withFlowLog is a config of two networks with an app each, the first network with a flow log.
func withFlowLog(on bool) string {
	return strings.Replace(doc(2, 2), "displayName: net1,", fmt.Sprintf("displayName: net1, flowLog: %t,", on), 1)
}

// logsFlows applies withFlowLog and waits until flows are recorded.
func (r *rig) logsFlows() {
	r.Helper()
	r.netns("ns1", "ns2")
	r.apply(withFlowLog(true))
	r.ready(time.Minute, "app/"+appID(1))
	r.settle(time.Second)
}

func (r *rig) addressOf(app int) string {
	r.Helper()
	for _, l := range r.node.Topics().Leases.List("") {
		for key, lease := range l {
			if key.AppUUID.String() == appID(app) {
				return lease.IP.String()
			}
		}
	}
	r.Fatalf("app %d has no address", app)
	return ""
}

func TestFlowsAreRecordedWhileTheNetworkHasALog(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(withFlowLog(false))
		r.ready(time.Minute, "app/"+appID(1), "app/"+appID(2))
		r.settle(time.Second)
		if r.ended(0) {
			t.Error("the node listens for nothing")
		}
		r.apply(withFlowLog(true))
		r.settle(time.Second)
		for _, key := range []string{netstate.CountFlows, netstate.TimeFlows, netstate.ReportFlows} {
			if id := (netstate.Sysctl{Key: key}).ID(); r.host.State(0)[id] == nil {
				t.Errorf("%s is not set", key)
			}
		}
		if !r.ended(3, flowFrom(r.addressOf(1), 1), flowFrom(r.addressOf(2), 2), flowFrom("192.0.2.2", 3)) {
			t.Fatal("the node does not listen")
		}
		r.settle(0)
		got := r.flowLog(nodeapi.FlowLogQuery{})
		if len(got) != 2 || got[0].Kind != nodeapi.FlowsLost || got[0].Lost != 3 {
			t.Fatalf("%+v", got)
		}
		x := got[1]
		if x.Adapter != "adapter/"+appID(1)+"/0" || x.Network != "ni/"+niID(1) || x.Name != "app1" ||
			x.Remote != "192.0.2.9:443" || x.NAT != "192.0.2.2:61000" || x.PacketsOut != 4 || x.BytesIn != 300 ||
			x.Direction != "egress" || x.Protocol != "tcp" || x.End.Sub(x.Start) != time.Second {
			t.Errorf("%+v", x)
		}
		if n := len(r.flowLog(nodeapi.FlowLogQuery{Of: "app/" + appID(2)})); n != 1 { // the line about lost ones
			t.Errorf("%d lines of an app without log", n)
		}
		r.apply(withFlowLog(false))
		r.settle(time.Second)
		if r.ended(0) {
			t.Error("the node still listens")
		}
		if n := len(r.flowLog(nodeapi.FlowLogQuery{})); n != 2 {
			t.Errorf("%d lines are left", n)
		}
	})
}

// TestAFlowLogOnAFullDisk loses lines and counts them, says so once, and goes on when there is room.
func TestAFlowLogOnAFullDisk(t *testing.T) {
	onRig(t, func(r *rig) {
		r.logsFlows()
		end := func(n int) {
			r.ended(0, flowFrom(r.addressOf(1), n))
			r.settle(0)
		}
		r.flows.fail(errors.New("no space left on device"))
		end(1)
		end(2)
		r.flows.fail(nil)
		end(3)
		got := r.flowLog(nodeapi.FlowLogQuery{})
		if len(got) != 2 || got[0].Lost != 2 || !strings.HasSuffix(got[1].Local, ":1027") {
			t.Errorf("%+v", got)
		}
		var said []string
		if err := r.node.Events(r.Context(), nodeapi.EventQuery{Of: "host"}, func(e nodeapi.Event) error {
			if strings.Contains(e.Text, "flow log") {
				said = append(said, e.Kind+" "+e.Error)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"failed no space left on device", "recovered "}; !slices.Equal(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	})
}

// TestADeafFlowLog is one whose group of denied packets another program has: flows that end are recorded, one event says
// what is missing, and it is tried again.
func TestADeafFlowLog(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.host.FailDenied(errors.New("group 15021 of nfnetlink_log: operation not permitted"))
		r.apply(withFlowLog(true))
		r.ready(time.Minute, "app/"+appID(1))
		r.settle(time.Minute)
		r.ended(0, flowFrom(r.addressOf(1), 1))
		r.settle(0)
		if n := len(r.flowLog(nodeapi.FlowLogQuery{})); n != 1 {
			t.Errorf("%d lines", n)
		}
		said := 0
		if err := r.node.Events(r.Context(), nodeapi.EventQuery{Of: "host"}, func(e nodeapi.Event) error {
			if strings.Contains(e.Text, "the flow log misses some flows") && strings.Contains(e.Error, "not permitted") {
				said++
			}
			return nil
		}); err != nil || said != 1 {
			t.Errorf("%d events, %v", said, err)
		}
		asked := r.host.CountDenied()
		r.host.FailDenied(nil)
		r.settle(10 * time.Second)
		if n := r.host.CountDenied(); n != asked+1 {
			t.Errorf("it was tried %d times again", n-asked)
		}
	})
}

// TestASlowReaderOfTheFlowLogMissesLines and gets their number; the node and other readers miss nothing.
func TestASlowReaderOfTheFlowLogMissesLines(t *testing.T) {
	onRig(t, func(r *rig) {
		r.logsFlows()
		r.ended(0, flowFrom(r.addressOf(1), 0))
		r.settle(0)
		ctx, cancel := context.WithCancel(r.Context())
		got, lost, resume := 0, uint64(0), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- r.node.FlowLog(ctx, nodeapi.FlowLogQuery{Follow: true}, func(x nodeapi.FlowRecord) error {
				<-resume
				if lost += x.Lost; x.Kind == nodeapi.FlowEnded {
					got++
				}
				return nil
			})
		}()
		r.settle(0)
		const many = 3000
		for n := range many {
			r.ended(0, flowFrom(r.addressOf(1), n))
			r.settle(0)
		}
		close(resume)
		r.settle(0)
		r.ended(0, flowFrom(r.addressOf(1), many))
		r.settle(0)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got+int(lost) != many+2 || lost == 0 {
			t.Errorf("%d lines and %d missed of %d", got, lost, many+2)
		}
		if n := len(r.flowLog(nodeapi.FlowLogQuery{})); n != many+2 {
			t.Errorf("%d lines are stored", n)
		}
		if last := r.flowLog(nodeapi.FlowLogQuery{Last: 2}); len(last) != 2 ||
			!strings.HasSuffix(last[1].Local, fmt.Sprint(":", 1024+many)) {
			t.Errorf("the last two: %+v", last)
		}
	})
}

// TestFlowsThatGoOnAreRecordedFromTimeToTime lists more of them than the queue holds; young ones are left out.
func TestFlowsThatGoOnAreRecordedFromTimeToTime(t *testing.T) {
	onRig(t, func(r *rig) {
		r.logsFlows()
		const many = 10000
		var list []netstate.EndedFlow
		for n := range many {
			list = append(list, flowFrom(r.addressOf(1), n))
		}
		young := flowFrom(r.addressOf(1), many)
		young.Start = time.Now().Add(4 * time.Minute)
		r.host.SetTracked(append(list, young)...)
		r.settle(5 * time.Minute)
		got := r.flowLog(nodeapi.FlowLogQuery{})
		if len(got) != many {
			t.Fatalf("%d lines, want %d", len(got), many)
		}
		for _, x := range got {
			if x.Kind != nodeapi.FlowGoesOn || x.BytesOut != 400 {
				t.Fatalf("%+v", x)
			}
		}
		r.settle(5 * time.Minute)
		if n := len(r.flowLog(nodeapi.FlowLogQuery{})); n != 2*many+1 {
			t.Errorf("%d lines after two periods", n)
		}
	})
}

// sink is a connection to where the flow log is sent. It counts lines of JSON and takes all.
type sink struct{ lines, messages *atomic.Int64 }

func (s sink) Write(b []byte) (int, error) {
	s.messages.Add(1)
	s.lines.Add(int64(bytes.Count(b, []byte("}\n"))))
	return len(b), nil
}

func (sink) Check() error { return nil }
func (sink) Room() int    { return 1232 }
func (sink) Close() error { return nil }

// TestTheFlowLogIsSentWhereTheConfigSays changes the destinations by the config alone; a failure is an event and shows
// in the metrics.
func TestTheFlowLogIsSentWhereTheConfigSays(t *testing.T) {
	var mu sync.Mutex
	var dialed []string
	var lines, messages atomic.Int64
	down := true
	onHost(t, func(r *rig) {
		r.change = func(o *Options) {
			o.FlowDial = func(_ context.Context, protocol, address string) (flows.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				if dialed = append(dialed, protocol+" "+address); down {
					return nil, errors.New("no such file")
				}
				return sink{&lines, &messages}, nil
			}
		}
		r.start()
		r.netns("ns1", "ns2")
		r.apply(withFlowLog(false))
		r.ready(time.Minute, "app/"+appID(1))
		export := func(more string) {
			r.apply(strings.Replace(withFlowLog(true), "ports:", "sysParams: {"+more+"}\nports:", 1))
			r.settle(time.Minute)
		}
		export("flowExportSocket: /run/flows.sock")
		r.ended(0, flowFrom(r.addressOf(1), 1))
		r.settle(0)
		scrape := func() string {
			text, err := scrapes.NewPage(&metrics.Table, func(to *scrapes.Scrape) { r.node.Scrape("1", to) }).Text(r.Context())
			if err != nil {
				r.Fatal(err)
			}
			return string(text)
		}
		if text := scrape(); !strings.Contains(text, `edgespan_flowlog_export_failing{destination="socket"} 1`) ||
			!strings.Contains(text, `edgespan_flowlog_records_total{kind="end"} 1`) {
			r.Error(text)
		}
		mu.Lock()
		down = false
		mu.Unlock()
		r.settle(time.Minute)
		if text := scrape(); lines.Load() != 1 ||
			!strings.Contains(text, `edgespan_flowlog_export_failing{destination="socket"} 0`) ||
			!strings.Contains(text, `edgespan_flowlog_exported_records_total{destination="socket"} 1`) {
			r.Errorf("%d lines were sent: %s", lines.Load(), text)
		}
		mu.Lock()
		dialed = nil
		mu.Unlock()
		export("flowExportCollector: 'udp://192.0.2.7:4739', flowExportTemplateSeconds: 3600")
		before := messages.Load()
		r.ended(0, flowFrom(r.addressOf(1), 2))
		r.settle(0)
		if n := messages.Load() - before; n != 1 || lines.Load() != 1 {
			r.Errorf("%d messages came, and %d lines", n, lines.Load())
		}
		if text := scrape(); strings.Contains(text, `{destination="socket"}`) ||
			!strings.Contains(text, `edgespan_flowlog_exported_records_total{destination="collector"} 1`) {
			r.Error(text)
		}
		r.apply(withFlowLog(false))
		r.settle(time.Second)
		if text := scrape(); strings.Contains(text, "destination=") {
			r.Error("without a log: ", text)
		}
		if want := []string{"udp 192.0.2.7:4739"}; !slices.Equal(dialed, want) {
			r.Errorf("dialed %q, want %q", dialed, want)
		}
		said := []string{}
		if err := r.node.Events(r.Context(), nodeapi.EventQuery{Of: "host"}, func(e nodeapi.Event) error {
			if strings.Contains(e.Text, "flow log is") {
				said = append(said, e.Kind+": "+e.Text+": "+e.Error)
			}
			return nil
		}); err != nil {
			r.Fatal(err)
		}
		if want := []string{"failed: the flow log is not sent to the socket /run/flows.sock: no such file",
			"recovered: the flow log is sent to the socket /run/flows.sock again: "}; !slices.Equal(said, want) {
			r.Errorf("%q, want %q", said, want)
		}
	})
}

// memFlows is the store of a flow log in memory.
type memFlows struct {
	mu    sync.Mutex
	lines []string
	err   error
}

func (f *memFlows) Write(lines []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.lines = append(f.lines, strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n")...)
	}
	return f.err
}

func (f *memFlows) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *memFlows) Stored() (func(context.Context, func([]byte) error) error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := slices.Clone(f.lines)
	return func(_ context.Context, emit func([]byte) error) error {
		for _, line := range now {
			if err := emit([]byte(line)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
