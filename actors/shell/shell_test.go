package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"edgespan/pubsub/shellproto"
)

// scripted is a node whose operations do what their first argument says.
type scripted struct {
	mu     sync.Mutex
	done   []string
	ending atomic.Int64 // streams that have ended
}

func (n *scripted) Do(ctx context.Context, who shellproto.Who, r shellproto.Request, emit shellproto.Emit) error {
	n.mu.Lock()
	n.done = append(n.done, strings.TrimSpace(fmt.Sprintf("%s %s by %s", r.Op, strings.Join(r.Args, " "), who)))
	n.mu.Unlock()
	switch how := append(r.Args, "")[0]; how {
	case "fail":
		return shellproto.Failf(shellproto.ExitNotFound, "no such thing")
	case "panic":
		panic("as asked")
	case "flood":
		for i := 0; ; i++ {
			if err := emit(fmt.Sprintf("%06d %s", i, strings.Repeat("x", 4000)), 0); err != nil {
				n.ending.Add(1)
				return err
			}
		}
	case "wait":
		defer n.ending.Add(1)
		if err := emit("waits", 0); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	case "long":
		return emit(strings.Repeat("x", maxFrame), 0)
	}
	for range 3 {
		if err := emit(r.Op, 1); err != nil {
			return err
		}
	}
	return nil
}

// place is a server on a socket of its own.
type place struct {
	*testing.T
	node   *scripted
	server *Server
	path   string
	admin  atomic.Bool
	stop   context.CancelFunc
	ended  chan error
}

func serve(t *testing.T) *place {
	t.Helper()
	return serveLogged(t, zap.NewNop())
}

func serveLogged(t *testing.T, log *zap.Logger) *place {
	t.Helper()
	// A short path: that of a socket has at most 107 octets.
	dir, err := os.MkdirTemp("", "shell")
	if err != nil {
		t.Fatal(err)
	}
	p := &place{T: t, node: &scripted{}, path: filepath.Join(dir, "s"), ended: make(chan error, 1)}
	p.admin.Store(true)
	l, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.server = &Server{Node: p.node, Log: log,
		Identify: func(net.Conn) (shellproto.Who, error) {
			return shellproto.Who{UID: 7, PID: 8, Admin: p.admin.Load()}, nil
		}}
	go func() { p.ended <- p.server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *place) dial() *Session {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := Dial(ctx, p.path)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = s.Close() })
	return s
}

// until waits for a condition.
func (p *place) until(what string, is func() bool) {
	p.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.Fatalf("not within 20 s: %s", what)
		}
	}
}

// ask returns the answer of a request as one text.
func ask(s *Session, r shellproto.Request) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out []string
	err := s.Do(ctx, r, func(f shellproto.Frame) error {
		out = append(out, fmt.Sprintf("%s %d %t %s %d", f.Data, f.Dropped, f.End, f.Error, f.Exit))
		return nil
	})
	return fmt.Sprint(strings.Join(out, "|"), " ", err)
}

func TestAShellGetsAnswersAndRefusals(t *testing.T) {
	p := serve(t)
	s := p.dial()
	for _, c := range []struct {
		r    shellproto.Request
		want string
	}{
		{shellproto.Request{Op: "tree"}, `"tree" 1 false  0|"tree" 1 false  0|"tree" 1 false  0| 0 true  0 <nil>`},
		{shellproto.Request{Op: "tree", Args: []string{"fail"}}, " 0 true no such thing 10 <nil>"},
		{shellproto.Request{Op: "tree", Args: []string{"panic"}}, " 0 true the daemon failed to answer: its log says why 1 <nil>"},
		{shellproto.Request{Op: "inspect", Args: []string{"long"}},
			" 0 true the answer has 1048578 octets: at most 1047552 are sent 1 <nil>"},
		{shellproto.Request{Op: "nonsense"}, ` 0 true "nonsense": no command of the daemon's version 2 <nil>`},
		{shellproto.Request{Op: "reconcile", Args: []string{"n"}},
			" 0 true changes the node: must be in a shell that was started with --write 7 <nil>"},
	} {
		if got := ask(s, c.r); got != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.r, got, c.want)
		}
	}
	write := shellproto.Request{Op: "reconcile", Args: []string{"n"}, Write: true}
	if got := ask(s, write); !strings.HasSuffix(got, " 0 true  0 <nil>") {
		t.Errorf("an administrator: %s", got)
	}
	p.admin.Store(false)
	want := " 0 true not permitted to uid 7: must be root or in the group edgespan-admin 7 <nil>"
	if got := ask(p.dial(), write); got != want {
		t.Errorf("another user: %s", got)
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	if all := strings.Join(p.node.done, ", "); strings.Count(all, "reconcile") != 1 ||
		!strings.Contains(all, "reconcile n by uid 7, pid 8") {
		t.Errorf("done: %s", all)
	}
}

