package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"edgespan/config"
	"edgespan/platform/nodelink/linkpb"
	"edgespan/platform/pki"
)

// The floor's stream, as the node link's.
const (
	floorService = "edgespan.link.v1.NodeLink"
	floorMethod  = "/" + floorService + "/Link"
)

// floorTimeout is how long a floor waits for what has to come.
const floorTimeout = 5 * time.Minute

// atOnce is how many files are written at the same time: more gain nothing on the disks
// that were tried, and each holds a thread.
const atOnce = 4

// floorAsk is a question to one of the floor's processes; the field that is set counts.
type floorAsk struct {
	Dir    string           // of the CA; comes first
	Wait   int              // until so many streams are open
	Push   *floorPush       // to each stream
	Weigh  bool             // what memory is in use
	Client *floorClientsAsk // of the clients' process
}

// floorPush is what a push of the link carries, as JSON between two processes of a test.
type floorPush struct {
	Document []byte
	MD5      string
	To       int // streams; 0: all
	Attempt  uint64
}

type floorClientsAsk struct {
	Addr   string
	Nodes  int
	Folder string // for their configs; "": nothing is written
}

// floorAnswer is what they answer.
type floorAnswer struct {
	Addr      string
	Open      int
	P50, P99  time.Duration // from the first octet until so many have acked
	All       time.Duration
	Heap, RSS int64
}

// bareServer is a gRPC server with mutual TLS, with gRPC's own settings.
type bareServer struct {
	mu      sync.Mutex
	streams []grpc.ServerStream
	opened  chan struct{}
	acked   chan time.Time
}

func floorServer(in *json.Decoder, out *json.Encoder) error {
	s := &bareServer{opened: make(chan struct{}, 1<<16), acked: make(chan time.Time, 1<<16)}
	for {
		var ask floorAsk
		if err := in.Decode(&ask); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		answer, err := s.answer(ask)
		if err == nil {
			err = out.Encode(answer)
		}
		if err != nil {
			return err
		}
	}
}

func (s *bareServer) answer(ask floorAsk) (floorAnswer, error) {
	switch {
	case ask.Dir != "":
		addr, err := s.listen(ask.Dir)
		return floorAnswer{Addr: addr}, err
	case ask.Wait > 0:
		return floorAnswer{Open: ask.Wait}, s.wait(s.opened, ask.Wait)
	case ask.Push != nil:
		return s.push(ask.Push)
	case ask.Weigh:
		return weigh(), nil
	default:
		return floorAnswer{}, errors.New("nothing was asked")
	}
}

// weigh is what a process has in use after a collection.
func weigh() floorAnswer {
	debug.FreeOSMemory()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return floorAnswer{Heap: int64(m.HeapInuse + m.StackInuse)}
}

func (s *bareServer) listen(dir string) (string, error) {
	ca, err := pki.Open(pki.Options{Dir: dir, Names: []string{"127.0.0.1"}})
	if err != nil {
		return "", err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(ca.ServerTLS())))
	g.RegisterService(&grpc.ServiceDesc{ServiceName: floorService, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Link", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, rpc grpc.ServerStream) error { return s.serve(rpc) },
	}}}, s)
	go func() { _ = g.Serve(l) }()
	return l.Addr().String(), nil
}

func (s *bareServer) serve(rpc grpc.ServerStream) error {
	for {
		m := &linkpb.Up{}
		if err := rpc.RecvMsg(m); err != nil {
			return err
		}
		if m.GetResult() != nil {
			s.acked <- time.Now()
			continue
		}
		s.mu.Lock()
		s.streams = append(s.streams, rpc)
		s.mu.Unlock()
		s.opened <- struct{}{}
	}
}

func (s *bareServer) wait(c <-chan struct{}, n int) error {
	late := time.NewTimer(floorTimeout)
	defer late.Stop()
	for i := range n {
		select {
		case <-c:
		case <-late.C:
			return fmt.Errorf("%d of %d streams came", i, n)
		}
	}
	return nil
}

// push sends one document and says when those who got it had acked.
func (s *bareServer) push(p *floorPush) (floorAnswer, error) {
	s.mu.Lock()
	to := slices.Clone(s.streams)
	s.mu.Unlock()
	if p.To > 0 {
		to = to[:p.To]
	}
	m := &linkpb.Down{Kind: &linkpb.Down_Push{Push: &linkpb.Push{
		Generation: &linkpb.Generation{Authority: "floor", Counter: p.Attempt}, Md5: p.MD5, Document: p.Document,
		ConfirmMs: 120000, Managed: true, Attempt: p.Attempt,
	}}}
	begun := time.Now()
	if err := s.send(to, m); err != nil {
		return floorAnswer{}, err
	}
	late := time.NewTimer(floorTimeout)
	defer late.Stop()
	var took []time.Duration
	for len(took) < len(to) {
		select {
		case at := <-s.acked:
			took = append(took, at.Sub(begun))
		case <-late.C:
			return floorAnswer{}, fmt.Errorf("%d of %d streams acked", len(took), len(to))
		}
	}
	slices.Sort(took)
	return floorAnswer{P50: quantile(took, 50), P99: quantile(took, 99), All: took[len(took)-1]}, nil
}

// send gives each processor its share of the streams.
func (s *bareServer) send(to []grpc.ServerStream, m *linkpb.Down) error {
	var group sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, runtime.NumCPU())
	for k := range errs {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(to) && errs[k] == nil; i = int(next.Add(1)) - 1 {
				errs[k] = to[i].SendMsg(m)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// quantile is the least value that percent of the sorted ones do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

// floor is the bare program as a benchmark holds it: a server and its nodes.
type floor struct {
	testing.TB
	nodes           int
	server, clients *child
	attempt         uint64
}

// newFloor starts both processes and waits until every stream is open.
func newFloor(t testing.TB, nodes int) *floor {
	t.Helper()
	f := &floor{TB: t, nodes: nodes, server: again(t, "floor-server"), clients: again(t, "floor-clients")}
	var a floorAnswer
	ca := t.TempDir()
	f.server.ask(floorAsk{Dir: ca}, &a)
	f.clients.ask(floorAsk{Dir: ca, Client: &floorClientsAsk{Addr: a.Addr, Nodes: nodes, Folder: t.TempDir()}}, &a)
	f.server.ask(floorAsk{Wait: nodes}, &a)
	return f
}

// push sends a document to so many streams, to all for 0.
func (f *floor) push(document config.Object, to int) floorAnswer {
	f.Helper()
	f.attempt++
	var a floorAnswer
	f.server.ask(floorAsk{Push: &floorPush{
		Document: config.AppendCanonical(nil, document), MD5: config.MD5(document), To: to, Attempt: f.attempt,
	}}, &a)
	return a
}

// weigh is the memory that the server has in use, and what is resident of it.
func (f *floor) weigh() floorAnswer {
	f.Helper()
	var a floorAnswer
	f.server.ask(floorAsk{Weigh: true}, &a)
	a.RSS = resident(f.TB, f.server.cmd.Process.Pid)
	return a
}
