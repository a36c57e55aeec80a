package scenario

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/config"
	words "edgespan/config/fleet/nodeproto"
	"edgespan/platform/daemon"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
	"edgespan/platform/proc"
)

// fleet is a controller's end of the link at the provider. Like config/fleet, it confirms a config that has settled
// and is not worse.
type fleet struct {
	w       *world
	ca      *pki.Authority
	addr    string
	mu      sync.Mutex
	token   pki.JoinToken
	node    words.ToNode
	hellos  []words.Hello
	report  words.Report
	probe   uint64
	results []string
}

func (w *world) controller(name string) (f *fleet, token string) {
	w.Helper()
	f = &fleet{w: w}
	var l net.Listener
	err := proc.In("/run/netns/"+w.NS("isp"), func() (err error) {
		l, err = net.Listen("tcp", "192.0.2.1:0")
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	if f.ca, err = pki.Open(pki.Options{Dir: w.TempDir(), Names: []string{"192.0.2.1"}}); err != nil {
		w.Fatal(err)
	}
	token, f.token, err = pki.NewJoinToken(name, time.Now().Add(time.Hour))
	if err != nil {
		w.Fatal(err)
	}
	f.addr = l.Addr().String()
	server := nodelink.NewServer(nodelink.ServerOptions{Authority: f.ca, Handler: f,
		Keepalive: nodelink.Keepalive{Time: time.Second, Timeout: time.Second}})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		server.Drain(ctx)
		<-done
	})
	return f, token
}

func (f *fleet) Join(_ context.Context, j words.Join) (words.Joined, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := uuid.Parse(j.Node)
	if err != nil {
		return words.Joined{}, err
	}
	f.token, err = f.token.Redeem(time.Now(), j.Token, j.Name, pki.Request{Node: id, Key: j.Key})
	return words.Joined{Name: j.Name}, err
}

func (f *fleet) Admit(context.Context, words.Hello) error { return nil }

func (f *fleet) Connected(s words.ToNode, h words.Hello) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node, f.hellos = s, append(f.hellos, h)
}

func (f *fleet) Disconnected(words.ToNode, error) {}

func (f *fleet) Received(s words.ToNode, m words.FromNode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch m := m.(type) {
	case words.Report:
		f.report = m
		if p := m.Pending; p != nil && p.Settled && len(p.Worse) == 0 {
			f.probe++
			_ = s.Send(words.Probe{Number: f.probe}) // the next stream reports that this one has ended
		}
	case words.Probed:
		if m.Number == f.probe && m.Generation.Authority == "test" && len(m.Worse) == 0 {
			_ = s.Send(words.Confirm{Generation: m.Generation})
		}
	case words.Result:
		f.results = append(f.results, m.Outcome.String())
		if m.Outcome == words.Unhealthy {
			_ = s.Send(words.Ack{Attempt: m.Attempt})
		}
	}
}

func (f *fleet) push(attempt uint64, within time.Duration, text string) {
	f.w.Helper()
	whole, err := f.w.Config([]byte(text))
	if err != nil {
		f.w.Fatal(err)
	}
	o, faults := config.ReadObject(whole)
	if faults != nil {
		f.w.Fatal(faults)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err = f.node.Send(words.Push{
		Attempt: attempt, Generation: config.Generation{Authority: "test", Counter: attempt}, MD5: config.MD5(o),
		Document: config.AppendCanonical(nil, o), Confirm: within, Managed: true,
	})
	if err != nil {
		f.w.Fatal(err)
	}
}

func (f *fleet) has(what string, ok func() bool) {
	f.w.Helper()
	f.w.eventually(what, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return ok()
	})
}

