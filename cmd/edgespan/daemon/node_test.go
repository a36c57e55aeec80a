package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/platform/otlp"
)

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// testNode is a `node` command with a fake instead of the actor tree.
type testNode struct {
	fake   *clitest.Daemon
	dir    string
	log    syncBuffer
	got    nodeOptions
	cancel context.CancelFunc
	code   chan int
}

func startTestNode(t *testing.T, lock string, startErr error) *testNode {
	t.Helper()
	n := &testNode{fake: clitest.Filled(), dir: clitest.Scratch(t), code: make(chan int, 1)}
	n.fake.Ended = make(chan error, 1)
	d := program{
		version: "v1.2.3", lock: lock, lockDir: filepath.Join(os.TempDir(), lock),
		start: func(_ context.Context, o nodeOptions, _ *zap.Logger) (runningNode, error) {
			n.got = o
			return n.fake, startErr
		},
	}
	t.Cleanup(func() { _ = os.RemoveAll(d.lockDir) })
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	t.Cleanup(cancel)
	args := []string{"node", "--config", n.dir + "/c", "--state-dir", n.dir + "/state", "--run-dir", n.dir + "/run"}
	go func() { n.code <- runDaemon(ctx, &n.log, d, args) }()
	return n
}

// runDaemon runs a command line whose `node` is d.
func runDaemon(ctx context.Context, log io.Writer, d program, args []string) int {
	a := &reach.App{Streams: term.Streams{Out: log, Err: log, Env: func(string) string { return "" }}}
	root := a.NewRoot("edgespan", "", "")
	a.Bind(root)
	root.AddCommand(newNode(a, d))
	return a.Run(ctx, root, args)
}

func (n *testNode) socket() string { return filepath.Join(n.dir, "run", reach.SocketName) }

func (n *testNode) wantCode(t *testing.T, want int, logged string) {
	t.Helper()
	select {
	case code := <-n.code:
		if code != want || !strings.Contains(n.log.String(), logged) {
			t.Errorf("exit %d, want %d; log:\n%s\nwant %q in it", code, want, n.log.String(), logged)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("node does not end; log:\n%s", n.log.String())
	}
}

func lockName(t *testing.T) string { return fmt.Sprintf("@edgespan-test-%d-%s", os.Getpid(), t.Name()) }

func TestNodeServesUntilItIsTold(t *testing.T) {
	n := startTestNode(t, lockName(t), nil)
	clitest.AwaitSocket(t, n.socket())
	c := nodeapi.NewClient(n.socket())
	defer c.Close()
	if got, err := c.List(t.Context(), "ni"); err != nil || len(got) != 1 || got[0].ID != clitest.NiID {
		t.Errorf("list: %+v, %v", got, err)
	}
	want := nodeOptions{n.dir + "/c", n.dir + "/state", n.dir + "/run", n.socket(), "v1.2.3", n.got.Level, aboutFiles{},
		"", otlp.Options{}, nil, false, false, "", "", "", defaultRecordSize, defaultKeyLife}
	if n.got != want {
		t.Errorf("options %+v, want %+v", n.got, want)
	}
	n.cancel()
	n.wantCode(t, term.ExitOK, "its networks keep running")
	if !n.fake.Stopped {
		t.Error("the actors were not stopped")
	}
	if _, err := os.Stat(n.socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestSIGHUPRereadsTheConfig(t *testing.T) {
	f := &clitest.Daemon{Ended: make(chan error, 1)}
	hup := make(chan os.Signal)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool, 1)
	go func() {
		_, serving := waitForEnd(ctx, f, hup, nil)
		ended <- serving
	}()
	hup <- syscall.SIGHUP
	hup <- syscall.SIGHUP // taken only after the first was done
	cancel()
	if serving := <-ended; !serving || f.Reloads < 1 {
		t.Errorf("serving %v, %d reloads", serving, f.Reloads)
	}
}

func TestTheSecondDaemonOfANamespaceExitsWithConflict(t *testing.T) {
	lock := lockName(t)
	first := startTestNode(t, lock, nil)
	clitest.AwaitSocket(t, first.socket())
	startTestNode(t, lock, nil).wantCode(t, term.ExitConflict, "another edgespan node runs in it")
	first.cancel()
	first.wantCode(t, term.ExitOK, "")
	third := startTestNode(t, lock, nil)
	clitest.AwaitSocket(t, third.socket())
	third.cancel()
	third.wantCode(t, term.ExitOK, "")
}

func TestNodeExitsWhenItsTopActorEnds(t *testing.T) {
	n := startTestNode(t, lockName(t), nil)
	clitest.AwaitSocket(t, n.socket())
	n.fake.Ended <- errors.New("router escalated")
	n.wantCode(t, term.ExitError, "router escalated")
}

func TestNodeThatCannotStartSaysWhy(t *testing.T) {
	n := startTestNode(t, lockName(t), errors.New("journal is locked"))
	n.wantCode(t, term.ExitError, "start node: journal is locked")
}

func TestNodeLeavesAnotherDaemonsSocketAlone(t *testing.T) {
	n := startTestNode(t, lockName(t), nil)
	clitest.AwaitSocket(t, n.socket())
	// Another network namespace has another lock, but the path may be the same.
	second := program{lock: lockName(t) + "2"}
	second.start = func(context.Context, nodeOptions, *zap.Logger) (runningNode, error) {
		return &clitest.Daemon{Ended: make(chan error, 1)}, nil
	}
	args := []string{"node", "--state-dir", n.dir + "/state", "--run-dir", n.dir + "/run"}
	if code := runDaemon(t.Context(), &n.log, second, args); code != term.ExitConflict {
		t.Errorf("exit %d", code)
	}
	if _, err := nodeapi.NewClient(n.socket()).Version(t.Context()); err != nil {
		t.Errorf("the first daemon: %v", err)
	}
	n.cancel()
	n.wantCode(t, term.ExitOK, "")
}
