package scenario

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/store/etcd/etcdtest"
)

// etcdCommand makes the test's program run an etcd of one member in a folder: it must run in the namespace of the
// controllers.
const etcdCommand = "etcd"

func etcdMain(dir string) int {
	server, err := etcdtest.Serve(dir, true)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(server.Endpoint)
	select {} // until it is killed
}

// etcd starts a store for several controllers; it ends with the lab.
func (w *world) etcd() (endpoint string) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", w.NS("isp"), os.Args[0], etcdCommand,
		filepath.Join(w.Dir, "etcd"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		w.Fatal(err)
	}
	w.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.Fatalf("start etcd: %v", err)
	}
	return strings.TrimSpace(line)
}

// Two controllers share a store. A node whose controller is killed connects to the other one, gets what is written
// there, and returns when that one drains.
func TestANodeGoesToTheOtherControllerOfItsFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	store := append([]string{"--etcd", w.etcd()}, quick...)
	one := w.open("one", 8443, store...)
	pin := one.line("CA sha256:")
	one.remember(pin)
	ca, err := os.ReadFile(filepath.Join(one.dir, "ca.pem"))
	if err == nil {
		err = os.MkdirAll(filepath.Join(w.Dir, "two"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(w.Dir, "two", "ca.pem"), ca, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	two := w.open("two", 9443, store...)
	two.remember(pin)

	both := one.nodes() + "," + two.nodes()
	if r := w.join(two.run("nodes", "invite", "edge-1").Out, "--state-dir", w.StateDir(), "--controller",
		both); r.Code != 0 || !strings.Contains(r.Err, both) {
		t.Fatalf("join: %+v", r)
	}
	apps := []string{onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)}
	one.ok("network", "set", "sysParams.managedConfig=true")
	one.set("edge-1", doc([]string{network(1, "")}, apps...))
	w.start("{}")
	one.is("edge-1", "InSync", ready)
	if said := two.ok("nodes", "list"); !strings.Contains(said, "edge-1") {
		t.Errorf("the other controller's list: %s", said)
	}
	web := w.lease("web")
	w.lease("client")
	pings, err := w.PingLoop("client", web.IP, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}

	two.ok("node", "modify", "edge-1", "networkInstances."+ni(1)+".displayName=by two", "-m",
		"at the controller that has no stream")
	w.eventually("what was written at the other controller",
		func() bool { return strings.Contains(w.cli("get", "ni"), "by two") })
	one.is("edge-1", "InSync", ready)

	one.kill()
	died := time.Now()
	two.is("edge-1", "InSync", func(n nodeSeen) bool { return n.Online })
	t.Logf("the other controller has the node after %v", time.Since(died))
	two.set("edge-1", doc([]string{network(1, ""), network(2, "")}, apps...))
	two.is("edge-1", "InSync", ready)
	w.wait("ready", "ni/"+ni(2))

	one.begin()
	two.signal(syscall.SIGTERM)
	<-two.ended
	one.is("edge-1", "InSync", ready)
	one.ok("history", "rollback", "2", "node/edge-1")
	one.is("edge-1", "InSync", ready)
	w.wait("absent", "ni/"+ni(2))
	if c := pings.Stop(); c.Lost+c.Wrong > 0 || c.Good < 30 {
		t.Errorf("pings all the time: %+v", c)
	}
}
