package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"edgespan/config/httpapi"
)

// fake is a daemon without actors: it answers what a test tells it to.
type fake struct {
	looker
	how      httpapi.How // of the last apply
	held     bool
	mu       sync.Mutex
	asked    []string
	warnings []string
	changes  []httpapi.Change
	items    map[string][]httpapi.Resource
	ready    func(asked int) (httpapi.Readiness, error)
	readyN   int
	err      error
	block    bool // until the caller has gone

	reloads int
	done    chan error
	stopped bool
}

func (f *fake) note(ctx context.Context, what string) error {
	f.mu.Lock()
	f.asked = append(f.asked, what)
	f.mu.Unlock()
	if f.block {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

func (f *fake) Apply(ctx context.Context, doc []byte, how httpapi.How) ([]string, error) {
	f.how = how
	if err := f.note(ctx, "apply "+string(doc)); err != nil {
		return nil, err
	}
	return f.warnings, nil
}

func (f *fake) Plan(ctx context.Context, doc []byte) ([]httpapi.Change, error) {
	if err := f.note(ctx, "plan "+string(doc)); err != nil {
		return nil, err
	}
	return f.changes, nil
}

func (f *fake) List(ctx context.Context, kind string) ([]httpapi.Resource, error) {
	return f.items[kind], f.note(ctx, "list "+kind)
}

func (f *fake) Ready(ctx context.Context, kind, id string) (httpapi.Readiness, error) {
	if err := f.note(ctx, "ready "+kind+" "+id); err != nil {
		return httpapi.Readiness{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readyN++
	return f.ready(f.readyN)
}

func (f *fake) Reload() {
	f.mu.Lock()
	f.reloads++
	f.mu.Unlock()
}

func (f *fake) Done() <-chan error { return f.done }

func (f *fake) Stop(context.Context) error {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	return nil
}

func (f *fake) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.asked...)
}

// scratch is a folder with a name short enough for a socket in it.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "es")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// serve puts f behind a real socket until the test ends.
func serve(t *testing.T, f httpapi.Backend) (socket string) {
	t.Helper()
	return serveHandler(t, httpapi.Handler(f))
}

func serveHandler(t *testing.T, h http.Handler) (socket string) {
	t.Helper()
	socket = filepath.Join(scratch(t), "s")
	serveAt(t, socket, h)
	return socket
}

func serveAt(t *testing.T, socket string, h http.Handler) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- httpapi.Serve(ctx, socket, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	awaitSocket(t, socket)
}

func awaitSocket(t *testing.T, socket string) {
	t.Helper()
	c := httpapi.NewClient(socket)
	defer c.Close()
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := c.Version(context.Background())
		if !errors.Is(err, httpapi.ErrUnreachable) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no server: %v", err)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func at(socket string) map[string]string { return map[string]string{"EDGESPAN_SOCKET": socket} }

func (f *fake) Confirm(ctx context.Context) error { return f.note(ctx, "confirm") }

func (f *fake) Rollback(ctx context.Context) error { return f.note(ctx, "rollback") }

func (f *fake) Release(ctx context.Context) (bool, error) { return f.held, f.note(ctx, "release") }

const (
	niID  = "10000000-0000-4000-8000-000000000001"
	appID = "a0000000-0000-4000-8000-000000000001"
)

type obj = map[string]any

// filled is a daemon with one network and one app.
func filled() *fake {
	adapter := obj{
		"index": 0, "networkInstance": niID, "targetVersion": 2, "activated": true, "ip": "10.10.0.130",
		"mac": "02:00:00:00:00:01", "ifName": "eth0", "hostIfName": "es1a1", "error": "",
	}
	return &fake{
		items: map[string][]httpapi.Resource{
			"ni": {{ID: niID, Kind: "ni", Spec: obj{"port": "wan", "ipv4": obj{"subnet": "10.10.0.0/24"}}, Status: obj{
				"state": "Present", "displayName": "demo net", "bridge": "es1", "generation": 3, "error": "",
			}}},
			"app": {{ID: appID, Kind: "app", Spec: obj{"displayName": "web"}, Status: obj{
				"pending": false, "activated": true, "targetVersion": 2, "error": "", "adapters": []any{adapter, obj{"activated": false}},
			}}},
			"adapter": {{ID: appID + "/0", Kind: "adapter", Status: adapter}},
			"port": {{ID: "wan", Kind: "port", Spec: obj{"uplink": true, "ifName": "uplink0"}, Status: obj{
				"exists": true, "up": true, "addresses": []any{"192.0.2.2/24"}, "gateways": []any{"192.0.2.1"}, "defaultRoute": "via 192.0.2.1", "dnsServers": "198.51.100.53",
			}}},
			"param": {{ID: "ports.wan.mtu", Kind: "param", Spec: obj{"target": "present"}, Status: obj{"state": "present", "error": ""}}},
			"actor": {{ID: "router", Kind: "actor", Status: obj{"state": "running", "restarts": 0, "error": ""}}},
		},
		ready: func(int) (httpapi.Readiness, error) { return httpapi.Readiness{Ready: true}, nil },
	}
}
