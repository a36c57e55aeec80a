package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/cmd/term"
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

// said is what a command line left behind.
type said struct {
	code     int
	out, err string
}

// cli runs the command line in this process with nothing of its surroundings.
func cli(t *testing.T, env map[string]string, stdin string, args ...string) said {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), term.Streams{
		In: strings.NewReader(stdin), Out: &out, Err: &errOut,
		Env: func(k string) string { return env[k] },
	}, args)
	return said{code, out.String(), errOut.String()}
}

func at(socket string) map[string]string { return map[string]string{"EDGESPAN_SOCKET": socket} }

func (f *fake) Confirm(ctx context.Context) error { return f.note(ctx, "confirm") }

func (f *fake) Rollback(ctx context.Context) error { return f.note(ctx, "rollback") }

func (f *fake) Release(ctx context.Context) (bool, error) { return f.held, f.note(ctx, "release") }
