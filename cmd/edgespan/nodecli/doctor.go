package nodecli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst/doctor"
	"edgespan/platform/facts"
)

func newDoctor(a commands) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "List problems on this node, each with a command that fixes it",
		Example: "  edgespan doctor",
		Long: `doctor looks for conflicts: a DNS server on an address that a network needs,
systemd-networkd deleting edgespan's rules, strict reverse path filters, forwarding turned off,
subnets that overlap, missing programs and kernel features, an iptables that can't do what rules
need, two daemons, and a config file that is not the running config. Each problem comes with a
command that fixes it; doctor runs none of them.

The daemon runs the checks in its own network namespace. Without a daemon doctor runs them where it
was started, and reports the missing daemon as a problem. It exits 0 if there is no problem (a
warning is none), and 1 if there is one.`,
		Args: term.ExactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			return a.doctor(cmd.Context(), output)
		},
	}
	term.OutputFlag(cmd, &output)
	return cmd
}

func (a commands) doctor(ctx context.Context, output string) error {
	ctx, c, done := a.Connect(ctx)
	defer done()
	found, err := c.Doctor(ctx)
	if errors.Is(err, rest.ErrUnreachable) {
		found, err = a.examine(ctx, err)
	}
	if err != nil {
		return err
	}
	s := term.Shown{Data: map[string]any{"findings": found}}
	sick := false
	for _, f := range found {
		sick = sick || f.Level == nodeapi.Problem
		if f.Level != nodeapi.Fine {
			s.Names = append(s.Names, f.Check)
		}
	}
	s.Table = func(bool) *term.Table {
		t := &term.Table{Head: []string{"CHECK", "LEVEL", "WHAT", "FIX"}, Wide: true} // a truncated command is useless
		for _, f := range found {
			t.Add(f.Check, f.Level, f.Text, f.Fix)
		}
		return t
	}
	if err := a.Show(s, output); err != nil {
		return err
	}
	if sick {
		return term.StatusError(term.ExitError)
	}
	return nil
}

// examine checks the host itself if no daemon answers.
func (a commands) examine(ctx context.Context, why error) ([]nodeapi.Finding, error) {
	out := []nodeapi.Finding{{
		Check: "daemon", Level: nodeapi.Problem, Text: strings.TrimSuffix(why.Error(), nodeapi.DoctorHint),
		Fix: "edgespan node --config " + a.Setting("", "EDGESPAN_CONFIG", reach.DefaultConfig) + " --run-dir " +
			a.RunFolder(),
	}}
	f, err := facts.Reader{Root: "/", RunDir: a.RunFolder()}.Read(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range doctor.Examine(f, doctor.Node{}) {
		out = append(out, nodeapi.Finding(x))
	}
	return out, nil
}
