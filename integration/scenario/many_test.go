package scenario

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/platform/daemon"
	"edgespan/platform/lab"
)

// goroutines ends the daemon with SIGQUIT, which prints the stacks of its goroutines, and counts them.
func (w *world) goroutines() int {
	w.Helper()
	before, err := os.ReadFile(w.NodeLog())
	if err != nil {
		w.Fatal(err)
	}
	if err := w.node.Signal(syscall.SIGQUIT); err != nil {
		w.Fatal(err)
	}
	<-w.node.Ended()
	said, err := os.ReadFile(w.NodeLog())
	if err != nil {
		w.Fatal(err)
	}
	n := strings.Count(string(said[len(before):]), "\ngoroutine ")
	if n < 10 {
		w.Fatalf("the daemon told of %d goroutines", n)
	}
	return n
}

// daemonHas returns the number of the daemon's open files and of its running child processes.
func (w *world) daemonHas() (files, children int) {
	w.Helper()
	pid := w.in("node", "sh", "-c",
		`for p in $(ip netns pids "$0"); do grep -qx edgespan /proc/$p/comm && echo $p; done; :`, w.NS("node"))
	fds, err := os.ReadDir(filepath.Join("/proc", pid, "fd"))
	if err != nil {
		w.Fatal(err)
	}
	kids, err := filepath.Glob(filepath.Join("/proc", pid, "task", "*", "children"))
	if err != nil {
		w.Fatal(err)
	}
	for _, k := range kids {
		text, _ := os.ReadFile(k) // the thread may have ended
		children += len(strings.Fields(string(text)))
	}
	return len(fds), children
}

// applyMany applies configs one after the other over one connection, each in the given interval, and returns how long
// that took.
func (w *world) applyMany(configs []string, each time.Duration) time.Duration {
	w.Helper()
	var docs [][]byte
	for _, c := range configs {
		d, err := w.Config([]byte(c))
		if err != nil {
			w.Fatal(err)
		}
		docs = append(docs, d)
	}
	client := nodeapi.NewClient(w.Socket())
	defer client.Close()
	began := time.Now()
	tick := time.NewTicker(each)
	defer tick.Stop()
	for _, d := range docs {
		<-tick.C
		if _, err := client.Apply(w.ctx, d, nodeapi.ApplyOptions{}); err != nil {
			w.Fatal(err)
		}
	}
	return time.Since(began)
}

func TestFiftyAppliesInASecondEndInTheLastOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b", "c", "d")
	namespaces := []string{"a", "b", "c", "d"}
	// Config i has three of six networks, with four subnets in rotation, and its apps on them; it differs from the one
	// before in nearly everything.
	config := func(i int) string {
		var nets, apps []string
		for k := range 3 {
			nets = append(nets, onSubnet(1+(i+2*k)%6, 1+(i+k)%4))
		}
		for k, ns := range namespaces {
			if (i+k)%5 != 0 {
				apps = append(apps, onNet(1+k, 1+(i+2*(k%3))%6, ns, []string{allowAll, ""}[(i+k)%2]))
			}
		}
		return doc(nets, apps...)
	}
	const last = 49
	final := strings.ReplaceAll(config(last), "acl: {}", "acl: {"+allowAll+"}")
	var ready []string
	for _, line := range strings.Split(final, "\n") {
		if id, ok := strings.CutSuffix(strings.TrimSpace(line), ":"); ok && strings.HasPrefix(id, "1000") {
			ready = append(ready, "ni/"+id)
		} else if ok && strings.HasPrefix(id, "a000") {
			ready = append(ready, "app/"+id)
		}
	}
	w.start(final)
	w.wait("ready", ready...)
	fresh := w.goroutines()
	w.restart()
	w.wait("ready", ready...)
	files, _ := w.daemonHas()
	// As fast as possible, and with time for each to begin before the next one.
	for _, each := range []time.Duration{time.Microsecond, 20 * time.Millisecond, 20 * time.Millisecond} {
		var configs []string
		for i := range last {
			configs = append(configs, config(i))
		}
		took := w.applyMany(append(configs, final), each)
		began := time.Now()
		w.wait("ready", ready...)
		t.Logf("50 applies took %v, ready %v after the last", took, time.Since(began))
		for n := 1; n <= 6; n++ {
			if !strings.Contains(final, ni(n)) {
				w.wait("absent", "ni/"+ni(n))
			}
		}
		w.holds(final, 3)
	}
	for k, ns := range namespaces {
		if !strings.Contains(final, app(1+k)) {
			w.without(ns, "eth0")
			continue
		}
		n := 1 + (last+2*(k%3))%6
		s := 0
		for j := range 3 {
			if 1+(last+2*j)%6 == n {
				s = 1 + (last+j)%4
			}
		}
		w.serves(1+k, n, s, ns)
	}
	w.eventually("the daemon's files closed and its children gone", func() bool {
		now, children := w.daemonHas()
		return now <= files+4 && children <= 3 // a connection or two, and its dnsmasq
	})
	now := w.goroutines()
	t.Logf("%d goroutines, %d in one that has just started", now, fresh)
	if now > fresh+fresh/10+3 {
		t.Errorf("after 150 applies the daemon has %d goroutines, one that has just started has %d", now, fresh)
	}
	w.restart()
	w.wait("ready", ready...)
	w.apply("{}")
	w.wait("absent", ready...)
	if now := w.dnsmasq(); now != "" {
		t.Errorf("dnsmasq %s is left", now)
	}
}

func TestAppliesFromManySidesEndInOneOfThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a")
	w.start("{}")
	var all sync.WaitGroup
	for from := range 5 {
		all.Go(func() {
			var configs []string
			for i := range 10 {
				configs = append(configs, doc([]string{onSubnet(1, 10*from+i+1)}, onNet(1, 1, "a", allowAll)))
			}
			w.applyMany(configs, time.Millisecond)
		})
	}
	all.Wait()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	good := w.confirmed()
	ip := w.ip(app(1))
	want := fmt.Sprintf("10.%d.0.0/24", ip.As4()[1])
	if !strings.Contains(good, `"`+want+`"`) {
		t.Errorf("the app has %s, and the confirmed config is %s", ip, good)
	}
	w.serves(1, 1, int(ip.As4()[1]), "a")
	w.holds(good, 1)
}

func TestTwoDaemonsInTwoNamespacesDoNotKnowOfEachOther(t *testing.T) {
	t.Parallel()
	here, there := newWorld(t, "a"), newWorld(t, "a")
	// The same UUIDs, names, numbers and subnets on both.
	config := doc([]string{network(1, ""), network(2, "")}, onNet(1, 1, "a", allowAll))
	there.start(config)
	there.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1))
	there.lease("a")
	before, pids, folder := there.settled(), there.dnsmasq(), there.folder()
	ping, err := there.PingLoop("a", netip.MustParseAddr(lab.WebAddr), 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := there.DNSLoop("a", netip.MustParseAddr("10.1.0.1"), "app1.n1.edge", there.ip(app(1)), 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	events := there.listen("ip", "monitor", "link", "address", "route", "rule")
	here.start(config)
	here.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1))
	here.serves(1, 1, 1, "a")
	here.apply(doc([]string{onSubnet(1, 2), onSubnet(2, 1)}, onNet(1, 2, "a", allowAll)))
	here.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1))
	if err := here.node.Kill(); err != nil {
		t.Fatal(err)
	}
	here.restart()
	here.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1))
	here.serves(1, 2, 1, "a")
	here.apply("{}")
	here.wait("absent", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1))
	if now := here.dnsmasq(); now != "" {
		t.Errorf("dnsmasq %s is left", now)
	}
	flow(t, there, ping, ask)
	for name, l := range map[string]*lab.Loop{"pings": ping, "answers": ask} {
		if c := l.Stop(); c.Lost+c.Wrong > 0 || c.Good < 200 {
			t.Errorf("beside the other: %s: %v", name, c)
		}
	}
	if said := events(); said != "" {
		t.Errorf("beside the other the kernel said:\n%s", said)
	}
	if now := there.dump("node"); now != before {
		t.Errorf("beside the other the host changed:\n%s", changed(before, now))
	}
	if now := there.dnsmasq(); now != pids {
		t.Errorf("the dnsmasq were %q and are %q", pids, now)
	}
	if now := there.folder(); now != folder {
		t.Errorf("the run folder changed:\n%s", changed(folder, now))
	}
	there.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1))
}

func TestASecondDaemonInANamespaceIsRefusedAndHarmsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	ping, err := w.PingLoop("web", netip.MustParseAddr(lab.WebAddr), 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	before, pids, folder := w.settled(), w.dnsmasq(), w.folder()
	elsewhere := filepath.Join(w.Dir, "elsewhere")
	none := filepath.Join(w.Dir, "none.json")
	if err := os.WriteFile(none, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{
		"with the same folders": nil,
		"with folders of its own": {"--config", none, "--state-dir", filepath.Join(elsewhere, "state"), "--run-dir",
			filepath.Join(elsewhere, "run")},
	} {
		cmd := w.NodeCmd(flags...)
		began := time.Now()
		out, err := exec.CommandContext(w.ctx, cmd.Path, cmd.Args[1:]...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 5 ||
			!strings.Contains(string(out), "another edgespan node runs in it") {
			t.Errorf("a second daemon %s ended with %v, want exit 5 and the reason: %s", name, err, out)
		}
		if took := time.Since(began); took > scaled(5*time.Second) {
			t.Errorf("a second daemon %s took %v to be refused", name, took)
		}
	}
	if _, err := os.Stat(elsewhere); !os.IsNotExist(err) {
		t.Errorf("it made its folders: %v", err)
	}
	if now := w.dump("node"); now != before {
		t.Errorf("the host changed:\n%s", changed(before, now))
	}
	if now := w.dnsmasq(); now != pids {
		t.Errorf("the dnsmasq were %q and are %q", pids, now)
	}
	if now := w.folder(); now != folder {
		t.Errorf("the run folder changed:\n%s", changed(folder, now))
	}
	w.cli("get", "ni") // the socket is still the first daemon's
	flow(t, w, ping)
	if c := ping.Stop(); c.Lost+c.Wrong > 0 {
		t.Errorf("pings: %v", c)
	}
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.apply("{}")
	w.wait("absent", "ni/"+ni(1), "app/"+app(1))
}

// confirmed returns the confirmed config as a document.
func (w *world) confirmed() string {
	w.Helper()
	text, err := daemon.NewFiles("", w.StateDir()).Read(string(commitconfirm.SlotConfirmed))
	if err != nil {
		w.Fatal(err)
	}
	r, err := commitconfirm.DecodeRecord(text)
	if err != nil {
		w.Fatal(err)
	}
	return string(config.AppendCanonical(nil, r.Document))
}
