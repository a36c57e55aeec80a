package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/integration/netns"
	"edgespan/platform/proc"
)

// buildDir is the folder of binary, and binary is the daemon, built for the first benchmark that starts one: make test
// runs no benchmark, and would otherwise compile everything again, without paths.
var (
	buildDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "esbench") })
	binary   = sync.OnceValues(built)
)

func built() (string, error) {
	dir, err := buildDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "edgespan")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "edgespan/cmd/edgespan")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build edgespan: %w\n%s", err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Println("bench: skipped: needs root for network namespaces")
		return
	}
	code := m.Run()
	if dir, err := buildDir(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// place is a namespace with an uplink, and namespaces for apps.
type place struct {
	*testing.B
	ns    *netns.NS
	dir   string // in memory
	state string // on the disk, of the daemon
	apps  []*netns.NS
	end   []func()
}

func newPlace(b *testing.B, apps int) *place {
	b.Helper()
	p := &place{B: b, ns: netns.New(b), state: b.TempDir()}
	p.end = append(p.end, func() { p.clear(); p.ns.Delete(b) })
	for _, argv := range []string{
		"ip link add eth0 type veth peer name far0", "ip addr add 192.0.2.2/24 dev eth0",
		"ip link set eth0 up", "ip link set far0 up", "ip route add default via 192.0.2.1",
	} {
		p.ns.Exec(b, strings.Fields(argv)...)
	}
	for range apps {
		p.app()
	}
	dir, err := os.MkdirTemp(memory(), "esb")
	p.check(err)
	p.check(os.Chmod(dir, 0o755)) // dnsmasq reads as nobody
	p.dir = dir
	p.end = append(p.end, func() { _ = os.RemoveAll(dir) })
	return p
}

// app makes one more namespace for an app.
func (p *place) app() {
	p.Helper()
	a := netns.New(p.B)
	p.apps = append(p.apps, a)
	p.end = append(p.end, func() { a.Delete(p.B) })
}

// memory is a folder in memory, as /run is where systemd runs: what both put there is
// gone with the machine. The daemon's state folder is on the disk.
func memory() string {
	var st unix.Statfs_t
	for _, dir := range []string{"/run", "/dev/shm"} {
		if unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC {
			return dir
		}
	}
	return ""
}

// close undoes what the place made, last first.
func (p *place) close() {
	for _, f := range slices.Backward(p.end) {
		f()
	}
	p.end = nil
}

func (p *place) check(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// daemon is an edgespan that runs in a place.
type daemon struct {
	*place
	cmd *exec.Cmd
	api *nodeapi.Client
	log string
}

// start starts a daemon with an empty config and waits until it answers.
func (p *place) start(env ...string) *daemon {
	p.Helper()
	d := &daemon{place: p, log: filepath.Join(p.dir, "log")}
	conf := filepath.Join(p.dir, "empty.json")
	p.check(os.WriteFile(conf, []byte("{}"), 0o600))
	out, err := os.Create(d.log)
	p.check(err)
	path, err := binary()
	p.check(err)
	d.cmd = exec.Command("nsenter", "--net="+p.ns.Path, "--", path, "node", "--config", conf,
		"--state-dir", p.state, "--run-dir", filepath.Join(p.dir, "run"))
	d.cmd.Stdout, d.cmd.Stderr = out, out
	d.cmd.Env = append(os.Environ(), env...)
	p.check(d.cmd.Start())
	p.check(out.Close())
	p.end = append(p.end, func() {
		_ = d.cmd.Process.Signal(syscall.SIGKILL)
		_ = d.cmd.Wait()
		if d.Failed() {
			d.Logf("the daemon said:\n%s", tail(d.log))
		}
	})
	d.api = nodeapi.NewClient(filepath.Join(p.dir, "run", "edgespan.sock"))
	p.end = append(p.end, d.api.Close)
	d.until("answers", func() bool { _, err := d.api.Version(context.Background()); return err == nil })
	return d
}

// until polls a condition that costs the daemon little, and fails after a minute.
func (d *daemon) until(what string, ok func() bool) {
	d.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			d.Fatalf("the daemon never %s", what)
		}
	}
}

// tail is the end of a log, as far as it helps.
func tail(path string) []byte {
	words, _ := os.ReadFile(path)
	return words[max(0, len(words)-4000):]
}

func (d *daemon) apply(doc any) {
	d.Helper()
	text, err := json.Marshal(doc)
	d.check(err)
	_, err = d.api.Apply(context.Background(), text, nodeapi.ApplyOptions{})
	d.check(err)
}

// settled waits until all networks are Present and all apps are activated.
func (d *daemon) settled(networks, apps int) {
	d.Helper()
	d.until("settled", func() bool { return d.ready("ni", networks) && d.ready("app", apps) })
}

func (d *daemon) ready(kind string, n int) bool {
	list, err := d.api.List(context.Background(), kind)
	d.check(err)
	good := 0
	for _, r := range list {
		if s, ok := r.Status.(map[string]any); ok && s["error"] == "" &&
			(s["state"] == "Present" || s["activated"] == true && s["pending"] == false) {
			good++
		}
	}
	return good == n && len(list) == n
}

// activated waits until an app is as its newest config wants it.
func (d *daemon) activated(k int) {
	d.Helper()
	d.until("activated", func() bool {
		r, err := d.api.Ready(context.Background(), "app", appID(k))
		d.check(err)
		return r.Ready
	})
}

