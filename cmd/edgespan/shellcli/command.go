package shellcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"edgespan/actors/shell"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/edgespan/top"
	"edgespan/cmd/term"
	"edgespan/platform/tty"
	"edgespan/pubsub/shellproto"
)

// dialTimeout bounds how long a daemon may take to accept a shell.
const dialTimeout = 3 * time.Second

// options are the flags of the shell.
type options struct {
	commands, output string
	node             string
	write, stack     bool
}

// New returns the command shell.
func New(a *reach.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "shell",
		Short: "Show what each actor of the daemon does, and why",
		Example: "  edgespan shell\n  edgespan shell -c 'tree; inspect monitor'\n" +
			"  edgespan shell --write -c 'reconcile web'",
		Long: `shell asks the daemon of this node, by a socket beside the control socket: the tree of actors with
what each does now (tree), the state of one (inspect), its messages and effects as they pass
(tail), values of topics (watch), events, and one change from the config to each operation of the
kernel (trace). With --write it also changes something: reconcile, reprobe, restart, loglevel and,
if the daemon was started with --allow-faults, fault. Each such command is audited.

With --node the controller passes each command on to a node that is connected to it, for operators;
fault is for admins. Both sides record who asked, and a command ends after 10 minutes or 16 MiB.

It takes access to the socket: root, or a member of the group edgespan. To change something takes
root or the group ` + shellproto.AdminGroup + `.

Without -c it reads commands from the terminal, or a script from stdin. In the terminal, ? shows
what may come next, Tab completes live names, and Ctrl-C ends a command that goes on.`,
		Args: term.ExactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, a, o) },
	}
	cmd.Flags().StringVarP(&o.commands, "command", "c", "", "commands to run, with ; between them")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "form of the answers: table, or json, one line each")
	cmd.Flags().BoolVar(&o.write, "write", false, "allow commands that change something")
	cmd.Flags().StringVar(&o.node, "node", "", "a node of the controller's fleet: ask it through the controller")
	cmd.Flags().BoolVar(&o.stack, "stack", false,
		"end a daemon that does not answer, with what its goroutines do in its log (SIGQUIT)")
	return cmd
}

func run(cmd *cobra.Command, a *reach.App, o options) error {
	script := cmd.Flags().Changed("command")
	terminal := isTerminal(a.In) && isTerminal(a.Out)
	if !script && !terminal {
		text, err := io.ReadAll(io.LimitReader(a.In, maxLine+1))
		if err != nil {
			return fmt.Errorf("read commands: %w", err)
		}
		o.commands, script = string(text), true
	}
	c := Script{Commands: o.commands, Output: o.output, Write: o.write}
	if script {
		if _, err := c.requests(); err != nil {
			return err // before anything is asked
		}
	}
	s, err := o.session(cmd, a)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it is over either way
	if script {
		return c.Run(cmd.Context(), a.Streams, s)
	}
	screen := func(ctx context.Context) error { return top.Run(ctx, a) }
	if cmd.Flags().Changed("node") {
		screen = nil
	}
	return interact(cmd.Context(), a.Streams, s, c, screen)
}

// session connects to the daemon of this node, or to that of another through the controller.
func (o options) session(cmd *cobra.Command, a *reach.App) (Session, error) {
	if cmd.Flags().Changed("node") {
		client, err := a.FleetClient()
		return dialFleet(client, err, o.node)
	}
	s, err := dial(cmd.Context(), reach.ShellSocket(a.SocketPath()))
	if err != nil {
		return nil, unreachable(a, err, o.stack)
	}
	return s, nil
}

func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && tty.Is(f)
}

// dial connects to a daemon.
func dial(ctx context.Context, path string) (Session, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	s, err := shell.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	return worded{s}, nil
}

// worded is a session whose errors have exit codes.
type worded struct{ *shell.Session }

func (w worded) Do(ctx context.Context, r shellproto.Request, each func(shellproto.Frame) error) error {
	err := w.Session.Do(ctx, r, each)
	if errors.Is(err, shell.ErrGone) {
		return term.WithClass(term.ExitUnreachable, err)
	}
	return err
}
