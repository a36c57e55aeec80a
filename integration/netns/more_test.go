package netns_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/integration/netns"
	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/miekg/dns"
)

func sortedLines(lines []string) []string { slices.Sort(lines); return lines }

func TestAHangingCommandMeetsItsDeadlineAndItsGroupDies(t *testing.T) {
	l := newLab(t)
	l.must(hostOwner, root())
	pidfile := filepath.Join(t.TempDir(), "pid")
	wrap(t, "iptables-restore", "sleep 1000 & echo $! > "+pidfile+"; wait\n")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	var op netstate.Op
	for _, o := range netstate.Diff(netstate.State{}, l.network(1)) {
		if o.Kind == netstate.KindChain {
			op = o
		}
	}
	err := l.host.Do(ctx, owner(1), op)
	if err == nil || !strings.Contains(err.Error(), "deadline") || !strings.Contains(err.Error(), "iptables-restore") {
		t.Errorf("error %v", err)
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
	b, err := os.ReadFile(pidfile)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "grandchild has ended", func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// dnsLoop sends queries until it is stopped, and counts queries and failures.
type dnsLoop struct {
	asked, failed atomic.Int64
	stop          func()
}

func (l *lab) askForever(t *testing.T) *dnsLoop {
	d := &dnsLoop{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			conn, err := dialIn(l.ns, "10.1.0.1:53")
			if err == nil {
				q := new(dns.Msg)
				q.SetQuestion("gateway.edge.", dns.TypeA)
				var a *dns.Msg
				a, _, err = (&dns.Client{Timeout: 2 * time.Second}).ExchangeWithConn(q, conn)
				if err == nil && len(a.Answer) != 1 {
					err = dns.ErrRcode
				}
				_ = conn.Close()
			}
			d.asked.Add(1)
			if err != nil {
				d.failed.Add(1)
				t.Logf("question %d: %v", d.asked.Load(), err)
			}
		}
	})
	d.stop = func() { cancel(); wg.Wait() }
	return d
}

func dialIn(ns *netns.NS, addr string) (conn *dns.Conn, err error) {
	err = proc.In(ns.Path, func() error {
		conn, err = dns.Dial("udp", addr)
		return err
	})
	return conn, err
}