// A node joins a fleet, applies a push, refuses local configs, and undoes by itself a push that breaks its uplink
// while the controller is unreachable.
func TestANodeJoinsTakesAPushAndComesBackFromOneThatBreaksItsUplink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	f, token := w.controller("edge-1")
	said := w.in("node", w.Binary, "join", "--controller", f.addr, "--token", token, "--ca-sha256", f.ca.Pin().String(),
		"--name", "edge-1", "--state-dir", w.StateDir())
	if said != "" {
		t.Errorf("join says %q on stdout", said)
	}
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "app/"+app(1))
	f.has("the node", func() bool { return f.node != nil && len(f.hellos) == 1 && f.hellos[0].Name == "edge-1" })

	f.push(1, time.Minute, doc([]string{network(1, ""), network(2, "")}, onNet(1, 1, "web", allowAll)))
	f.has("the confirmed push",
		func() bool { return f.report.Generation.Counter == 1 && f.report.Pending == nil && f.report.Settled })
	w.wait("ready", "ni/"+ni(2), "app/"+app(1))
	if r, err := w.CLIWith(w.ctx, "{}", "apply", "-f", "-"); err != nil || r.Code != 5 ||
		!strings.Contains(r.Err, f.addr) {
		t.Errorf("apply on a managed node: exit %d, %v: %s", r.Code, err, r.Err)
	}

	f.push(2, 10*time.Second, strings.Replace(doc([]string{network(1, "")}), "uplink0", "uplink9", 1))
	f.has("the push that breaks the uplink",
		func() bool { return slices.Contains(f.results[min(2, len(f.results)):], "accepted") })
	w.in("isp", "ip", "link", "set", "node0", "down")
	w.wait("absent", "app/"+app(1)) // the push is applied
	if p := w.status("pending", "node"); p["pending"] != true || p["generation"] != "test:2" {
		t.Errorf("get pending says %v", p)
	}
	w.eventually("the undo, with nobody there", func() bool {
		p := w.status("pending", "node")
		undone, _ := p["undone"].(string)
		return p["pending"] == false && p["source"] == "rollback" && p["linked"] == false &&
			strings.HasPrefix(undone, "test:2: unhealthy: ")
	})
	w.in("isp", "ip", "link", "set", "node0", "up")
	f.has("what became of the push", func() bool { return slices.Contains(f.results, "unhealthy") })
	f.has("the report of it", func() bool { return f.report.Source == "rollback" && f.report.Restores.Counter == 1 })
	w.wait("ready", "app/"+app(1))

	// A local apply that overrides the controller.
	local, err := w.Config([]byte(doc(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.CLIWith(w.ctx, string(local), "apply", "--local", "--confirm", "1m", "-f", "-"); err != nil ||
		r.Code != 0 {
		t.Fatalf("apply --local: exit %d, %v: %s", r.Code, err, r.Err)
	}
	f.has("the local hold", func() bool { return f.report.Held != nil })
	w.wait("absent", "ni/"+ni(1))
	w.cli("rollback")
	w.wait("ready", "ni/"+ni(1))
	w.cli("release")
	f.has("the end of the local hold", func() bool { return f.report.Held == nil })
	if r, err := w.CLI(w.ctx, "confirm"); err != nil || r.Code != 5 {
		t.Errorf("confirm of nothing: exit %d, %v: %s", r.Code, err, r.Err)
	}
	if _, err := daemon.NewFiles("", w.StateDir()).Read("notes"); err != nil {
		t.Error(err)
	}
}

// RESTART_MINION executes the installed program in the daemon's process. The networks keep running, and the new
// program confirms the push that requested it.
func TestARestartThatAPushAsksForIsDoneAndThePushConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	f, token := w.controller("edge-1")
	w.in("node", w.Binary, "join", "--controller", f.addr, "--token", token, "--ca-sha256", f.ca.Pin().String(), "--name",
		"edge-1", "--state-dir", w.StateDir())
	vendor := filepath.Join(w.Dir, "vendor.json")
	if err := os.WriteFile(vendor, []byte(`{"vendor":{"x":{"desc":"d","action":"RESTART_MINION","type":"INTEGER"}}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	text := doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll))
	if err := w.WriteConfig([]byte(text)); err != nil {
		t.Fatal(err)
	}
	n, err := w.StartNode(w.NodeCmd("--metadata", vendor))
	if err != nil {
		t.Fatal(err)
	}
	w.node = n
	if _, err := w.WaitControl(w.ctx, n); err != nil {
		t.Fatal(err)
	}
	w.wait("ready", "app/"+app(1))
	f.has("the node", func() bool { return f.node != nil })
	runs := func() int {
		log, err := os.ReadFile(w.NodeLog())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), `"node runs"`)
	}
	bridge := w.in("node", "ip", "-o", "link", "show", "es1")
	f.push(1, time.Minute, text+"vendor: {x: 1}\n")
	f.has("the push, confirmed by the next daemon", func() bool {
		return f.report.Generation.Counter == 1 && f.report.Pending == nil &&
			slices.ContainsFunc(f.report.Actions, func(a words.Action) bool {
				return a.Name == "RESTART_MINION" && a.State == "done"
			})
	})
	if got := runs(); got != 2 {
		t.Errorf("the daemon ran %d times, want 2", got)
	}
	select {
	case <-n.Ended():
		t.Error("its process has ended")
	default:
	}
	w.wait("ready", "app/"+app(1))
	if now := w.in("node", "ip", "-o", "link", "show", "es1"); now != bridge {
		t.Errorf("the restart changed the bridge:\n%s\n%s", bridge, now)
	}
}
