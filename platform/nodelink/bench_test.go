package nodelink

import (
	"net"
	"runtime"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
)

// idleStreams is small enough for any machine and large enough for an average.
const idleStreams = 300

// heap is what is in use after a collection: objects, and stacks of goroutines.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// bare is a server of gRPC with mutual TLS whose streams wait for a message, with gRPC's own
// settings: the floor beside which an idle stream of ours is measured.
func (r *rig) bare(b *testing.B, opened chan struct{}) (stop func()) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(r.ca.ServerTLS())))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Link", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, ss grpc.ServerStream) error {
			for {
				if err := ss.RecvMsg(&pb.Up{}); err != nil {
					return err
				}
				opened <- struct{}{}
			}
		},
	}}}, s)
	go func() { _ = s.Serve(l) }()
	r.addr = l.Addr().String()
	return s.Stop
}

// BenchmarkIdleStream says what an idle stream costs beside a bare gRPC server. The same
// hand-made clients are in both figures of the process, so their difference is the server's.
func BenchmarkIdleStream(b *testing.B) {
	opened := make(chan struct{}, idleStreams)
	// each opens the streams and says what one costs, client included.
	each := func(r *rig, wait func()) float64 {
		var open []*grpc.ClientConn
		before := heap()
		for range idleStreams {
			cred := r.joined(b)
			conn := dial(b, r, cred)
			open = append(open, conn)
			rpc, err := conn.NewStream(b.Context(), &linkStream, linkMethod)
			if err != nil {
				b.Fatal(err)
			}
			if err := rpc.SendMsg(&pb.Up{Kind: &pb.Up_Hello{Hello: &pb.Hello{Node: cred.Node().String()}}}); err != nil {
				b.Fatal(err)
			}
			wait()
		}
		cost := float64(heap()-before) / idleStreams
		for _, c := range open {
			c.Close()
		}
		return cost
	}
	for range b.N {
		own := newRig(b, func(o *ServerOptions) { o.Keepalive = Keepalive{} })
		cost := each(own, func() { take(b, own.up) })
		floor := newRig(b)
		stop := floor.bare(b, opened)
		bare := each(floor, func() { <-opened })
		stop()
		b.ReportMetric(cost, "B/ours")
		b.ReportMetric(bare, "B/bare")
		b.ReportMetric(cost-bare, "B/above")
	}
}

// BenchmarkReports is the way of a report from a node's Send to the controller's handler.
func BenchmarkReports(b *testing.B) {
	r := newRig(b, func(o *ServerOptions) { o.PerSecond, o.Burst = 1e9, 1e9 })
	n := r.run(b, r.joined(b))
	s := take(b, n.up)
	take(b, r.up)
	answer := nodeproto.Answer{ID: 1, Data: make([]byte, 200)}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Send(answer); err != nil {
			b.Fatal(err)
		}
		<-r.messages
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}
