package ctltest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"edgespan/cmd/term"
)

// Program runs a command line to its end and returns the exit code. A controller ends when ctx does, and uses hup
// instead of SIGHUP unless it is nil.
type Program func(ctx context.Context, s term.Streams, hup <-chan os.Signal, args []string) int

// asProgram makes the test binary the program itself, for tests that kill it.
const asProgram = "EDGESPAN_TEST_AS_CONTROLLER"

// Main is TestMain of a package whose tests start the program as a process.
func (p Program) Main(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		if err := os.Setenv(asProgram, "1"); err != nil { // for all processes that the tests start: tests may run in parallel
			panic(err)
		}
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := p(ctx, term.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}, nil, os.Args[1:])
	stop()
	os.Exit(code)
}

// Exec starts a command in a process of its own.
func Exec(t testing.TB, args ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	said = &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, said
}

// Command runs a command to its end.
func (p Program) Command(t testing.TB, args ...string) (code int, out, err string) {
	t.Helper()
	return p.Type(t.Context(), "", args...)
}

// Type runs a command with stdin until it or ctx ends.
func (p Program) Type(ctx context.Context, stdin string, args ...string) (code int, out, err string) {
	var o, e bytes.Buffer
	s := term.Streams{In: strings.NewReader(stdin), Out: &o, Err: &e, Env: func(string) string { return "" }}
	code = p(ctx, s, nil, args)
	return code, o.String(), e.String()
}

// Start starts a controller on a folder and waits until it is running.
func (p Program) Start(t testing.TB, dir string, args ...string) *Controller {
	t.Helper()
	c := p.Launch(t, dir, nil, args...)
	line := c.Err.Line(t, `"msg":"controller runs"`, c.Ended)
	if line == "" {
		t.Fatalf("it ended with %d:\n%s", c.Code, c.Err)
	}
	var said struct{ API, Nodes string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatal(err)
	}
	c.API, c.Nodes = said.API, said.Nodes
	return c
}

// Launch starts a controller on a folder.
func (p Program) Launch(t testing.TB, dir string, env map[string]string, args ...string) *Controller {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &Controller{t: t, Dir: dir, Out: NewOutput(), Err: NewOutput(), HUP: make(chan os.Signal), stop: cancel,
		Ended: make(chan struct{})}
	s := term.Streams{In: strings.NewReader(""), Out: c.Out, Err: c.Err,
		Env: func(name string) string { return env[name] }}
	args = append([]string{"--data-dir", dir, "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"}, args...)
	go func() {
		c.Code = p(ctx, s, c.HUP, args)
		close(c.Ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-c.Ended
		if t.Failed() {
			t.Logf("controller said:\n%s", c.Err)
		}
	})
	return c
}