// weigh reports the daemon's memory, that of its dnsmasqs, and how much of a core it
// takes while nothing happens.
func (d *daemon) weigh() {
	d.Helper()
	const watched = time.Minute // a round of full looks
	pid := d.cmd.Process.Pid    // nsenter has become the daemon
	time.Sleep(watched)         // the first round finds what the last apply changed
	last := cpu(d.B, pid)
	d.check(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)) // VmHWM begins anew
	const parts = 12
	var rss []int
	var idle []float64                          // of a core, in each part of the time
	for i := range int(watched / time.Second) { // whatever the phase of its round
		time.Sleep(time.Second)
		rss = append(rss, status(d.B, pid, "status", "VmRSS:"))
		if (i+1)%(int(watched/time.Second)/parts) == 0 {
			now := cpu(d.B, pid)
			idle = append(idle, 100*parts*float64(now-last)/watched.Seconds()/clockTicks)
			last = now
		}
	}
	mean, deviation := spread(idle)
	d.ReportMetric(mean, "%core-idle")
	d.ReportMetric(2*deviation/math.Sqrt(parts), "%core-idle-noise")
	slices.Sort(rss)
	d.ReportMetric(float64(rss[len(rss)/2])/1024, "MB-rss")
	d.ReportMetric(float64(rss[len(rss)-1])/1024, "MB-rss-most")
	d.ReportMetric(float64(status(d.B, pid, "status", "VmHWM:"))/1024, "MB-rss-peak")
	pss := 0
	for _, p := range strings.Fields(d.ns.Exec(d.B, "pgrep", "dnsmasq")) {
		var n int
		_, err := fmt.Sscan(p, &n)
		d.check(err)
		if strings.Contains(cmdline(n), d.dir) {
			pss += status(d.B, n, "smaps_rollup", "Pss:")
		}
	}
	d.ReportMetric(float64(pss)/1024, "MB-pss-dnsmasq")
}

const clockTicks = 100 // USER_HZ, proc(5)

// cpu is the time that a process and its ended children have used, in ticks.
func cpu(b *testing.B, pid int) int {
	b.Helper()
	return ticks(b, pid, 4)
}

// ownCPU is the time that a process has used without its children.
func ownCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	return time.Duration(ticks(b, pid, 2)) * time.Second / clockTicks
}

// ticks sums user and system time of a process, and with four fields also those of its ended children.
func ticks(b *testing.B, pid, fields int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	sum := 0
	for _, f := range strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[11 : 11+fields] {
		var n int
		if _, err := fmt.Sscan(f, &n); err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return sum
}

// status is a line of a file of a process, in KiB.
func status(b *testing.B, pid int, file, line string) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, found := strings.Cut("\n"+string(text), "\n"+line)
	n := 0
	if _, err := fmt.Sscan(rest, &n); !found || err != nil {
		b.Fatalf("no %s in %s: %v", line, file, err)
	}
	return n
}

func cmdline(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // "" once it has ended
	return string(text)
}

// links counts the links of the namespace whose name begins so.
func (p *place) links(prefix string) int {
	return strings.Count("\n"+p.ns.Exec(p.B, "ip", "-br", "link"), "\n"+prefix)
}

// answers waits until each gateway has answered a question for a name of its own.
func (p *place) answers(gateways []netip.Addr) {
	p.Helper()
	q := new(dns.Msg)
	q.SetQuestion("gateway.lan.", dns.TypeA)
	c := &dns.Client{Timeout: 200 * time.Millisecond}
	p.check(proc.In(p.ns.Path, func() error {
		for _, gw := range gateways {
			for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
				if _, _, err := c.Exchange(q, netip.AddrPortFrom(gw, 53).String()); err == nil {
					break
				} else if time.Now().After(end) {
					return fmt.Errorf("no answer from %s: %w", gw, err)
				}
			}
		}
		return nil
	}))
}

// ratio reports the medians of two kinds of runs, their ratio, and by how much that is uncertain.
func ratio(b *testing.B, own, floor []time.Duration) {
	b.Helper()
	o, f := median(own), median(floor)
	var pairs []float64
	for i := range min(len(own), len(floor)) {
		pairs = append(pairs, float64(own[i])/float64(floor[i]))
	}
	b.ReportMetric(0, "ns/op") // of a turn with its namespaces: says nothing
	b.ReportMetric(float64(o.Microseconds())/1000, "ms/ours")
	b.ReportMetric(float64(f.Microseconds())/1000, "ms/floor")
	b.ReportMetric(float64(o)/float64(f), "ratio")
	b.ReportMetric(noise(pairs), "noise")
}

// noise is by how much the median of some values is uncertain: half of its 95 % confidence interval (McGill, Tukey and
// Larsen, 1978), or half of the range of a few.
func noise(list []float64) float64 {
	if len(list) < 7 {
		return (slices.Max(list) - slices.Min(list)) / 2
	}
	return 1.57 * (middle(list, 0.75) - middle(list, 0.25)) / math.Sqrt(float64(len(list)))
}

// spread is the mean of a list, and its standard deviation.
func spread(list []float64) (mean, deviation float64) {
	for _, v := range list {
		mean += v / float64(len(list))
	}
	for _, v := range list {
		deviation += (v - mean) * (v - mean) / float64(len(list)-1)
	}
	return mean, math.Sqrt(deviation)
}

// middle is a quantile of a list.
func middle(list []float64, q float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[int(q*float64(len(list)-1)+0.5)]
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// turns runs both in each round; who comes first changes, since it finds colder caches.
func turns(b *testing.B, a, z func()) {
	for i := range b.N {
		if i%2 == 0 {
			a()
			z()
		} else {
			z()
			a()
		}
	}
}
