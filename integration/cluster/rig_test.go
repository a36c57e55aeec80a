package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"edgespan/platform/store/etcd"
)

// timeout is the limit for anything that must happen: nothing waits for all of it unless a test fails.
const timeout = time.Minute

// buildTime is for compiling all of etcd on a small machine without a build cache.
const buildTime = 5 * time.Minute

// electionTimeout is as in docs/operations.md; etcd's own is 1000.
var electionTimeout = flag.Int("election-timeout", 500, "of the members, in ms; the heartbeat is a tenth of it")

// programs is the folder of each test's etcd, and of etcdctl once a test has requested it.
var programs = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "etcd") })

var (
	binary  = sync.OnceValues(func() (string, error) { return built("etcd", "go.etcd.io/etcd/server/v3") })
	program = sync.OnceValues(func() (string,
		error) {
		return built("edgespan-controller", "edgespan/cmd/edgespan-controller")
	})
)

func built(name, from string) (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s", "-o", path, from)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// member is one process of a cluster, or the place of a dead one.
type member struct {
	name, dir    string
	client, peer string // addresses
	shown        string // the address at which the others reach peer
	process      *exec.Cmd
	ended        chan struct{}
}

func (m *member) endpoint() string { return "http://" + m.client }

// log is the file of a member's log.
func (m *member) log() string { return m.dir + ".log" }

// complaints returns the last log lines of a member.
func (m *member) complaints() string {
	text, err := os.ReadFile(m.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// cluster is three members, or as many as a test creates.
type cluster struct {
	testing.TB
	binary  string
	members []*member
	fleets  atomic.Int64
}

// begin starts three members and waits until they answer.
func begin(t testing.TB) *cluster {
	t.Helper()
	return beginWith(t, func(m *member) string { return m.peer })
}

// beginWith starts members that reach each other at addresses that a test may intercept.
func beginWith(t testing.TB, shown func(*member) string) *cluster {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{TB: t, binary: path}
	for i := range 3 {
		c.members = append(c.members, c.place(i+1))
		c.members[i].shown = shown(c.members[i])
	}
	for _, m := range c.members {
		c.start(m)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			if m.process != nil {
				c.kill(m)
			}
		}
	})
	for _, m := range c.members {
		c.answers(m)
	}
	return c
}

// place creates a place for a member, by its number from 1.
func (c *cluster) place(number int) *member {
	c.Helper()
	name := fmt.Sprint("etcd-", number)
	return &member{name: name, dir: filepath.Join(c.TempDir(), name), client: reserve(c.TB), peer: reserve(c.TB)}
}

// reserve returns a port of the loopback that stays reserved until the test ends, even after the member that listens
// there dies: a socket that is bound to it, and never listens, keeps the kernel from assigning it to others.
func reserve(t testing.TB) string {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(s) })
	if err := unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(s)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", bound.(*unix.SockaddrInet4).Port)
}

// start starts a member, for the first time or again.
func (c *cluster) start(m *member) {
	c.Helper()
	var all []string
	for _, other := range c.members {
		all = append(all, other.name+"=http://"+other.shown)
	}
	c.run(m,
		"--name", m.name, "--data-dir", m.dir,
		"--listen-client-urls", m.endpoint(), "--advertise-client-urls", m.endpoint(),
		"--listen-peer-urls", "http://"+m.peer, "--initial-advertise-peer-urls", "http://"+m.shown,
		"--initial-cluster", strings.Join(all, ","), "--initial-cluster-token", c.Name(),
	)
}

// run starts a member with its flags.
func (c *cluster) run(m *member, flags ...string) {
	c.Helper()
	log, err := os.OpenFile(m.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		c.Fatal(err)
	}
	defer log.Close()
	m.process = exec.Command(c.binary, append([]string{
		"--log-level", "error", "--socket-reuse-port",
		"--heartbeat-interval", fmt.Sprint(*electionTimeout / 10), "--election-timeout", fmt.Sprint(*electionTimeout),
	}, flags...)...)
	m.process.Stdout, m.process.Stderr = log, log
	m.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.process.Start(); err != nil {
		c.Fatal(err)
	}
	ended, process := make(chan struct{}), m.process
	m.ended = ended
	go func() {
		process.Wait()
		close(ended)
	}()
}

// kill ends a member as a power cut does.
func (c *cluster) kill(m *member) {
	c.Helper()
	select {
	case <-m.ended:
		c.Errorf("%s has ended by itself: %s", m.name, m.complaints())
	default:
		m.process.Process.Kill()
	}
	select {
	case <-m.ended:
	case <-time.After(timeout):
		c.Fatalf("%s does not end", m.name)
	}
	m.process = nil
}

func (c *cluster) signal(m *member, s os.Signal) {
	c.Helper()
	if err := m.process.Process.Signal(s); err != nil {
		c.Fatal(err)
	}
}

// answers waits until a member takes part: it answers a read that needs a majority.
func (c *cluster) answers(m *member) {
	c.Helper()
	c.until(m.name+" takes part", func(ctx context.Context) bool {
		client := c.dial(m)
		defer client.Close()
		_, err := client.Get(ctx, "any")
		return err == nil
	})
}

func (c *cluster) dial(m *member) *clientv3.Client {
	c.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		c.Fatal(err)
	}
	return client
}

// leader waits until one of the running members leads, according to all that run.
func (c *cluster) leader() (leader *member) {
	c.Helper()
	c.until("a member leads", func(ctx context.Context) bool {
		leader = nil
		var says []uint64
		for _, m := range c.members {
			if m.process == nil {
				continue
			}
			client := c.dial(m)
			status, err := client.Status(ctx, m.endpoint())
			client.Close()
			if err != nil {
				return false
			}
			if says = append(says, status.Leader); status.Leader == status.Header.MemberId {
				leader = m
			}
			if says[0] != status.Leader {
				return false
			}
		}
		return leader != nil
	})
	return leader
}

// follower returns a running member that does not lead.
func (c *cluster) follower() *member {
	c.Helper()
	leader := c.leader()
	for _, m := range c.members {
		if m != leader && m.process != nil {
			return m
		}
	}
	c.Fatal("no follower runs")
	return nil
}

// until checks a condition repeatedly, with a second for each check. If it never holds, the texts of explain go into
// the failure.
func (c *cluster) until(what string, match func(context.Context) bool, explain ...func() string) {
	c.Helper()
	end := time.Now().Add(timeout)
	for {
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		so := match(ctx)
		cancel()
		if so {
			return
		}
		if time.Now().After(end) {
			for _, m := range c.members {
				c.Logf("%s: runs %v: %s", m.name, m.process != nil, m.complaints())
			}
			for _, why := range explain {
				c.Log(why())
			}
			c.Fatalf("%s: not after %s", what, timeout)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// open opens a fleet's store, through some members or all.
func (c *cluster) open(fleet string, by ...*member) *etcd.Store {
	c.Helper()
	if by == nil {
		by = c.members
	}
	var endpoints []string
	for _, m := range by {
		endpoints = append(endpoints, m.endpoint())
	}
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	s, err := etcd.Open(ctx, etcd.Options{Endpoints: endpoints, Fleet: fleet})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { s.Close() })
	return s
}
