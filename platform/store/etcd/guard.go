package etcd

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// How soon the store stops using a member that does not answer. gRPC alone needs 15 s or more to notice a connection
// that silently drops packets (its keepalive is at least 10 s), and a call to a member that is cut off from the others
// hangs for etcd's 7 s.
const (
	pollEvery  = 500 * time.Millisecond
	alarmEvery = 10                      // polls between queries for alarms
	silence    = 1500 * time.Millisecond // without an answer, while another member answers
	grace      = 100 * time.Millisecond  // time for a write to finish after a change of leader
)

// errLeader ends a write that was sent to a leader that has lost its leadership. etcd itself would wait for 7 s.
var errLeader = errors.New("the cluster has a new leader: write outcome unknown")

// guard polls each member, over a separate connection, whether it takes part in the cluster, and makes the store avoid
// one that does not while another one does. It decides nothing about the data.
type guard struct {
	log     *zap.Logger
	alarmed func(asked time.Time, noSpace bool)
	weighed func(member string, asked time.Time, s size)
	client  *clientv3.Client // the store's
	cancel  context.CancelFunc
	asking  sync.WaitGroup

	turn sync.Mutex // serializes answers; acquired before mu

	mu      sync.Mutex
	members []*member
	term    uint64 // newest term in an answer
	conns   map[net.Conn]string
	calls   map[*call]bool
}

// member is one endpoint.
type member struct {
	endpoint string
	answers  bool // it answered the last poll
	left     bool // the store avoids it
}

// call is a call that the leader must carry out.
type call struct {
	begun time.Time
	end   context.CancelCauseFunc
}

func newGuard(o Options) *guard {
	g := &guard{log: o.Log, conns: map[net.Conn]string{}, calls: map[*call]bool{}}
	for _, e := range o.Endpoints {
		g.members = append(g.members, &member{endpoint: e, answers: true})
	}
	return g
}

// config returns the configuration of every client of a cluster.
func config(o Options) clientv3.Config {
	return clientv3.Config{
		Endpoints: o.Endpoints, TLS: o.TLS, Username: o.Username, Password: o.Password, Logger: o.Log,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second, // gRPC's minimum
		// Find a returning member soon, and give up a hanging connection attempt soon: gRPC's own limits are two minutes and
		// 20 s.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: 2 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		})},
	}
}

// dial opens a connection for the store's client and records its endpoint.
func (g *guard) dial(ctx context.Context, address string) (net.Conn, error) {
	network, at := "tcp", address
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		network, at = "unix", path
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, at)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[conn] = address
	return &guarded{conn, g}, nil
}

// guarded is a connection that removes its record when it is closed.
type guarded struct {
	net.Conn
	g *guard
}

func (c *guarded) Close() error {
	c.g.mu.Lock()
	delete(c.g.conns, c.Conn)
	c.g.mu.Unlock()
	return c.Conn.Close()
}

// run polls all members until stop.
func (g *guard) run(o Options, key string, client *clientv3.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	g.client, g.cancel = client, cancel
	for _, m := range g.members {
		g.asking.Go(func() { g.query(ctx, o, key, m) })
	}
}

func (g *guard) stop() {
	g.cancel()
	g.asking.Wait()
}

// query polls one member with a read that the leader must confirm.
func (g *guard) query(ctx context.Context, o Options, key string, m *member) {
	c := config(o)
	c.Endpoints, c.Context, c.Logger = []string{m.endpoint}, ctx, zap.NewNop() // the guard logs the member's failures
	client, err := clientv3.New(c)
	if err != nil { // the store's own client has reported the error
		return
	}
	defer client.Close()
	for n := 0; ctx.Err() == nil; n++ {
		within, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), silence)
		out, err := client.Get(within, key, clientv3.WithCountOnly())
		late := within.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		term := uint64(0)
		if err == nil {
			term = out.Header.RaftTerm
		}
		g.answered(m, !late, term) // an error that arrives in time is an answer
		if err == nil && n%alarmEvery == 0 {
			g.readAlarms(ctx, client, m.endpoint)
		}
		if late { // the members may be electing: the next answer reports the new leader, for which lost writes wait
			continue
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
		}
	}
}

// readAlarms asks a member that takes part in the cluster for alarms. Each member knows all alarms and reports them to
// every reader.
func (g *guard) readAlarms(ctx context.Context, client *clientv3.Client, endpoint string) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	asked := time.Now()
	out, err := client.Status(ctx, endpoint)
	if err != nil {
		return // the next member that answers reports them
	}
	g.weighed(endpoint, asked, size{used: out.DbSizeInUse, file: out.DbSize, limit: out.DbSizeQuota})
	g.alarmed(asked, slices.ContainsFunc(out.Errors,
		func(text string) bool { return strings.Contains(text, etcdserverpb.AlarmType_NOSPACE.String()) }))
}

// answered processes the result of a poll.
func (g *guard) answered(m *member, answers bool, term uint64) {
	g.turn.Lock()
	defer g.turn.Unlock()
	use, left := g.selectMembers(m, answers, term)
	if use == nil {
		return
	}
	g.log.Info("members of the store that are used", zap.Strings("endpoints", use))
	g.client.SetEndpoints(use...) // without mu: it closes connections, which acquires mu
	for _, conn := range left {   // their calls go to other members
		_ = conn.Close()
	}
}

// selectMembers records the result of a poll. If the members to use have changed, it returns them and the connections
// to the avoided ones.
func (g *guard) selectMembers(m *member, answers bool, term uint64) (use []string, left []net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m.answers = answers
	if term > g.term {
		if g.term > 0 {
			g.elected()
		}
		g.term = term
	}
	return g.choose()
}

// elected ends, after a while, the calls that the previous leader may have lost.
func (g *guard) elected() {
	now := time.Now()
	time.AfterFunc(grace, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for c := range g.calls {
			if c.begun.Before(now) {
				c.end(errLeader)
			}
		}
	})
}

// choose avoids the members that don't answer, if another one does, and uses those again that do. It returns nil if
// nothing has changed.
func (g *guard) choose() (use []string, left []net.Conn) {
	none := !slices.ContainsFunc(g.members, func(m *member) bool { return m.answers })
	moved := false
	for _, m := range g.members {
		away := !m.answers && !none
		if away && !m.left {
			left = append(left, g.connections(m.endpoint)...)
		}
		moved = moved || away != m.left
		if m.left = away; !away {
			use = append(use, m.endpoint)
		}
	}
	if !moved {
		return nil, nil
	}
	return use, left
}

// connections returns the connections to an endpoint.
func (g *guard) connections(endpoint string) (out []net.Conn) {
	_, address, found := strings.Cut(endpoint, "://")
	if !found {
		address = endpoint
	}
	for conn, at := range g.conns {
		if at == address {
			out = append(out, conn)
		}
	}
	return out
}

// watch returns a context that ends when the leader changes. Call done after the call.
func (g *guard) watch(ctx context.Context) (inner context.Context, done func()) {
	inner, end := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	c := &call{time.Now(), end}
	g.mu.Lock()
	g.calls[c] = true
	g.mu.Unlock()
	return inner, func() {
		g.mu.Lock()
		delete(g.calls, c)
		g.mu.Unlock()
		end(nil)
	}
}
