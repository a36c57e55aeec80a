package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/rest"
)

// start serves b on a real socket and returns its path, and a function that ends the server and returns Serve's result.
func start(t *testing.T, b Backend) (socket string, stop func() error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "es") // t.TempDir is too long for a sun_path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	return socket, serve(t, socket, Handler(b, WithVersion("v1.2.3")))
}

func serve(t *testing.T, socket string, h http.Handler) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, socket, h) }()
	c := NewClient(socket)
	defer c.Close()
	for deadline := time.Now().Add(5 * time.Second); ; {
		if _, err := c.Version(ctx); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("server does not answer: %v", err)
		}
	}
	var err error
	done := false
	stop = func() error {
		if !done {
			cancel()
			err, done = <-ended, true
		}
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func client(t *testing.T, socket string) *Client {
	t.Helper()
	c := NewClient(socket)
	t.Cleanup(c.Close)
	return c
}

func TestClientMirrorsTheBackend(t *testing.T) {
	b := populated()
	b.warnings = []string{"app x: network y has no config"}
	b.changes = []Change{{"add", "link", "es1", "ni " + niID}}
	socket, _ := start(t, b)
	c, ctx := client(t, socket), t.Context()

	if got, err := c.Apply(ctx, []byte("{}"), ApplyOptions{}); err != nil || !reflect.DeepEqual(got, b.warnings) {
		t.Errorf("Apply: %v, %v", got, err)
	}
	b.flows = FlowChanges{List: []FlowChange{{Verdict: "deny", From: "node", To: "adapter/a/0", Flows: []string{"any"}}},
		LeftOut: 3, Incomplete: true}
	if got, err := c.Preview(ctx, []byte("{}")); err != nil || !reflect.DeepEqual(got, Preview{b.changes, b.flows}) {
		t.Errorf("preview: %+v, %v", got, err)
	}
	if got, err := c.List(ctx, "adapter"); err != nil || len(got) != 2 || got[1].ID != appID+"/1" {
		t.Errorf("List: %v, %v", got, err)
	}
	if got, err := c.Get(ctx, "adapter", appID+"/1"); err != nil || got.ID != appID+"/1" {
		t.Errorf("Get: %v, %v", got, err)
	}
	if got, err := c.Get(ctx, "port", "a b/ü"); err != nil || got.ID != "a b/ü" {
		t.Errorf("Get of an odd id: %v, %v", got, err)
	}
	if got, err := c.Ready(ctx, "ni", niID); err != nil || got != b.ready {
		t.Errorf("Ready: %v, %v", got, err)
	}
	if got, err := c.Version(ctx); err != nil || got != "v1.2.3" {
		t.Errorf("Version: %q, %v", got, err)
	}
	if _, err := c.Get(ctx, "ni", "nobody"); !errors.Is(err, rest.ErrNotFound) {
		t.Errorf("Get of nobody: %v", err)
	}
}

func TestClientErrorsAreTyped(t *testing.T) {
	for _, sent := range []error{rest.ErrConflict, rest.ErrBusy, rest.ErrNotFound, rest.ErrPermission} {
		socket, _ := start(t, &fakeBackend{err: fmt.Errorf("store config: %w", sent)})
		_, err := client(t, socket).Apply(t.Context(), []byte("{}"), ApplyOptions{})
		if !errors.Is(err, sent) || err.Error() != "store config: "+sent.Error() {
			t.Errorf("sent %v, got %v", sent, err)
		}
	}
	socket, _ := start(t, &fakeBackend{err: &rest.Rejected{Faults: []string{"a: b", "c: d"}}})
	_, err := client(t, socket).Preview(t.Context(), []byte("{}"))
	var rejected *rest.Rejected
	if !errors.As(err, &rejected) || len(rejected.Faults) != 2 {
		t.Errorf("got %v", err)
	}
	socket, _ = start(t, &fakeBackend{err: &rest.Incomplete{Missing: []string{"ni-2"}}})
	_, err = client(t, socket).List(t.Context(), "ni")
	var inc *rest.Incomplete
	if !errors.As(err, &inc) || len(inc.Missing) != 1 {
		t.Errorf("got %v", err)
	}
	socket, _ = start(t, &fakeBackend{err: context.DeadlineExceeded})
	if _, err = client(t, socket).List(t.Context(), "ni"); !errors.Is(err, rest.ErrTimeout) {
		t.Errorf("got %v", err)
	}
}

func TestClientGivesUpWithItsContext(t *testing.T) {
	socket, _ := start(t, &fakeBackend{block: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client(t, socket).List(ctx, "ni"); !errors.Is(err, rest.ErrTimeout) {
		t.Errorf("deadline: %v", err)
	}
	gone, cancelNow := context.WithCancel(t.Context())
	cancelNow()
	if _, err := client(t, socket).List(gone, "ni"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestNoDaemonIsUnreachable(t *testing.T) {
	dir := t.TempDir()
	if _, err := client(t, filepath.Join(dir, "none")).Version(t.Context()); !errors.Is(err, rest.ErrUnreachable) {
		t.Errorf("no socket: %v", err)
	}
	socket, stop := start(t, populated())
	if err := stop(); err != nil {
		t.Fatalf("Serve: %v", err)
	}
	if _, err := client(t, socket).Version(t.Context()); !errors.Is(err, rest.ErrUnreachable) {
		t.Errorf("daemon gone: %v", err)
	}
}

func TestADaemonThatHangsUpIsUnreachable(t *testing.T) {
	socket, _ := start(t, populated())
	_ = os.Remove(socket)
	if err := os.Mkdir(socket+freshFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket+freshSuffix) // as Serve does
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(socket+freshSuffix, socket); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, err = client(t, socket).Apply(t.Context(), []byte("{}"), ApplyOptions{})
	if !errors.Is(err, rest.ErrUnreachable) || !strings.HasPrefix(err.Error(), "daemon not reachable at "+socket+": ") ||
		strings.Contains(err.Error(), freshSuffix) {
		t.Errorf("got %v", err)
	}
}

func TestTheClientRefusesADocumentThatTheDaemonWould(t *testing.T) {
	b := populated()
	socket, _ := start(t, b)
	_, err := client(t, socket).Apply(t.Context(), make([]byte, MaxDocument+1), ApplyOptions{})
	var rejected *rest.Rejected
	if !errors.As(err, &rejected) || len(b.asked) != 0 {
		t.Errorf("got %v, asked %v", err, b.asked)
	}
}

func TestServeMakesTheSocketForItsGroupOnly(t *testing.T) {
	socket, stop := start(t, populated())
	info, err := os.Lstat(socket)
	if err != nil || info.Mode().Perm() != 0o660 || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(socket + "*"); len(left) != 1 {
		t.Errorf("files beside the socket: %v", left)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("socket is left behind: %v", err)
	}
}

func TestServeDoesNotStealALiveSocket(t *testing.T) {
	socket, _ := start(t, populated())
	err := Serve(t.Context(), socket, Handler(&fakeBackend{}))
	if !errors.Is(err, rest.ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if _, err := client(t, socket).Version(t.Context()); err != nil {
		t.Errorf("the first daemon: %v", err)
	}
}

func TestServeReplacesAStaleSocket(t *testing.T) {
	socket := filepath.Join(shortDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as after a SIGKILL
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	serve(t, socket, Handler(populated()))
}

func TestServeLeavesAForeignFileAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), path, Handler(populated())); err == nil ||
		!strings.Contains(err.Error(), "not a socket") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("file: %q, %v", text, err)
	}
}

func TestServeLeavesASuccessorsSocketAlone(t *testing.T) {
	socket, stop := start(t, populated())
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	serve(t, socket, Handler(populated()))
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := client(t, socket).Version(t.Context()); err != nil {
		t.Errorf("successor: %v", err)
	}
}

func TestServeNamesTheLimitOfASocketPath(t *testing.T) {
	err := Serve(t.Context(), "/tmp/"+strings.Repeat("x", 120), Handler(populated()))
	if err == nil || !strings.Contains(err.Error(), "at most 101") {
		t.Errorf("got %v", err)
	}
}

func TestAnswersUnderWayAreFinishedWhenServeEnds(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/ni" {
			close(entered)
			<-leave
		}
		Handler(populated()).ServeHTTP(w, r)
	})
	socket := filepath.Join(shortDir(t), "s")
	stop := serve(t, socket, h)
	got := make(chan error, 1)
	go func() {
		_, err := client(t, socket).List(context.Background(), "ni")
		got <- err
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until the listener is closed: then Shutdown is under way
		c, err := net.Dial("unix", socket)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	close(leave)
	if err := <-got; err != nil {
		t.Errorf("answer under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "es")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestTheFlowLogArrivesAsItWasAskedFor(t *testing.T) {
	b := populated()
	b.logged = append(b.logged, FlowRecord{Kind: FlowsLost, Lost: 3},
		FlowRecord{Kind: FlowEnded, Adapter: "adapter/" + appID + "/1", Network: "ni/" + niID, Denied: true})
	socket, _ := start(t, b)
	c := client(t, socket)
	for _, x := range []struct {
		q    FlowLogQuery
		want string
	}{
		{FlowLogQuery{}, "out lost3 denied"},
		{FlowLogQuery{Of: "app/" + appID}, "out lost3 denied"},
		{FlowLogQuery{Of: "app/" + appID + "/0"}, "out lost3"},
		{FlowLogQuery{Of: "adapter/" + appID + "/1"}, "lost3 denied"},
		{FlowLogQuery{Of: "ni/" + niID, Denied: true}, "lost3 denied"},
		{FlowLogQuery{Of: "app/" + niID}, "lost3"},
	} {
		var got []string
		if err := c.FlowLog(t.Context(), x.q, func(r FlowRecord) error {
			switch {
			case r.Kind == FlowsLost:
				got = append(got, fmt.Sprint(r.Kind, r.Lost))
			case r.Denied:
				got = append(got, "denied")
			default:
				got = append(got, r.Rule)
			}
			return nil
		}); err != nil || strings.Join(got, " ") != x.want {
			t.Errorf("%+v: %q, %v, want %s", x.q, got, err, x.want)
		}
	}
}
