package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/config"
)

// Result is the output and the exit code of a command; Code is -1 if a signal ended it.
type Result struct {
	Out, Err string
	Code     int
}

// Exec runs argv in a namespace ("node", "isp", "app-client") until it or ctx ends. Names are resolved by the
// nameservers of that namespace's lease. An exit code other than 0 is no error: it is in the Result.
func (l *Lab) Exec(ctx context.Context, short string, argv ...string) (Result, error) {
	return l.runInside(short, exec.CommandContext(ctx, argv[0], argv[1:]...))
}

// runInside is runToEnd in a namespace. It does what Command does without the two programs that start before argv: a
// test that polls starts thousands of them.
func (l *Lab) runInside(short string, cmd *exec.Cmd) (Result, error) {
	return finish(cmd, func() error {
		return l.inside(short, func() error {
			if err := ownMounts(l.resolv(short)); err != nil {
				return err
			}
			return cmd.Start()
		})
	})
}

// resolvConf is the machine's file with the addresses of nameservers.
const resolvConf = "/etc/resolv.conf"

// ownMounts gives the calling thread, and what it starts, mounts of its own: a /sys of its network namespace, and the
// file resolv in place of the machine's resolv.conf, if both are there.
func ownMounts(resolv string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep own mounts: %w", err)
	}
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount /sys: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	err := unix.Mount(resolv, resolvConf, "", unix.MS_BIND, "")
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("mount %s: %w", resolv, err)
	}
	return nil
}

// Command returns argv as a command in a namespace, not started. The lease's resolv.conf covers the machine's in the
// mount namespace that ip netns exec creates, so no other process sees it.
func (l *Lab) Command(ctx context.Context, short string, argv ...string) *exec.Cmd {
	const cover = `if [ -e "$0" ] && [ -e /etc/resolv.conf ]; then mount --bind "$0" /etc/resolv.conf; fi && exec "$@"`
	all := append([]string{"netns", "exec", l.NS(short), "sh", "-c", cover, l.resolv(short)}, argv...)
	return exec.CommandContext(ctx, "ip", all...)
}

func (l *Lab) resolv(short string) string { return filepath.Join(l.Dir, short+".resolv.conf") }

// Attach runs argv in a namespace with the caller's streams and returns its exit code.
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

func runToEnd(cmd *exec.Cmd) (Result, error) { return finish(cmd, cmd.Start) }

// finish starts cmd by start and returns what it wrote until it ended.
func finish(cmd *exec.Cmd, start func() error) (Result, error) {
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.WaitDelay = time.Second // a grandchild that keeps a pipe open does not block
	err := start()
	if err == nil {
		err = cmd.Wait()
	}
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

// CLIWith is CLI with stdin.
func (l *Lab) CLIWith(ctx context.Context, stdin string, args ...string) (Result, error) {
	cmd := exec.CommandContext(ctx, l.Binary, args...)
	cmd.Env = append(os.Environ(), "EDGESPAN_SOCKET="+l.Socket())
	cmd.Stdin = strings.NewReader(stdin)
	return runToEnd(cmd)
}

// NodeCmd returns the daemon's command in the namespace "node", not started; extra arguments are appended. The lab
// ends it only in Down.
func (l *Lab) NodeCmd(extra ...string) *exec.Cmd {
	argv := append([]string{
		"netns", "exec", l.NS("node"), l.Binary, "node",
		"--config", l.ConfigFile(), "--state-dir", l.StateDir(), "--run-dir", l.RunDir(), "--resolver-root", l.ResolverRoot(),
	}, extra...)
	cmd := exec.Command("ip", argv...) //nolint:noctx // constant argv; it outlives its starter
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// Node is a started daemon.
type Node struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
}

// StartNode starts a command of NodeCmd and appends its output to NodeLog. Use WaitControl to wait until it answers.
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

// errEnded reports that a daemon ended while WaitControl waited for it.
var errEnded = errors.New("process exited")

// Ended returns a channel that is closed when the process has ended.
func (n *Node) Ended() <-chan struct{} { return n.ended }

// Signal sends one signal to the daemon's process.
func (n *Node) Signal(s os.Signal) error { return n.cmd.Process.Signal(s) }

// Kill sends SIGKILL, and returns when the process has ended.
func (n *Node) Kill() error {
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill node: %w", err)
	}
	<-n.ended
	return nil
}

// Stop sends SIGTERM, waits, and returns how the process ended; nil is status 0.
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

// WaitControl waits until n's daemon answers on its socket and returns how long that took. n is nil for a daemon that
// the caller did not start with StartNode.
func (l *Lab) WaitControl(ctx context.Context, n *Node) (time.Duration, error) {
	began := time.Now()
	var gone <-chan struct{}
	if n != nil {
		gone = n.ended
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var r Result
		// A program for each try would slow down what it waits for.
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", l.Socket())
		if err == nil {
			_ = c.Close() // nothing was said
			r, err = l.CLI(ctx, "get", "ni", "-o", "json")
		}
		if err == nil && r.Code == 0 {
			return time.Since(began), nil
		}
		select {
		case <-gone:
			return 0, fmt.Errorf("wait for the daemon: it ended: %w: %s", errors.Join(n.err, errEnded), l.LastWords(5))
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the daemon: %w: %s", errors.Join(ctx.Err(), err), strings.TrimSpace(r.Err))
		case <-tick.C:
		}
	}
}

// maxLine is where LastWords truncates a line, in bytes.
const maxLine = 300

// LastWords returns the last n lines of NodeLog, with long lines truncated.
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

// WriteConfig writes doc to ConfigFile, with the namespaces' names replaced as in Config.
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

// Config returns a node config (YAML or JSON) as JSON in which the apps' namespaces have their names in this lab, so
// that labs with the same config don't conflict.
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
