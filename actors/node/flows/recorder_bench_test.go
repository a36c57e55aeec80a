package flows

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/flowlog"
	"edgespan/netinst/netstate"
	"edgespan/netinst/verdict"
)

// lines is a Store that only counts.
type lines struct{ bytes int }

func (l *lines) Write(b []byte) error { l.bytes += len(b); return nil }

func (*lines) Stored() (func(context.Context, func([]byte) error) error, error) { return nil, nil }

// BenchmarkFlow is the cost of one flow that ends, from the kernel's event to its line: 10,000 flows a second take a
// hundredth of ns/op as percent of a core. The kernel's part and the file are not in it.
func BenchmarkFlow(b *testing.B) {
	app, subnet := uuid.UUID{1}, netip.MustParsePrefix("10.1.0.0/24")
	a := netinst.Adapter{Config: netinst.AppAdapterConfig{AppUUID: app, Activate: true}}
	a.Lease.IP = netip.MustParseAddr("10.1.0.2")
	for n := range 10 {
		a.Config.Spec.ACL = append(a.Config.Spec.ACL, netinst.ACLRule{Name: fmt.Sprint("r", n), Action: netinst.Allow,
			Direction: netinst.Both, Protocol: "tcp", Ports: []netinst.PortRange{{First: uint16(n), Last: uint16(n)}}})
	}
	in := []netinst.Input{{Owner: netstate.Owner{Number: 1}, Adapters: []netinst.Adapter{a}, Config: netinst.NetworkInstanceConfig{
		UUID: uuid.UUID{2}, Type: netinst.Local, FlowLog: true, SpoofGuard: true, Port: "wan",
		IPv4: netinst.IPv4Config{Subnet: subnet, Gateway: subnet.Addr().Next()}}}}
	store := &lines{}
	f := New(Options{Store: store, Name: func(uuid.UUID) string { return "web" }, Stored: func(error) {}})
	f.Use(flowlog.NewBook(verdict.New(in, nil), in))
	var ended []netstate.EndedFlow
	for n := range 512 {
		x := netstate.EndedFlow{Flow: netstate.Flow{Proto: 6, Src: netip.AddrPortFrom(a.Lease.IP, uint16(1024+n)),
			Dst: netip.MustParseAddrPort("192.0.2.9:9")}, Start: time.Unix(1, 5), End: time.Unix(2, 7)}
		x.ReplySrc, x.ReplyDst = x.Dst, netip.MustParseAddrPort("198.51.100.2:6000")
		ended = append(ended, x)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%len(ended) == 0 {
			f.take(netstate.FlowEvents{Ended: ended})
			list, lost := f.queues.Take()
			if !f.put(f.lines(list, lost)) || lost > 0 || len(list) != len(ended) {
				b.Fatal("lines are lost")
			}
		}
	}
	b.ReportMetric(float64(store.bytes)/float64(b.N), "bytes/op")
}
