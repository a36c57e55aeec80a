package clitest

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"edgespan/config/httpapi/metrics"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/pubsub/loglevel"
	"edgespan/pubsub/shellproto"
)

// Daemon is a daemon without actors: the test sets its answers.
type Daemon struct {
	looker
	How     nodeapi.ApplyOptions // of the last apply
	Held    bool
	Drained nodeapi.DrainOptions // of the last drain
	Until   time.Time            // of it
	// Enforcing are the options of each enforce; Enforced answers them.
	Enforcing []nodeapi.EnforceOptions
	Enforced  nodeapi.Enforced
	mu        sync.Mutex
	asked     []string
	Warnings  []string
	Changes   []nodeapi.Change
	Items     map[string][]nodeapi.Resource
	ReadyAt   func(asked int) (nodeapi.Readiness, error)
	ReadyN    int
	Err       error
	Block     bool // block until the client has disconnected

	Reloads int
	Ended   chan error
	Stopped bool
}

func (f *Daemon) note(ctx context.Context, what string) error {
	f.mu.Lock()
	f.asked = append(f.asked, what)
	f.mu.Unlock()
	if f.Block {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Err
}

func (f *Daemon) Apply(ctx context.Context, doc []byte, how nodeapi.ApplyOptions) ([]string, error) {
	f.How = how
	if err := f.note(ctx, "apply "+string(doc)); err != nil {
		return nil, err
	}
	return f.Warnings, nil
}

func (f *Daemon) Plan(ctx context.Context, doc []byte) ([]nodeapi.Change, error) {
	if err := f.note(ctx, "plan "+string(doc)); err != nil {
		return nil, err
	}
	return f.Changes, nil
}

func (f *Daemon) PlanFlows(context.Context, []byte) (nodeapi.FlowChanges, error) {
	return f.FlowChanges, nil
}

func (f *Daemon) Checks() []nodeapi.Check { return []nodeapi.Check{{Name: "config", OK: true}} }

// Scrape adds nothing.
func (f *Daemon) Scrape(string, *metrics.Scrape) {}

func (f *Daemon) List(ctx context.Context, kind string) ([]nodeapi.Resource, error) {
	return f.Items[kind], f.note(ctx, "list "+kind)
}

func (f *Daemon) Ready(ctx context.Context, kind, id string) (nodeapi.Readiness, error) {
	if err := f.note(ctx, "ready "+kind+" "+id); err != nil {
		return nodeapi.Readiness{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ReadyN++
	return f.ReadyAt(f.ReadyN)
}

func (f *Daemon) Reload() {
	f.mu.Lock()
	f.Reloads++
	f.mu.Unlock()
}

func (f *Daemon) Done() <-chan error { return f.Ended }

func (f *Daemon) Stop(context.Context) error {
	f.mu.Lock()
	f.Stopped = true
	f.mu.Unlock()
	return nil
}

func (f *Daemon) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.asked...)
}

// Scratch returns a folder whose path is short enough for a Unix socket.
func Scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "es")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ServeDaemon serves f on a real socket until the test ends.
func ServeDaemon(t *testing.T, f nodeapi.Backend) (socket string) {
	t.Helper()
	return ServeHandler(t, nodeapi.Handler(f))
}

// ServeHandler serves h on a real socket until the test ends.
func ServeHandler(t *testing.T, h http.Handler) (socket string) {
	t.Helper()
	socket = filepath.Join(Scratch(t), "s")
	ServeAt(t, socket, h)
	return socket
}

// ServeAt serves h on this socket until the test ends.
func ServeAt(t *testing.T, socket string, h http.Handler) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- nodeapi.Serve(ctx, socket, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	AwaitSocket(t, socket)
}

// AwaitSocket waits until a server answers at socket.
func AwaitSocket(t *testing.T, socket string) {
	t.Helper()
	c := nodeapi.NewClient(socket)
	defer c.Close()
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := c.Version(context.Background())
		if !errors.Is(err, rest.ErrUnreachable) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no server: %v", err)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// At returns the environment of a command that uses socket.
func At(socket string) map[string]string { return map[string]string{"EDGESPAN_SOCKET": socket} }

func (f *Daemon) Confirm(ctx context.Context) error { return f.note(ctx, "confirm") }

func (f *Daemon) Rollback(ctx context.Context) error { return f.note(ctx, "rollback") }

func (f *Daemon) Release(ctx context.Context) (bool, error) { return f.Held, f.note(ctx, "release") }

func (f *Daemon) Enforce(ctx context.Context, app, index string, how nodeapi.EnforceOptions) (nodeapi.Enforced, error) {
	f.Enforcing = append(f.Enforcing, how)
	return f.Enforced, f.note(ctx, "enforce "+app+" "+index)
}

func (f *Daemon) Drain(ctx context.Context, label string, how nodeapi.DrainOptions) (time.Time, error) {
	f.Drained = how
	return f.Until, f.note(ctx, "drain "+label)
}

func (f *Daemon) Undrain(ctx context.Context, label string) (bool, error) {
	return f.Held, f.note(ctx, "undrain "+label)
}

const (
	NiID  = "10000000-0000-4000-8000-000000000001"
	AppID = "a0000000-0000-4000-8000-000000000001"
)

// Obj is a JSON object.
type Obj = map[string]any

// Filled returns a daemon with one network and one app.
func Filled() *Daemon {
	adapter := Obj{
		"index": 0, "networkInstance": NiID, "targetVersion": 2, "activated": true, "ip": "10.10.0.130",
		"mac": "02:00:00:00:00:01", "ifName": "eth0", "hostIfName": "es1a1", "error": "",
	}
	return &Daemon{
		Items: map[string][]nodeapi.Resource{
			"ni": {{ID: NiID, Kind: "ni", Spec: Obj{"port": "wan", "ipv4": Obj{"subnet": "10.10.0.0/24"}}, Status: Obj{
				"state": "Present", "displayName": "demo net", "bridge": "es1", "generation": 3, "error": "",
			}}},
			"app": {{ID: AppID, Kind: "app", Spec: Obj{"displayName": "web"}, Status: Obj{
				"pending": false, "activated": true, "targetVersion": 2, "error": "",
				"adapters": []any{adapter, Obj{"activated": false}},
			}}},
			"adapter": {{ID: AppID + "/0", Kind: "adapter", Status: adapter}},
			"port": {{ID: "wan", Kind: "port", Spec: Obj{"uplink": true, "ifName": "uplink0"}, Status: Obj{
				"exists": true, "up": true, "addresses": []any{"192.0.2.2/24"}, "gateways": "192.0.2.1",
				"defaultRoute": "via 192.0.2.1", "dnsServers": "198.51.100.53",
			}}},
			"param": {{ID: "ports.wan.mtu", Kind: "param", Spec: Obj{"target": "present"},
				Status: Obj{"state": "present", "error": ""}}},
			"actor": {{ID: "router", Kind: "actor", Status: Obj{"state": "running", "restarts": 0, "error": ""}}},
		},
		ReadyAt: func(int) (nodeapi.Readiness, error) { return nodeapi.Readiness{Ready: true}, nil },
	}
}

// Shell answers debug shells with the name of each operation.
func (f *Daemon) Shell(*loglevel.Levels) shellproto.Node { return echo{} }

type echo struct{}

func (echo) Do(_ context.Context, _ shellproto.Who, r shellproto.Request, emit shellproto.Emit) error {
	return emit(r.Op, 0)
}
