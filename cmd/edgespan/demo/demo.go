package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/examples"
	"edgespan/platform/lab"
)

// The lab of `demo up`; a plain `demo` uses another one.
const (
	keptName = "edgespan-demo"
	keptDir  = "/run/edgespan-demo"
)

// downTimeout bounds the removal of a lab after an interrupt.
const downTimeout = 30 * time.Second

// demoProgram is one run of the demo.
type demoProgram struct{ term.Streams }

// Commands returns `demo` and the command that runs in its lab.
func Commands(s term.Streams) []*cobra.Command {
	return []*cobra.Command{newDemo(demoProgram{s}), newDemoISP(demoProgram{s})}
}

func newDemo(a demoProgram) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo of a node in its own network namespaces",
		Long: `demo builds a small lab of network namespaces, runs the daemon in it with
examples/demo.yaml and shows a DHCP lease, a DNS name, a ping, HTTP through NAT, a denied flow, the
daemon killed and restarted under traffic, an uplink that dies and comes back, and an app that
moves to another network. It exits 0 if every step succeeds. It needs root, and does not touch the
machine's own network.`,
		Args: term.ExactArgs(0, "up, down, exec or none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context()) },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "up", Short: "Build the demo lab, start the daemon in it, and keep both running",
		Example: "  edgespan demo up",
		Args:    term.ExactArgs(0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demoUp(cmd.Context()) },
	}, newVPN(a), &cobra.Command{
		Use: "down", Short: "Remove the lab that demo up built",
		Example: "  edgespan demo down",
		Args:    term.ExactArgs(0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demoDown(cmd.Context()) },
	}, &cobra.Command{
		Use:     "exec node|isp|" + lab.AppWeb + "|" + lab.AppClient + " -- COMMAND…",
		Short:   "Run a command in a namespace of the demo lab",
		Example: "  edgespan demo exec " + lab.AppClient + " -- curl http://" + lab.WebName + "/",
		Args:    term.RangeArgs(2, 1<<10, "a namespace and a COMMAND"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.demoExec(cmd.Context(), args[0], args[1:]) },
	})
	return cmd
}

// newDemoISP returns the command that runs the provider's servers in the lab.
func newDemoISP(a demoProgram) *cobra.Command {
	return &cobra.Command{
		Use: lab.ChildCommand, Hidden: true, DisableFlagParsing: true,
		Short: "Serve DNS and HTTP inside the demo lab",
		RunE: func(_ *cobra.Command, args []string) error {
			if code := lab.ChildMain(args, a.Out, a.Err); code != 0 {
				return term.StatusError(code)
			}
			return nil
		},
	}
}

// labUp builds a lab and starts the demo's config in it.
func labUp(ctx context.Context, o lab.Options) (*lab.Lab, error) {
	if missing := lab.MissingTools(); missing != nil {
		return nil, fmt.Errorf("demo: commands not found: %s: run 'make setup' to install them", strings.Join(missing, " "))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("demo: find this program: %w", err)
	}
	o.Binary = self
	l, err := lab.Up(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if err := l.WriteConfig(examples.Demo); err != nil {
		return nil, errors.Join(fmt.Errorf("demo: %w", err), l.Down(context.WithoutCancel(ctx)))
	}
	return l, nil
}

// demo runs all steps in a lab and removes the lab afterwards.
func (a demoProgram) demo(ctx context.Context) (err error) {
	l, err := labUp(ctx, lab.Options{Second: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(ctx, l)) }()
	d, err := newDemoRun(a, l)
	if err != nil {
		return err
	}
	for _, s := range d.steps() {
		d.runStep(ctx, s)
	}
	return d.end(func() string { return l.LastWords(10) })
}

// remove removes a lab, after an interrupt too.
func remove(ctx context.Context, l *lab.Lab) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	if err := l.Down(ctx); err != nil {
		return fmt.Errorf("demo: remove lab: %w", err)
	}
	return nil
}

func (a demoProgram) demoUp(ctx context.Context) error {
	l, err := labUp(ctx, lab.Options{Name: keptName, Dir: keptDir, Second: true})
	if err != nil {
		return err
	}
	d, err := newDemoRun(a, l)
	if err == nil {
		for _, s := range d.setup() {
			if d.runStep(ctx, s); d.failed > 0 {
				err = fmt.Errorf("demo: %s: %s", s.name, l.LastWords(10))
				break
			}
		}
	}
	if err != nil {
		return errors.Join(err, l.Down(context.WithoutCancel(ctx)))
	}
	_, err = fmt.Fprintf(a.Out, `
The lab stands. Try:

  export EDGESPAN_SOCKET=%[1]s
  %[2]s get ni -o wide
  %[2]s get app
  %[2]s demo exec %[3]s -- dig +short web.%[4]s
  %[2]s demo exec %[3]s -- curl http://%[5]s/
  %[2]s demo exec node -- iptables -S
  %[2]s plan -f %[6]s

The daemon's log is %[7]s. Remove all of it with: %[2]s demo down
`, l.Socket(), l.Binary, lab.AppClient, d.ex.home.domain, lab.WebName, l.ConfigFile(), l.NodeLog())
	return err
}

func (a demoProgram) demoDown(ctx context.Context) error {
	l, err := lab.Open(lab.Options{Name: keptName, Dir: keptDir, Second: true})
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := l.Down(ctx); err != nil {
		return fmt.Errorf("demo: remove lab: %w", err)
	}
	a.Printf("lab removed")
	return nil
}

func (a demoProgram) demoExec(ctx context.Context, short string, argv []string) error {
	l, err := lab.Open(lab.Options{Name: keptName, Dir: keptDir, Second: true})
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if !l.HasNamespace(short) {
		return term.NotOneOf("demo exec: namespace", short, l.ShortNames())
	}
	code, err := l.Attach(ctx, a.In, a.Out, a.Err, short, argv...)
	if err != nil {
		return fmt.Errorf("demo exec: %w", err)
	}
	if code != 0 {
		return term.StatusError(code)
	}
	return nil
}
