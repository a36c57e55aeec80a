package shellcli

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"edgespan/actors/shell"
	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/platform/support"
	"edgespan/pubsub/shellproto"
)

// someNode is a node with two networks.
type someNode struct{}

func (someNode) Do(ctx context.Context, who shellproto.Who, r shellproto.Request, emit shellproto.Emit) error {
	switch r.Op {
	case "names":
		return emit(map[string][]string{shellproto.NamesNetwork: {"blue", "blue two", "green"},
			shellproto.NamesActor: {"monitor", "ni/blue", "ni/green"}}[r.Args[0]], 0)
	case "tree":
		return emit([]shellproto.Actor{{ID: "router", State: "running", Messages: 7}}, 0)
	case "trace":
		if err := emit(shellproto.TraceItem{Where: "config", What: "accepted"}, 0); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	case "reconcile":
		return emit(shellproto.Done{Text: "network " + r.Args[0] + " asked by " + who.String()}, 0)
	}
	return shellproto.Failf(shellproto.ExitNotFound, "%q: no such actor", strings.Join(r.Args, " "))
}

// place is a run folder whose shells a server answers, or nothing.
type place struct {
	*testing.T
	dir  string
	stop context.CancelFunc
}

func serve(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, dir: clitest.Scratch(t)}
	l, err := net.Listen("unix", filepath.Join(p.dir, "shell.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	s := &shell.Server{Node: someNode{}, Log: zap.NewNop(),
		Identify: func(net.Conn) (shellproto.Who, error) { return shellproto.Who{UID: 3, PID: 4, Admin: true}, nil }}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-ended })
	return p
}

// onTerminal runs a command line on a terminal, and returns the terminal and what gets the exit code.
func (p *place) onTerminal(args ...string) (*clitest.Terminal, <-chan int) {
	p.Helper()
	on := clitest.OpenTerminal(p.T, 80, 24)
	a := &reach.App{Streams: term.Streams{In: on.Tty, Out: on.Tty, Err: on.Tty, Env: func(string) string { return "" }}}
	root := a.NewRoot("edgespan", "", "")
	a.Bind(root)
	root.AddCommand(New(a))
	code := make(chan int, 1)
	go func() {
		code <- a.Run(context.Background(), root, append([]string{"shell", "--run-dir", p.dir}, args...))
	}()
	return on, code
}

func (p *place) exits(code <-chan int, want int) {
	p.Helper()
	select {
	case got := <-code:
		if got != want {
			p.Errorf("exit %d, want %d", got, want)
		}
	case <-time.After(20 * time.Second):
		p.Fatal("the shell does not end")
	}
}

func TestAPersonTypesOnATerminal(t *testing.T) {
	p := serve(t)
	on, code := p.onTerminal("--write")
	on.Until("edgespan#")
	on.Type("tr")
	on.Until("edgespan# tr")
	on.Type("\t") // tree and trace
	on.Until("tree  trace")
	on.Type("ee\r")
	on.Until("router  running  0        7")
	on.Type("reconcile ?")
	on.Until("reconcile NETWORK: make a network compare and mend the host now\n  blue  'blue two'  green")
	on.Type("g\t")
	on.Until("reconcile green")
	on.Type("\r")
	on.Until("network green asked by uid 3, pid 4")
	on.Type("\x1b[A\x1b[A") // history
	on.Until("edgespan# tree")
	on.Type("\x15reconcile 'bl\x7flue two'\r") // Ctrl-U, a typing error
	on.Until("network blue two asked by")
	on.Type("inspect nothing\r")
	on.Until(`inspect: "nothing": no such actor`)
	on.Type("nonsense\r")
	on.Until(`command: invalid value "nonsense"`)
	on.Type("?")
	on.Until("  trace [NETWORK]          changes, from the config to each kernel operation\n")
	on.Type("top\r")
	on.Until("no answer since") // this place has no control socket
	on.Type("q")
	on.Until("edgespan# top\nedgespan#") // the first screen is back
	on.Type("tree\r")                    // every key is the shell's again
	on.Until("edgespan# tree\nACTOR")
	on.Type("exit\r")
	p.exits(code, 0)
}

