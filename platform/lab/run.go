package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"edgespan/config"
)

// Result is what a command said and how it ended; Code is -1 where a signal ended it.
type Result struct {
	Out, Err string
	Code     int
}

// Exec runs argv in a namespace ("node", "isp", "app-client") to its end or ctx's.
// Names are resolved by the nameservers of that namespace's lease. An exit code other
// than 0 is no error: it is in the Result.
func (l *Lab) Exec(ctx context.Context, short string, argv ...string) (Result, error) {
	return runToEnd(l.Command(ctx, short, argv...))
}

// Command is argv in a namespace, not started, with the machine's resolv.conf covered by
// the lease's: ip netns exec gives it a mount namespace of its own, so that nobody else
// sees that.
func (l *Lab) Command(ctx context.Context, short string, argv ...string) *exec.Cmd {
	const cover = `if [ -e "$0" ] && [ -e /etc/resolv.conf ]; then mount --bind "$0" /etc/resolv.conf; fi && exec "$@"`
	all := append([]string{"netns", "exec", l.NS(short), "sh", "-c", cover, l.resolv(short)}, argv...)
	return exec.CommandContext(ctx, "ip", all...)
}

func (l *Lab) resolv(short string) string { return filepath.Join(l.Dir, short+".resolv.conf") }

// Attach runs argv in a namespace with the caller's own streams and returns its exit code.
func (l *Lab) Attach(ctx context.Context, in io.Reader, out, errOut io.Writer, short string, argv ...string) (int,
	error) {
	cmd := l.Command(ctx, short, argv...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 0) {
		return -1, fmt.Errorf("run %s in %s: %w", strings.Join(argv, " "), short, err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

func runToEnd(cmd *exec.Cmd) (Result, error) {
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.WaitDelay = time.Second // a grandchild that keeps a pipe open does not keep us
	err := cmd.Run()
	r := Result{out.String(), errOut.String(), -1}
	if cmd.ProcessState != nil {
		r.Code = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return r, fmt.Errorf("run %s: %w", strings.Join(cmd.Args, " "), err)
	}
	return r, nil
}

// CLI runs the command line against the lab's daemon.
func (l *Lab) CLI(ctx context.Context, args ...string) (Result, error) {
	return l.CLIWith(ctx, "", args...)
}

// CLIWith is CLI with an input.
func (l *Lab) CLIWith(ctx context.Context, stdin string, args ...string) (Result, error) {
	cmd := exec.CommandContext(ctx, l.Binary, args...)
	cmd.Env = append(os.Environ(), "EDGESPAN_SOCKET="+l.Socket())
	cmd.Stdin = strings.NewReader(stdin)
	return runToEnd(cmd)
}

// NodeCmd is the daemon's command in the namespace "node", not started; extra
// arguments come last. Nothing of the lab ends it but Down.
func (l *Lab) NodeCmd(extra ...string) *exec.Cmd {
	argv := append([]string{
		"netns", "exec", l.NS("node"), l.Binary, "node",
		"--config", l.ConfigFile(), "--state-dir", l.StateDir(), "--run-dir", l.RunDir(), "--resolver-root", l.ResolverRoot(),
	}, extra...)
	cmd := exec.Command("ip", argv...) //nolint:noctx // our own argv; it outlives its starter
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// Node is a started daemon.
type Node struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
}

// StartNode starts cmd (NodeCmd's) with its output added to NodeLog. It does not wait
// for an answer: that is WaitControl's.
func (l *Lab) StartNode(cmd *exec.Cmd) (*Node, error) {
	said, err := os.OpenFile(l.NodeLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	defer func() { _ = said.Close() }() // the process has its own
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	n := &Node{cmd: cmd, ended: make(chan struct{})}
	go func() {
		n.err = cmd.Wait()
		close(n.ended)
	}()
	return n, nil
}

// errEnded is a daemon that went away while it was waited for.
var errEnded = errors.New("process exited")

// Ended is closed when the process is gone.
func (n *Node) Ended() <-chan struct{} { return n.ended }

// Signal sends one signal to the daemon's process.
func (n *Node) Signal(s os.Signal) error { return n.cmd.Process.Signal(s) }

// Kill is SIGKILL, and comes back when the process is gone.
func (n *Node) Kill() error {
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill node: %w", err)
	}
	<-n.ended
	return nil
}

// Stop is SIGTERM, and comes back with how the process ended; nil is status 0.
func (n *Node) Stop(ctx context.Context) error {
	if err := n.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop node: %w", err)
	}
	select {
	case <-n.ended:
		return n.err
	case <-ctx.Done():
		return fmt.Errorf("stop node: %w", ctx.Err())
	}
}

// WaitControl waits until n's daemon answers on its socket and says how long that took.
// n may be nil for a daemon that somebody else started.
func (l *Lab) WaitControl(ctx context.Context, n *Node) (time.Duration, error) {
	began := time.Now()
	var gone <-chan struct{}
	if n != nil {
		gone = n.ended
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := l.CLI(ctx, "get", "ni", "-o", "json")
		if err == nil && r.Code == 0 {
			return time.Since(began), nil
		}
		select {
		case <-gone:
			return 0, fmt.Errorf("wait for the daemon: it ended: %w: %s", errors.Join(n.err, errEnded), l.LastWords(5))
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the daemon: %w: %s", ctx.Err(), strings.TrimSpace(r.Err))
		case <-tick.C:
		}
	}
}

// maxLine is where LastWords cuts a line, in octets.
const maxLine = 300

// LastWords are the last n lines of NodeLog, long ones cut.
func (l *Lab) LastWords(n int) string { return lastLines(l.NodeLog(), n) }

func lastLines(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines { // the stack of a panic is one long line of the log
		if len(line) > maxLine {
			lines[i] = line[:maxLine] + "…"
		}
	}
	return strings.Join(lines, "\n")
}

// WriteConfig writes doc, with its namespaces as Config names them, to ConfigFile.
func (l *Lab) WriteConfig(doc []byte) error {
	text, err := l.Config(doc)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.ConfigFile(), text, 0o644); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return nil
}

// Config is a node config (YAML or JSON) as JSON, in which the namespaces of the lab's
// apps have the lab's own names: so that labs of one config do not meet.
func (l *Lab) Config(doc []byte) ([]byte, error) {
	tree, faults := config.ReadObject(doc)
	if faults != nil {
		return nil, fmt.Errorf("read config: %w", faults)
	}
	for _, app := range children(tree["appNetworks"]) {
		adapters, _ := app["adapters"].(map[string]any)
		for _, adapter := range children(adapters) {
			attach, _ := adapter["attach"].(map[string]any)
			if name, ok := attach["netns"].(string); ok && slices.Contains(l.apps, name) {
				attach["netns"] = l.NS(name)
			}
		}
	}
	text, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return text, nil
}

func children(v any) []map[string]any {
	m, _ := v.(map[string]any)
	var out []map[string]any
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if c, ok := m[k].(map[string]any); ok {
			out = append(out, c)
		}
	}
	return out
}
