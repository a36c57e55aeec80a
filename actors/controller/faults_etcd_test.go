package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/kv"
	"edgespan/platform/store/etcd"
)

// TestFaultyHistoriesOnEtcd runs histories on three etcd processes, one of which is killed or hangs now and then, on
// the machine's clock. Each takes some 40 s, so EDGESPAN_ETCD_HISTORIES sets their number.
func TestFaultyHistoriesOnEtcd(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("EDGESPAN_ETCD_HISTORIES"))
	if err != nil || n <= 0 {
		t.Skip("takes 40 s for each history: EDGESPAN_ETCD_HISTORIES=30 runs 30")
	}
	first, _ := strconv.Atoi(os.Getenv("EDGESPAN_HISTORY"))
	m := newMembers(t)
	for i := first; i < first+n; i++ {
		ok := t.Run(fmt.Sprint(i), func(t *testing.T) {
			began := time.Now()
			w := m.history(t, uint64(i))
			t.Logf("%d asked for, %d pushes, %d gates, %d batches, %s", len(w.ops), w.pushes, w.audit.gates, w.audit.batches,
				time.Since(began).Round(time.Second))
		})
		if !ok {
			t.Fatalf("history %d: EDGESPAN_HISTORY=%d EDGESPAN_ETCD_HISTORIES=1 runs it again", i, i)
		}
	}
}

// history runs one history on its own fleet.
func (m *members) history(t *testing.T, seed uint64) *faulty {
	t.Helper()
	r := newRig(t)
	r.real = true
	m.heal(t)
	open := func(string) storage.Store { return m.open(t, fmt.Sprint("fleet-", seed)) }
	s := m.open(t, fmt.Sprint("fleet-", seed))
	w := newFaulty(r, &common{Store: patient{s}, compact: s.Compact}, seed)
	defer func() {
		for name := range r.replicas {
			r.stop(name)
		}
		for _, n := range r.nodes {
			n.cut()
		}
	}()
	inner := r.change
	r.change = func(o *Options) {
		inner(o)
		o.Settings = fleet.Defaults(o.Replica)
		o.Settings.Interval, o.Settings.Confirm, o.Settings.Resend = 3*time.Second, 5*time.Second, time.Second
		o.Flags = map[string]string{}
		for k, v := range faultyFlags {
			o.Flags[k] = v
		}
		o.Flags["config_batch_timeout_s"] = "8"
	}
	w.brief, w.open = true, open
	rnd := rand.New(rand.NewPCG(seed, 13))
	w.disturb = func() { m.disturb(t, w, rnd) }
	w.heal = func() { m.heal(t) }
	w.run(8 + w.rand.IntN(20))
	return w
}

// members are three processes of one etcd cluster.
type members struct {
	binary  string
	dirs    [3]string
	clients [3]string // host:port
	peers   [3]string
	process [3]*exec.Cmd // nil: the process is dead
	hangs   [3]bool
}

func newMembers(t *testing.T) *members {
	t.Helper()
	m := &members{binary: filepath.Join(t.TempDir(), "etcd")}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "build", "-ldflags=-s", "-o", m.binary,
		"go.etcd.io/etcd/server/v3").CombinedOutput(); err != nil {
		t.Fatalf("build etcd: %v: %s", err, out)
	}
	for i := range m.dirs {
		m.dirs[i], m.clients[i], m.peers[i] = filepath.Join(t.TempDir(), fmt.Sprint("m", i)), reserved(t), reserved(t)
	}
	for i := range m.process {
		m.start(t, i)
	}
	t.Cleanup(func() {
		for i, p := range m.process {
			if p != nil {
				m.kill(i)
			}
		}
	})
	return m
}

// reserved returns a port of the loopback that stays reserved until the test ends.
func reserved(t *testing.T) string {
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

func (m *members) start(t *testing.T, i int) {
	t.Helper()
	var all []string
	for j, peer := range m.peers {
		all = append(all, fmt.Sprintf("m%d=http://%s", j, peer))
	}
	client, peer := "http://"+m.clients[i], "http://"+m.peers[i]
	p := exec.Command(
		m.binary, "--name", fmt.Sprint("m", i), "--data-dir", m.dirs[i], "--log-level", "fatal", "--socket-reuse-port",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(all, ","), "--initial-cluster-token", "histories",
	)
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	m.process[i] = p
}

func (m *members) kill(i int) {
	_ = m.process[i].Process.Kill()
	_ = m.process[i].Wait() // killed
	m.process[i], m.hangs[i] = nil, false
}

// heal gets all three members running.
func (m *members) heal(t *testing.T) {
	t.Helper()
	for i, p := range m.process {
		switch {
		case p == nil:
			m.start(t, i)
		case m.hangs[i]:
			m.hangs[i] = false
			if err := p.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// disturb kills a member or makes it hang. A member that is disturbed already stays the one.
func (m *members) disturb(t *testing.T, w *faulty, rnd *rand.Rand) {
	t.Helper()
	i := rnd.IntN(len(m.process))
	for j, p := range m.process {
		if p == nil || m.hangs[j] {
			w.note("member m%d runs again", j)
			m.heal(t)
			return
		}
	}
	if rnd.IntN(2) == 0 {
		w.note("member m%d is killed", i)
		m.kill(i)
		return
	}
	w.note("member m%d hangs", i)
	m.hangs[i] = true
	if err := m.process[i].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// open opens a client of a fleet.
func (m *members) open(t *testing.T, name string) *etcd.Store {
	t.Helper()
	var endpoints []string
	for _, c := range m.clients {
		endpoints = append(endpoints, "http://"+c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := etcd.Open(ctx, etcd.Options{Endpoints: endpoints, Fleet: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// patient is the history's own connection to the store: it retries what disturbed members do not answer. It writes only
// what may be written twice.
type patient struct{ *etcd.Store }

// within retries until there is an answer, for a minute at most.
func (p patient) within(ask func(context.Context) error) (err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		err = ask(ctx)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

func (p patient) Get(_ context.Context, k kv.Key) (e kv.Entry, at kv.Revision, err error) {
	err = p.within(func(ctx context.Context) error { e, at, err = p.Store.Get(ctx, k); return err })
	return e, at, err
}

func (p patient) List(_ context.Context, below kv.Prefix, o kv.ListOptions) (page kv.Page, err error) {
	err = p.within(func(ctx context.Context) error { page, err = p.Store.List(ctx, below, o); return err })
	return page, err
}

func (p patient) Commit(_ context.Context, t kv.Txn) (o kv.TxnResult, err error) {
	err = p.within(func(ctx context.Context) error { o, err = p.Store.Commit(ctx, t); return err })
	return o, err
}