func TestAnotherVersionIsToldWhichTheDaemonHas(t *testing.T) {
	p := serve(t)
	s := p.dial()
	got := sendRaw(t, s, shellproto.Request{ID: 1, Version: 2, Op: "tree"})
	if got.Error != "version 2 of the shell's protocol: the daemon has version 1" {
		t.Errorf("%+v", got)
	}
}

// sendRaw sends a request as it is and returns the first frame under its ID.
func sendRaw(t *testing.T, s *Session, r shellproto.Request) shellproto.Frame {
	t.Helper()
	w := &pending{frames: make(chan shellproto.Frame, 64), done: make(chan struct{})}
	s.mu.Lock()
	s.open[r.ID] = w
	s.mu.Unlock()
	if err := s.send(r); err != nil {
		t.Fatal(err)
	}
	select {
	case f := <-w.frames:
		return f
	case <-time.After(10 * time.Second):
		t.Fatal("no answer")
		return shellproto.Frame{}
	}
}

func TestARepeatedRequestIsRefused(t *testing.T) {
	p := serve(t)
	s := p.dial()
	r := shellproto.Request{ID: 5, Version: shellproto.Version, Op: "restart", Args: []string{"a"}, Write: true}
	if f := sendRaw(t, s, r); f.Error != "" {
		t.Fatalf("%+v", f)
	}
	for _, id := range []uint64{5, 4} {
		r.ID = id
		if f := sendRaw(t, s, r); !strings.Contains(f.Error, "is repeated") {
			t.Errorf("request %d again: %+v", id, f)
		}
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	if len(p.node.done) != 1 {
		t.Errorf("done: %q", p.node.done)
	}
}

func TestAShellHasABoundOnWhatIsUnderWay(t *testing.T) {
	p := serve(t)
	s := p.dial()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wait sync.WaitGroup
	started := make(chan struct{}, maxUnderWay)
	for range maxUnderWay {
		wait.Go(func() {
			err := s.Do(ctx, shellproto.Request{Op: "watch", Args: []string{"wait"}}, func(shellproto.Frame) error {
				started <- struct{}{}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for range maxUnderWay {
		<-started
	}
	if got := ask(s, shellproto.Request{Op: "tree"}); !strings.Contains(got, "16 commands are under way: end one first") {
		t.Errorf("one more: %s", got)
	}
	cancel()
	wait.Wait()
	p.until("all cancelled", func() bool { return p.node.ending.Load() == maxUnderWay })
	p.until("room for another", func() bool {
		return strings.HasSuffix(ask(s, shellproto.Request{Op: "tree"}), "| 0 true  0 <nil>")
	})
}

// A shell that does not read loses items of its streams, which are counted, and costs the daemon a bounded amount. Others
// are served as ever.
func TestASlowReaderAloneLosesItems(t *testing.T) {
	p := serve(t)
	slow, other := p.dial(), p.dial()
	blocked, first := make(chan struct{}), make(chan struct{}, 1)
	var got, dropped, last uint64
	result := make(chan error, 1)
	go func() {
		result <- slow.Do(context.Background(), shellproto.Request{Op: "tail", Args: []string{"flood"}},
			func(f shellproto.Frame) error {
				select {
				case first <- struct{}{}:
					<-blocked
				default:
				}
				got++
				dropped += f.Dropped
				var text string
				_ = json.Unmarshal(f.Data, &text)
				_, _ = fmt.Sscanf(text, "%d", &last)
				if got == 300 {
					return errors.New("enough")
				}
				return nil
			})
	}()
	p.until("the stream has begun", func() bool { return len(first) == 1 })
	for range 20 {
		if got := ask(other, shellproto.Request{Op: "tree"}); !strings.HasSuffix(got, "| 0 true  0 <nil>") {
			t.Fatalf("another shell: %s", got)
		}
	}
	p.server.mu.Lock()
	shells := p.server.shells
	p.server.mu.Unlock()
	close(blocked)
	if err := <-result; err == nil || err.Error() != "enough" || shells != 2 {
		t.Fatalf("%v, %d shells", err, shells)
	}
	if last+1 != got+dropped || dropped == 0 {
		t.Errorf("got %d and %d dropped: the last is number %d", got, dropped, last)
	}
	p.until("the flood has ended", func() bool { return p.node.ending.Load() == 1 })
}

func TestADaemonThatIsGoneOrMuteIsReported(t *testing.T) {
	p := serve(t)
	s := p.dial()
	begun := make(chan struct{}, 1)
	result := make(chan error, 1)
	go func() {
		result <- s.Do(context.Background(), shellproto.Request{Op: "watch", Args: []string{"wait"}},
			func(shellproto.Frame) error { begun <- struct{}{}; return nil })
	}()
	<-begun
	p.stop()
	if err := <-result; !errors.Is(err, ErrGone) {
		t.Errorf("a daemon that ends: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, filepath.Join(filepath.Dir(p.path), "none")); !errors.Is(err, ErrUnreachable) {
		t.Errorf("no socket: %v", err)
	}
	mute, err := net.Listen("unix", p.path+"m")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close() //nolint:errcheck // a test
	if _, err := Dial(ctx, p.path+"m"); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "says nothing") {
		t.Errorf("a frozen daemon: %v", err)
	}
}

// attack returns what the server answers to messages of a peer that is no shell.
func (p *place) attack(all ...*remote.RemoteMessage) error {
	p.Helper()
	conn, err := grpc.NewClient("unix:"+p.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stream, err := remote.NewRemotingClient(conn).Receive(ctx)
	if err != nil {
		p.Fatal(err)
	}
	for _, m := range all {
		if err := stream.Send(m); err != nil {
			break
		}
	}
	_, err = stream.Recv()
	return err
}

// The calls by which protoactor-go's own remoting ends a process or lets a peer stop an actor are refused, and so is
// everything but the one envelope to the one target.
func TestForgedMessagesAreRefusedAndTheDaemonStands(t *testing.T) {
	p := serve(t)
	forged := func(change func(*remote.MessageBatch)) *remote.RemoteMessage {
		m, _, err := pack(gatewayName, shellproto.Request{ID: 1, Version: 1, Op: "tree"})
		if err != nil {
			t.Fatal(err)
		}
		change(m.GetMessageBatch())
		return m
	}
	stop, err := proto.Marshal(&actor.Stop{})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*remote.RemoteMessage{
		"nothing": {},
		"a connect request": {MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
			ConnectionType: &remote.ConnectRequest_ServerConnection{ServerConnection: &remote.ServerConnection{
				MemberId: "m", Address: "127.0.0.1:1"}}}}},
		"a disconnect request": {MessageType: &remote.RemoteMessage_DisconnectRequest{
			DisconnectRequest: &remote.DisconnectRequest{}}},
		"an empty batch":  forged(func(b *remote.MessageBatch) { b.Envelopes = nil }),
		"a large batch":   forged(func(b *remote.MessageBatch) { b.Envelopes = slices.Repeat(b.Envelopes, maxBatch+1) }),
		"another target":  forged(func(b *remote.MessageBatch) { b.Targets = []string{"router"} }),
		"another gateway": forged(func(b *remote.MessageBatch) { b.Targets = []string{"gateway-1"} }),
		"two targets":     forged(func(b *remote.MessageBatch) { b.Targets = append(b.Targets, "router") }),
		"a target beyond": forged(func(b *remote.MessageBatch) { b.Envelopes[0].Target = 7 }),
		"a type beyond":   forged(func(b *remote.MessageBatch) { b.Envelopes[0].TypeId = -1 }),
		"a system message": forged(func(b *remote.MessageBatch) {
			b.TypeNames, b.Envelopes[0].MessageData = []string{"actor.Stop"}, stop
		}),
		"an unknown type": forged(func(b *remote.MessageBatch) { b.TypeNames = []string{"x.Y"} }),
		"a serializer":    forged(func(b *remote.MessageBatch) { b.Envelopes[0].SerializerId = 1 }),
		"a sender": forged(func(b *remote.MessageBatch) {
			b.Senders, b.Envelopes[0].Sender = []*actor.PID{{Address: "10.0.0.1:1", Id: "x"}}, 1
		}),
		"a header": forged(func(b *remote.MessageBatch) {
			b.Envelopes[0].MessageHeader = &remote.MessageHeader{HeaderData: map[string]string{"a": "b"}}
		}),
		"no protobuf": forged(func(b *remote.MessageBatch) { b.Envelopes[0].MessageData = []byte{0xff, 0xff} }),
		"no JSON":     forged(func(b *remote.MessageBatch) { b.Envelopes[0].MessageData = []byte{10, 1, '{'} }),
		"too large": forged(func(b *remote.MessageBatch) {
			b.Envelopes[0].MessageData = make([]byte, 2*maxRequest)
		}),
	} {
		err := p.attack(m)
		if c := status.Code(err); c != codes.InvalidArgument && c != codes.ResourceExhausted {
			t.Errorf("%s: %v", name, err)
		}
	}
	conn, err := grpc.NewClient("unix:"+p.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	killer := remote.NewRemotingClient(conn)
	if _, err := killer.ListProcesses(ctx, &remote.ListProcessesRequest{Pattern: "*"}); status.Code(err) != codes.Unimplemented {
		t.Errorf("ListProcesses: %v", err)
	}
	_, err = killer.GetProcessDiagnostics(ctx, &remote.GetProcessDiagnosticsRequest{
		Pid: &actor.PID{Id: "gateway-1"}})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("GetProcessDiagnostics: %v", err)
	}
	if len(p.node.done) != 0 {
		t.Errorf("done: %q", p.node.done)
	}
	if got := ask(p.dial(), shellproto.Request{Op: "tree"}); !strings.HasSuffix(got, "| 0 true  0 <nil>") {
		t.Errorf("a shell after it: %s", got)
	}
	p.until("no gateway is left but one", func() bool { return p.server.Count() == 1 })
}

// Garbage and half-open connections are closed, and cost nothing that stays.
func TestGarbageAndSilentConnectionsLeaveNothing(t *testing.T) {
	p := serve(t)
	beside := p.dial()
	ask(beside, shellproto.Request{Op: "tree"})
	before := runtime.NumGoroutine()
	for _, garbage := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00", strings.Repeat("\xff", 1<<16),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		c, err := net.Dial("unix", p.path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(garbage))
		defer c.Close() //nolint:errcheck // a test
	}
	if got := ask(beside, shellproto.Request{Op: "tree"}); !strings.HasSuffix(got, "| 0 true  0 <nil>") {
		t.Errorf("a shell beside it: %s", got)
	}
	p.until("all goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
}

// A stream that is opened and then says nothing, or half of a message, holds one place and no more; with its connection
// it is gone.
func TestHalfOpenStreamsHoldAPlaceAndNoMore(t *testing.T) {
	p := serve(t)
	var conns []*grpc.ClientConn
	for range 5 {
		conn, err := grpc.NewClient("unix:"+p.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		stream, err := remote.NewRemotingClient(conn).Receive(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil { // it will read, and never say anything
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("a stream that is closed on its side: %v", err)
		}
		if _, err := remote.NewRemotingClient(conn).Receive(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	p.until("the open ones are counted", func() bool { return p.server.Count() == len(conns) })
	if got := ask(p.dial(), shellproto.Request{Op: "tree"}); !strings.HasSuffix(got, "| 0 true  0 <nil>") {
		t.Errorf("a shell beside them: %s", got)
	}
	for _, c := range conns {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	p.until("they are gone", func() bool { return p.server.Count() == 1 })
}

// Somebody who may only read takes all the connections that there are for him: an administrator still gets in.
func TestConnectionsOfOthersKeepNoAdministratorOut(t *testing.T) {
	p := serve(t)
	p.admin.Store(false)
	var last net.Conn
	for range maxConnections + 20 {
		c, err := net.Dial("unix", p.path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // a test
		last = c
	}
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("one too many: %v", err)
	}
	p.admin.Store(true)
	if got := ask(p.dial(), shellproto.Request{Op: "tree"}); !strings.HasSuffix(got, "| 0 true  0 <nil>") {
		t.Errorf("an administrator: %s", got)
	}
}

// More shells than the bound are refused with a sentence; an administrator still gets in.
func TestShellsAreBoundedAndCostLittle(t *testing.T) {
	p := serve(t)
	p.admin.Store(false)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range maxShells - sparedForAdmin {
		p.dial()
	}
	p.until("all are attached", func() bool { return p.server.Count() == maxShells-sparedForAdmin })
	runtime.GC()
	runtime.ReadMemStats(&after)
	// Both ends are in this process.
	used := func(m runtime.MemStats) float64 { return float64(m.HeapAlloc+m.StackInuse) / 1e6 }
	if mb := used(after) - used(before); mb > 2*16 {
		t.Errorf("%d shells: %.1f MB on both ends, at most 16 on each", p.server.Count(), mb)
	} else {
		t.Logf("%d shells: %.1f MB on both ends", p.server.Count(), mb)
	}
	one := p.dial()
	if got := ask(one, shellproto.Request{Op: "tree"}); !strings.Contains(got, "112 shells are attached: end one first") {
		t.Errorf("one more: %s", got)
	}
	p.admin.Store(true)
	if got := ask(p.dial(), shellproto.Request{Op: "tree"}); !strings.HasSuffix(got, "| 0 true  0 <nil>") {
		t.Errorf("an administrator: %s", got)
	}
}

// No octets make a value out of a message to somebody else, or end the process.
func FuzzUnpack(f *testing.F) {
	m, _, err := pack(gatewayName, shellproto.Request{ID: 1, Version: 1, Op: "tree", Args: []string{"a"}})
	if err != nil {
		f.Fatal(err)
	}
	seed, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m remote.RemoteMessage
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		all, err := unpack[shellproto.Request](&m, gatewayName)
		if err == nil && (len(all) == 0 || len(all) > maxBatch || m.GetMessageBatch().GetTargets()[0] != gatewayName) {
			t.Errorf("%q became %+v", data, all)
		}
	})
}