// A command that goes on is ended by Ctrl-C, and the shell is not. The terminal does that only for a controlling one, so
// the test sends the signal.
func TestCtrlCEndsACommandAndNotTheShell(t *testing.T) {
	p := serve(t)
	on, code := p.onTerminal()
	on.Until("edgespan>")
	on.Type("trace\r")
	on.Until("config  accepted")
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	on.Type("tree\r")
	on.Until("router  running")
	on.Type("\x04")
	p.exits(code, 0)
}

func TestAShellWhoseDaemonGoesEnds(t *testing.T) {
	p := serve(t)
	on, code := p.onTerminal()
	on.Until("edgespan>")
	on.Type("trace\r")
	on.Until("config  accepted")
	p.stop()
	on.Until("the daemon went away")
	p.exits(code, term.ExitUnreachable)
}

func TestLinesAreKeptForLaterShells(t *testing.T) {
	home := t.TempDir()
	env := func(key string) string { return map[string]string{"HOME": home}[key] }
	h := openHistory(env)
	for i := range historyLimit + 10 {
		h.Add(fmt.Sprint("tree ", i))
	}
	h.Add(fmt.Sprint("tree ", historyLimit+9)) // again
	h.Add("  ")
	later := openHistory(env)
	if later.Len() != historyLimit || later.At(0) != fmt.Sprint("tree ", historyLimit+9) || later.At(historyLimit-1) != "tree 10" {
		t.Errorf("%d lines, the newest %q", later.Len(), later.At(0))
	}
	info, err := os.Stat(filepath.Join(home, ".local/state/edgespan/shell_history"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.RemoveAll(home); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home, nil, 0o600); err != nil { // no place for it
		t.Fatal(err)
	}
	later.Add("events")
	if later.At(0) != "events" || openHistory(env).Len() != 0 {
		t.Error("a disk that takes nothing costs this shell its history")
	}
	if none := openHistory(func(string) string { return "" }); none.Len() != 0 {
		t.Error("a user without a home has a history")
	}
}

func TestWithoutADaemonWhatIsKnownFromOutsideIsSaid(t *testing.T) {
	p := &place{T: t, dir: clitest.Scratch(t)}
	said := clitest.Run(t, clitest.RootOf(func(a *reach.App) []*cobra.Command { return []*cobra.Command{New(a)} }), nil, "",
		"shell", "--run-dir", p.dir, "-c", "tree")
	if said.Code != term.ExitUnreachable || !strings.Contains(said.Err, "daemon: none has run with the socket "+p.dir) ||
		!strings.Contains(said.Err, "data plane: ") || !strings.Contains(said.Err, "next: 'systemctl start edgespan'") ||
		!strings.Contains(said.Err, "no daemon answers") {
		t.Errorf("%+v", said)
	}
	script := clitest.Run(t, clitest.RootOf(func(a *reach.App) []*cobra.Command { return []*cobra.Command{New(a)} }), nil,
		"tree\nnope", "shell", "--run-dir", p.dir)
	if script.Code != term.ExitUsage || !strings.Contains(script.Err, `command: invalid value "nope"`) {
		t.Errorf("a script with a mistake: %+v", script)
	}
}

// The daemon of an older release may be well: it is not ended for want of a socket that it never had. The daemon of
// this test is the test itself, which a SIGQUIT would end.
func TestADaemonWithoutShellsIsNotEnded(t *testing.T) {
	p := &place{T: t, dir: clitest.Scratch(t)}
	socket := filepath.Join(p.dir, "edgespan.sock")
	if err := support.WriteDaemon(support.Daemon{Version: "0.9.0", RunDir: p.dir, Socket: socket,
		StateDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	said := clitest.Run(t, clitest.RootOf(func(a *reach.App) []*cobra.Command { return []*cobra.Command{New(a)} }), nil, "",
		"shell", "--stack", "--run-dir", p.dir, "-c", "tree")
	if said.Code != term.ExitUnreachable || !strings.Contains(said.Err, "version 0.9.0") ||
		!strings.Contains(said.Err, "this daemon has no debug shell") || strings.Contains(said.Err, "'edgespan shell --stack'") {
		t.Errorf("%+v", said)
	}
}