func TestNoAnswerIsLostWhileNamesAndHostsComeAndGo(t *testing.T) {
	l := newLab(t)
	l.must(hostOwner, root())
	want := l.network(1)
	l.must(owner(1), want)
	pid := func() string {
		b, err := os.ReadFile(filepath.Join(l.dir, "ni/1/dnsmasq/process.json"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(b), ",")[0]
	}
	was := pid()
	loop := l.askForever(t)
	resolves := func(name, ip string) func() bool {
		return func() bool {
			out, err := l.ns.Try("dig", "+short", "+tries=1", "+time=2", "@10.1.0.1", name)
			return err == nil && strings.TrimSpace(out) == ip
		}
	}
	for i := range 5 {
		ip := "10.1.0." + strconv.Itoa(10+i)
		hosts := netstate.File{Path: "ni/1/conf/hosts/later", Content: ip + " app.edge\n"}
		want.Add(hosts, netstate.File{Path: "ni/1/conf/dhcp-hosts/later", Content: "02:16:3e:01:00:01," + ip + ",app\n"})
		readAgain(want, ip)
		l.must(owner(1), want)
		until(t, "app.edge is "+ip, resolves("app.edge", ip))
	}
	delete(want, netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf/hosts/later"})
	delete(want, netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf/dhcp-hosts/later"})
	readAgain(want, "gone")
	l.must(owner(1), want)
	until(t, "app.edge is gone", resolves("app.edge", ""))
	loop.stop()
	if pid() != was {
		t.Error("dnsmasq was restarted")
	}
	t.Logf("%d questions", loop.asked.Load())
	if loop.asked.Load() < 10 || loop.failed.Load() > 0 {
		t.Errorf("%d of %d questions failed", loop.failed.Load(), loop.asked.Load())
	}
}

// readAgain makes dnsmasq reread its files.
func readAgain(s netstate.State, why string) {
	p := s[netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"}].(netstate.Process)
	p.Reload = "reload " + why
	s.Add(p)
}

// dnsmasq does not read temporary names in the hosts folder: a half-written file never becomes an answer.
func TestHostsIgnoreFilesOnTheirWay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	dir := filepath.Join(l.dir, "ni/1/conf/hosts")
	if err := os.WriteFile(filepath.Join(dir, ".new-1"), []byte("10.1.0.66 half.edge\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := l.network(1)
	want.Add(netstate.File{Path: "ni/1/conf/hosts/zz", Content: "10.1.0.67 whole.edge\n"})
	readAgain(want, "zz")
	l.must(owner(1), want)
	dig := func(name string) string { return strings.TrimSpace(l.ns.Exec(t, "dig", "+short", "@10.1.0.1", name)) }
	until(t, "whole.edge is known", func() bool { return dig("whole.edge") == "10.1.0.67" })
	if out := dig("half.edge"); out != "" {
		t.Errorf("half.edge is %s", out)
	}
}

func TestAHelperThatNeverAnswersIsStoppedAndItsOutputReported(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	want := l.network(1)
	f := netstate.File{Path: "ni/1/conf/dnsmasq.conf", Content: "no-such-option=1\n"}
	want.Add(f)
	fs := l.apply(t.Context(), owner(1),
		netstate.NewState(want[netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf"}], f,
			want[netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"}]))
	if len(fs) != 1 || !strings.Contains(fs[0].Err, "bad option") {
		t.Errorf("failures: %+v", fs)
	}
	l.must(owner(1), netstate.State{})
	if _, err := os.Stat(filepath.Join(l.dir, "ni")); !os.IsNotExist(err) {
		t.Errorf("run folder is left: %v", err)
	}
}

func TestAStrayOfACrashIsFoundByItsCommandLine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	want := l.network(1)
	l.must(owner(1), want)
	path := filepath.Join(l.dir, "ni/1/dnsmasq/process.json")
	if err := os.WriteFile(path, []byte(`{"argv":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.must(owner(1), want)
	all, err := proc.List()
	found := slices.DeleteFunc(all, func(p proc.Process) bool {
		return !slices.Contains(p.Argv, "--conf-file="+l.dir+"/ni/1/conf/dnsmasq.conf")
	})
	if err != nil || len(found) != 1 {
		t.Errorf("helpers %v err %v, want one", found, err)
	}
}

func TestAHelperWhoseRunFolderIsGoneIsStopped(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	want := l.network(1)
	l.must(owner(1), want)
	if err := os.RemoveAll(filepath.Join(l.dir, "ni")); err != nil {
		t.Fatal(err)
	}
	l.must(owner(1), want) // replaced by a known one
	if err := os.RemoveAll(filepath.Join(l.dir, "ni")); err != nil {
		t.Fatal(err)
	}
	l.must(owner(1), netstate.State{})
	all, err := proc.List()
	found := slices.DeleteFunc(all, func(p proc.Process) bool {
		return !slices.Contains(p.Argv, "--conf-file="+l.dir+"/ni/1/conf/dnsmasq.conf")
	})
	if err != nil || len(found) != 0 {
		t.Errorf("helpers %v err %v, want none", found, err)
	}
}

func TestFlowsThatAreDeniedAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, port := range []string{"1001", "1002"} {
		l.ns.Exec(t, "conntrack", "-I", "-p", "udp", "-s", "10.1.0.2", "-d", "192.0.2.53", "--sport", "5000", "--dport", port,
			"-t", "100")
	}
	n, err := l.host.ForgetFlows(t.Context(), func(f netstate.Flow) bool {
		return f.Proto == 17 && f.Src == netip.MustParseAddrPort("10.1.0.2:5000") &&
			f.Dst == netip.MustParseAddrPort("192.0.2.53:1001") &&
			f.ReplySrc == f.Dst && f.ReplyDst == f.Src
	})()
	if err != nil || n != 1 {
		t.Errorf("forgot %d, err %v", n, err)
	}
	out := l.ns.Exec(t, "conntrack", "-L")
	if strings.Contains(out, "dport=1001") || !strings.Contains(out, "dport=1002") {
		t.Errorf("table: %s", out)
	}
}

// The list has each flow with its counters, and the time of its begin.
func TestTrackedFlowsAreListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "iptables", "-A", "INPUT", "-m", "conntrack", "--ctstate", "NEW", "-j", "ACCEPT")
	l.must(hostOwner, netstate.NewState(netstate.Sysctl{Key: netstate.CountFlows, Value: "1"},
		netstate.Sysctl{Key: netstate.TimeFlows, Value: "1"}))
	before := time.Now()
	l.ns.Exec(t, "bash", "-c", "for n in 1 2 3; do echo hello >&3; done 3> /dev/udp/127.0.0.1/1003 || true")
	var got []netstate.EndedFlow
	if err := l.host.TrackedFlows(t.Context(), func(f netstate.EndedFlow) {
		if f.Dst == netip.MustParseAddrPort("127.0.0.1:1003") {
			got = append(got, f)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Out.Packets == 0 || got[0].Out.Bytes != 34*got[0].Out.Packets ||
		got[0].Start.Before(before) || got[0].End.Before(got[0].Start) {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.host.TrackedFlows(ctx, func(netstate.EndedFlow) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a list whose reader has gone: %v", err)
	}
}

// A group of nfnetlink_log has one listener: the second one gets an error, and the first one its packets.
func TestAGroupOfLoggedPacketsHasOneListener(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const group = 15021
	l.ns.Exec(t, "iptables", "-A", "INPUT", "-p", "udp", "--dport", "1004", "-j", "NFLOG", "--nflog-group", "15021",
		"--nflog-prefix", "ES1-1XI")
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan netstate.DeniedPacket, 100), make(chan error, 2)
	for range 2 {
		go func() {
			ended <- l.host.DeniedPackets(ctx, group, func(e netstate.FlowEvents) {
				for _, p := range e.Denied {
					got <- p
				}
			})
		}()
	}
	if err := <-ended; !errors.Is(err, unix.EPERM) {
		t.Errorf("the second listener: %v", err)
	}
	l.ns.Exec(t, "bash", "-c", "echo hello > /dev/udp/127.0.0.1/1004")
	if p := <-got; p.Chain != "ES1-1XI" || p.Dst != netip.MustParseAddrPort("127.0.0.1:1004") || p.Bytes != 34 {
		t.Errorf("%+v", p)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the first listener: %v", err)
	}
}

func TestASysctlThatSomeoneElseChangedStays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const key = "net/ipv4/conf/default/rp_filter"
	read := func() string { return strings.TrimSpace(l.ns.Exec(t, "sysctl", "-n", key)) }
	l.ns.Exec(t, "sysctl", "-q", key+"=0")
	want := netstate.NewState(netstate.Sysctl{Key: key, Value: "1"})
	l.must(hostOwner, want)
	l.must(hostOwner, netstate.State{})
	if read() != "0" {
		t.Errorf("not restored: %s", read())
	}
	l.must(hostOwner, want)
	l.ns.Exec(t, "sysctl", "-q", key+"=2")
	l.must(hostOwner, netstate.State{})
	if read() != "2" {
		t.Errorf("foreign value was overwritten: %s", read())
	}
}

// events collects Watch's events.
type events struct {
	mu   sync.Mutex
	list []netstate.HostEvent
}

func (e *events) any(f func(netstate.HostEvent) bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.list, f)
}

func (e *events) clear() { e.mu.Lock(); e.list = nil; e.mu.Unlock() }

func TestWatchReportsEveryChange(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	e, done := &events{}, make(chan error, 1)
	go func() {
		done <- l.host.Watch(ctx, func(ev netstate.HostEvent) { e.mu.Lock(); e.list = append(e.list, ev); e.mu.Unlock() })
	}()
	until(t, "first event is a resync",
		func() bool { return e.any(func(ev netstate.HostEvent) bool { return ev.Resync }) })
	e.mu.Lock()
	first := e.list[0]
	e.mu.Unlock()
	if !first.Resync || len(first.Interfaces) != 3 || first.Interfaces[0].Name != "eth0" || !first.Interfaces[0].Up ||
		first.Interfaces[0].MTU != 1500 || !slices.Equal(first.Interfaces[0].DefaultRoutes,
		[]netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}) ||
		!slices.Contains(first.Interfaces[0].Addresses, netip.MustParsePrefix("192.0.2.2/24")) {
		t.Errorf("first event: %+v", first)
	}
	text, _ := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max") // none without the module
	if max, _ := strconv.Atoi(strings.TrimSpace(string(text))); first.MaxTracked == nil || *first.MaxTracked != max {
		t.Errorf("the limit of tracked flows is %v, want %d", first.MaxTracked, max)
	}
	for _, c := range []struct {
		cmd  string
		what func(netstate.HostEvent) bool
	}{
		{"ip link set far0 down",
			func(ev netstate.HostEvent) bool { return len(ev.Interfaces) == 3 && !ev.Interfaces[0].Up }},
		{"ip link set far0 up", func(ev netstate.HostEvent) bool { return len(ev.Interfaces) == 3 && ev.Interfaces[0].Up }},
		{"ip addr add 198.51.100.1/24 dev eth0",
			func(ev netstate.HostEvent) bool { return ev.Interfaces != nil && len(ev.Interfaces[0].Addresses) == 2 }},
		{"ip route replace default via 192.0.2.9", func(ev netstate.HostEvent) bool {
			return ev.Interfaces != nil && len(ev.Interfaces[0].DefaultRoutes) == 1 &&
				ev.Interfaces[0].DefaultRoutes[0].String() == "via 192.0.2.9"
		}},
		{"sysctl -q net.ipv4.conf.eth0.forwarding=1", func(ev netstate.HostEvent) bool {
			return ev.Forwarding != nil && slices.Equal(ev.Forwarding.On, []string{"eth0"}) && !ev.Forwarding.All &&
				!ev.HostRouting
		}},
		{"sysctl -q net.ipv4.ip_forward=1", func(ev netstate.HostEvent) bool {
			return ev.Forwarding != nil && ev.Forwarding.All && slices.Equal(ev.Forwarding.On, []string{"eth0", "far0"}) &&
				ev.Forwarding.Off == nil
		}},
		{"ip link add es7 type bridge", touches(7)},
		{"sysctl -q net.ipv4.conf.es7.forwarding=0", touches(7)},
		{"ip link set es7 up", touches(7)},
		{"ip addr add 10.7.0.1/24 dev es7", touches(7)},
		{"ip route add default via 192.0.2.9 table 20008", touches(8)},
		{"ip rule add priority 21009 lookup 20009", touches(9)},
		{"ip link del es7", touches(7)},
		{"ip netns add " + l.ns.Name + "w", func(ev netstate.HostEvent) bool { return ev.Namespaces }},
		{"ip netns del " + l.ns.Name + "w", func(ev netstate.HostEvent) bool { return ev.Namespaces }},
	} {
		e.clear()
		l.ns.Exec(t, strings.Fields(c.cmd)...)
		until(t, c.cmd, func() bool { return e.any(c.what) })
	}
	// A change of edgespan's own links does not change the foreign interfaces.
	e.clear()
	l.ns.Exec(t, "ip", "link", "add", "es7", "type", "bridge")
	until(t, "es7", func() bool { return e.any(touches(7)) })
	if e.any(func(ev netstate.HostEvent) bool { return ev.Interfaces != nil || ev.Forwarding != nil }) {
		t.Error("foreign interfaces were told though unchanged")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("watch: %v", err)
	}
}

func touches(n int) func(netstate.HostEvent) bool {
	return func(ev netstate.HostEvent) bool { return slices.Contains(ev.Touched, n) }
}

// Two hundred links come and go while the reader is blocked: the kernel drops messages, and one event reports the
// loss.
func TestAnOverflowEndsInAResync(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	var resyncs atomic.Int64
	stuck, done := make(chan struct{}), make(chan error, 1)
	var last atomic.Int64
	go func() {
		done <- l.host.Watch(ctx, func(ev netstate.HostEvent) {
			if ev.Resync && resyncs.Add(1) == 1 {
				<-stuck
			}
			if ev.Interfaces != nil {
				last.Store(int64(len(ev.Interfaces)))
			}
		})
	}()
	until(t, "first event", func() bool { return resyncs.Load() == 1 })
	var batch strings.Builder
	for range 40 {
		for i := range 200 {
			batch.WriteString("link set eth0 alias " + strings.Repeat(strconv.Itoa(i%10), 200) + "\n")
		}
	}
	batch.WriteString("link add extra0 type bridge\n")
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(batch.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	l.ns.Exec(t, "ip", "-batch", file)
	close(stuck)
	until(t, "resync after the overflow", func() bool { return resyncs.Load() > 1 && last.Load() == 4 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("watch: %v", err)
	}
}

// The table may have a million entries: a walk buffers only one answer of the kernel, and takes little time.
func TestAWalkThroughManyFlowsHoldsFewOfThem(t *testing.T) {
	const many = 50_000
	l := newLab(t)
	l.ns.Exec(t, "conntrack", "-L") // loads the conntrack module
	l.ns.Do(t, func() error { return netns.FillFlows(0, many) })
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	calls, limit := 0, uint64(0)
	began := time.Now()
	n, err := l.host.ForgetFlows(t.Context(), func(f netstate.Flow) bool {
		if calls++; calls%5000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			limit = max(limit, now.HeapAlloc)
		}
		return f.Dst.Port() == 7
	})()
	t.Logf("%d of %d flows in %v, heap %d KB higher", n, calls, time.Since(began),
		(int64(limit)-int64(before.HeapAlloc))>>10)
	if err != nil || calls != many || n != many/2 {
		t.Errorf("forgot %d of %d, err %v", n, calls, err)
	}
	if limit > before.HeapAlloc+4<<20 {
		t.Errorf("the heap grew from %d to %d", before.HeapAlloc, limit)
	}
	if left := strings.TrimSpace(l.ns.Exec(t, "sysctl", "-n",
		"net.netfilter.nf_conntrack_count")); left != strconv.Itoa(many/2) {
		t.Errorf("%s are left", left)
	}
}
