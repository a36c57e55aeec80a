package nodelink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/config/fleet/nodeproto"
	"edgespan/platform/pki"
)

// timeout is how long a test waits for what has to come.
const timeout = 20 * time.Second

// clock is the wall clock and a shift that a test adds.
type clock struct {
	mu    sync.Mutex
	shift time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.shift)
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}

// rig is a controller's end on loopback, with tokens in memory.
type rig struct {
	clock   clock
	ca      *pki.Authority
	revoked *pki.Revocations
	server  *Server
	addr    string

	mu     sync.Mutex
	tokens map[string]pki.JoinToken
	names  map[string]string // node to name
	refuse error             // of Admit
	onMsg  func(s nodeproto.ToNode, m nodeproto.FromNode)

	up       chan upEvent
	down     chan downEvent
	messages chan nodeproto.FromNode
}

type upEvent struct {
	s nodeproto.ToNode
	h nodeproto.Hello
}

type downEvent struct {
	id    uint64
	cause error
}

func newRig(t testing.TB, change ...func(*ServerOptions)) *rig {
	t.Helper()
	r := &rig{
		revoked: &pki.Revocations{}, tokens: map[string]pki.JoinToken{}, names: map[string]string{},
		up: make(chan upEvent, 1000), down: make(chan downEvent, 1000), messages: make(chan nodeproto.FromNode, 10000),
	}
	ca, err := pki.Open(pki.Options{Dir: t.TempDir(), Names: []string{"127.0.0.1"}, Now: r.clock.now, Revoked: r.revoked})
	if err != nil {
		t.Fatal(err)
	}
	r.ca = ca
	opts := ServerOptions{Authority: ca, Handler: r, Now: r.clock.now, Keepalive: Keepalive{time.Second, time.Second},
		Sweep: 20 * time.Millisecond}
	for _, f := range change {
		f(&opts)
	}
	r.serve(t, opts)
	return r
}

func (r *rig) serve(t testing.TB, opts ServerOptions) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(opts)
	r.server, r.addr = server, l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		server.Drain(ctx)
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// Join spends a token, as a controller does in one transaction of its store.
func (r *rig) Join(_ context.Context, j nodeproto.Join) (nodeproto.Joined, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash, err := pki.JoinTokenHash(j.Token)
	if err != nil {
		return nodeproto.Joined{}, err
	}
	node, err := uuid.Parse(j.Node)
	if err != nil {
		return nodeproto.Joined{}, err
	}
	spent, err := r.tokens[hash].Redeem(r.clock.now(), j.Token, j.Name, pki.Request{Node: node, Key: j.Key})
	if err != nil {
		return nodeproto.Joined{}, err
	}
	if name := r.names[j.Node]; name != "" && name != j.Name {
		return nodeproto.Joined{}, fmt.Errorf("node %s is %q", j.Node, name)
	}
	r.tokens[hash], r.names[j.Node] = spent, j.Name
	return nodeproto.Joined{Name: j.Name}, nil
}

func (r *rig) Admit(context.Context, nodeproto.Hello) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refuse
}

func (r *rig) Connected(s nodeproto.ToNode, h nodeproto.Hello) { r.up <- upEvent{s, h} }

func (r *rig) Received(s nodeproto.ToNode, m nodeproto.FromNode) {
	r.mu.Lock()
	f := r.onMsg
	r.mu.Unlock()
	if f != nil {
		f(s, m)
		return
	}
	r.messages <- m
}

func (r *rig) Disconnected(s nodeproto.ToNode, cause error) { r.down <- downEvent{s.ID(), cause} }

func (r *rig) token(t testing.TB, name string, life time.Duration) string {
	t.Helper()
	text, kept, err := pki.NewJoinToken(name, r.clock.now().Add(life))
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens[kept.Hash] = kept
	return text
}

// fresh are the credentials of a node that has joined nothing.
func (r *rig) fresh(t testing.TB) *pki.Credentials {
	t.Helper()
	c, err := pki.OpenCredentials(t.TempDir(), uuid.New(), r.clock.now)
	if !errors.Is(err, pki.ErrNotJoined) {
		t.Fatal(err)
	}
	return c
}

// joined are credentials that the authority gave without a Join call.
func (r *rig) joined(t testing.TB) *pki.Credentials {
	t.Helper()
	c := r.fresh(t)
	csr, err := c.JoinRequest()
	if err != nil {
		t.Fatal(err)
	}
	req, err := pki.ParseRequest(csr)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := r.ca.Issue(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Install(issued.Chain, issued.Roots); err != nil {
		t.Fatal(err)
	}
	return c
}

// node is a running client.
type node struct {
	cred *pki.Credentials
	up   chan nodeproto.ToController
	got  chan nodeproto.FromController
	down chan error
	stop func() // and wait for the end
}

func (n *node) Up(s nodeproto.ToController)         { n.up <- s }
func (n *node) Received(m nodeproto.FromController) { n.got <- m }
func (n *node) Down(cause error)                    { n.down <- cause }

func (r *rig) run(t testing.TB, cred *pki.Credentials, change ...func(*ClientOptions)) *node {
	t.Helper()
	n := &node{cred: cred, up: make(chan nodeproto.ToController, 100), got: make(chan nodeproto.FromController, 1000),
		down: make(chan error, 100)}
	opts := ClientOptions{
		Controller: r.addr, Credentials: cred, Listener: n, Now: r.clock.now,
		Hello: func() nodeproto.Hello {
			return nodeproto.Hello{Name: "n", Software: "EDGESPAN-1-0-0", Capabilities: []string{"a", "b"}}
		},
		Random: func() float64 { return 0.02 },
	}
	for _, f := range change {
		f(&opts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- NewClient(opts).Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(n.stop)
	return n
}

// take waits for one value.
func take[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(timeout):
		t.Fatalf("no %T within %v", *new(T), timeout)
		panic("unreachable")
	}
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", timeout, what)
		}
	}
}

func wantErr(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one with %q", err, text)
	}
}

// proxy passes octets between a node and the controller until it is told to stop passing
// them, without closing anything: a half-open connection.
type proxy struct {
	addr string

	mu      sync.Mutex
	stopped bool
	conns   []net.Conn
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			wg.Go(func() { p.pass(in, out) })
			wg.Go(func() { p.pass(out, in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *proxy) pass(from, to net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		stopped := p.stopped
		p.mu.Unlock()
		if stopped {
			if err != nil {
				return
			}
			continue // read and forget: TCP acknowledges, nobody answers
		}
		if err != nil {
			to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}
