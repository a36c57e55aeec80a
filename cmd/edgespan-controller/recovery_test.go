package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/platform/store/etcd/etcdtest"
)

// recoveryNodes are simulated, with their real certificates.
const recoveryNodes = 12

// recovery is a fleet whose controllers come and go at one address.
type recovery struct {
	*testing.T
	at  []string // the flags of every controller
	url string
	now *ctltest.Process
	ca  string // the copy of ca.pem
	dir string // of the controller of now

	last, stale string // what all nodes ran when they were in sync last; and what they run no more since a write
}

// known is what a fleet says of itself, whoever serves it.
type known struct {
	Files   fleetapi.Exported
	History []fleetapi.Edition
	Nodes   map[string]string // what each runs
}

func (r *recovery) begin(dir string, more ...string) {
	r.Helper()
	r.dir = dir
	r.now = ctltest.StartProcess(r.T, dir, append(more, r.at...)...)
}

func (r *recovery) write(level, message string) {
	r.Helper()
	r.stale = r.last
	_, err := r.now.Client.Write(r.Context(), ops.SetNetwork{Modify: true, Overrides: config.Object{
		"sysParams": config.Object{"managedConfig": true, "logLevel": level},
	}}, fleetapi.WriteOptions{Message: message})
	if err != nil {
		r.Fatal(err)
	}
}

// inSync waits until every node runs what is wanted, by the store's own count.
func (r *recovery) inSync() map[string]string {
	r.Helper()
	for late := time.Now().Add(ctltest.Timeout); ; time.Sleep(50 * time.Millisecond) {
		nodes, err := r.now.Client.Nodes(r.Context())
		out, last := map[string]string{}, ""
		for _, n := range nodes {
			if n.State == string(fleet.InSync) && n.Running.Generation == n.Desired.Generation && n.Running.MD5 != r.stale {
				out[n.Name] = n.Running.MD5
				r.last = n.Running.MD5
			} else {
				last = n.Name + ": " + n.State + ": " + n.Why
			}
		}
		if err == nil && len(out) == recoveryNodes {
			return out
		}
		if time.Now().After(late) {
			r.Fatalf("%d of %d nodes are in sync: %v, %s\n%s", len(out), recoveryNodes, err, last, r.now.Err)
		}
	}
}

func (r *recovery) known() known {
	r.Helper()
	k := known{Nodes: r.inSync()}
	var err error
	if k.Files, err = r.now.Client.Export(r.Context(), true); err != nil {
		r.Fatal(err)
	}
	if k.History, err = r.now.Client.History(r.Context(), fleetapi.HistoryQuery{Limit: 1000}); err != nil {
		r.Fatal(err)
	}
	return k
}

// backUp asks the running controller, as an operator does.
func (r *recovery) backUp() string {
	r.Helper()
	file := filepath.Join(r.TempDir(), "fleet.backup")
	if code, _, said := program.Command(r.T, "backup", "--controller", r.url, file); code != term.ExitOK {
		r.Fatalf("back up: %d: %s", code, said)
	}
	return file
}

// lose ends the controller as a fire does.
func (r *recovery) lose() {
	r.Helper()
	r.now.Kill(r.T)
	if err := os.RemoveAll(r.dir); err != nil {
		r.Fatal(err)
	}
}

// recover brings a backup back, on another machine with the copy of the CA.
func (r *recovery) recover(file string, more ...string) {
	r.Helper()
	dir := r.TempDir()
	ctltest.Put(r.T, dir, "ca.pem", r.ca)
	if code, _, said := program.Command(r.T, append([]string{"restore", "--data-dir", dir, file},
		more...)...); code != term.ExitOK || strings.Contains(said, "ca.pem") {
		r.Fatalf("restore: %d: %s", code, said)
	}
	r.begin(dir, more...)
}

// pushes are the numbers of the nodes' last pushes, and of which authority the nodes'
// generations are, as a backup has them.
func (r *recovery) pushes(file string) (numbers map[string]uint64, authorities map[string]bool) {
	r.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		r.Fatal(err)
	}
	numbers, authorities = map[string]uint64{}, map[string]bool{}
	for line := range bytes.Lines(text) {
		var l struct {
			Key   kv.Key
			Value []byte
		}
		if err := json.Unmarshal(line, &l); err != nil {
			r.Fatal(err)
		}
		switch {
		case history.InPushes.Has(l.Key):
			m, err := fleet.ParseMemory(l.Value)
			if err != nil {
				r.Fatal(err)
			}
			numbers[string(l.Key)] = m.Push.Number
		case history.InGenerations.Has(l.Key):
			var c fleet.Counted
			if err := json.Unmarshal(l.Value, &c); err != nil {
				r.Fatal(err)
			}
			authorities[c.Generation.Authority] = true
		}
	}
	return numbers, authorities
}

// TestAFleetIsRecovered loses the machine of a controller, twice: the backup comes back on
// another one, and then into an etcd. Its nodes come back by themselves; what they run is not
// pushed again; layers and history are what they were, and the next write goes out.
func TestAFleetIsRecovered(t *testing.T) {
	r := &recovery{T: t, at: []string{"--node-host", "127.0.0.1", "--joins-per-second", "1000"}}
	r.begin(t.TempDir())
	r.url = "http://" + r.now.API
	r.at = append(r.at, "--listen", r.now.API, "--node-listen", r.now.Nodes)
	ca, err := os.ReadFile(filepath.Join(r.dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	r.ca = string(ca)
	r.write("info", "the fleet is managed")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		_, out, said := program.Type(ctx, "", "simulate", "--nodes", "12", "--controller", r.url, "--dir", t.TempDir(),
			"--duration", "10m", "--report-interval", "500ms")
		ended <- out + said
	}()
	t.Cleanup(func() {
		stop()
		if said := <-ended; t.Failed() {
			t.Log(said)
		}
	})
	r.inSync()
	for _, level := range []string{"debug", "warn"} {
		r.write(level, "level "+level)
		r.inSync()
	}
	want := r.known()
	file := r.backUp()
	before, old := r.pushes(file)

	r.lose()
	r.recover(file)
	if d := cmp.Diff(want, r.known()); d != "" {
		t.Errorf("on another machine: %s", d)
	}
	second := r.backUp()
	after, authorities := r.pushes(second)
	for key, number := range after {
		if number != before[key]+1<<32 {
			t.Errorf("%s: %d pushes after the restore", key, number-before[key]-1<<32)
		}
	}
	for a := range old {
		if authorities[a] {
			t.Errorf("generations are counted by %s, as before", a)
		}
	}
	r.write("error", "after the recovery") // the levels are of all nodes: they all run one config
	want = r.known()

	server, err := etcdtest.Serve(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	file = r.backUp()
	r.lose()
	r.recover(file, "--etcd", server.Endpoint)
	if d := cmp.Diff(want, r.known()); d != "" {
		t.Errorf("in an etcd: %s", d)
	}
	r.write("info", "in an etcd")
	r.inSync()
}
