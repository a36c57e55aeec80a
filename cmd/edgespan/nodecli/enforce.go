package nodecli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

func newEnforce(a commands) *cobra.Command {
	var output string
	var how nodeapi.EnforceOptions
	cmd := &cobra.Command{
		Use:   "enforce " + rulesTarget,
		Short: "End observe of an app: enforce its access rules",
		Long: `enforce removes observe from the adapters of an app, or from one of them, in the node's config, and
applies that config as edgespan apply does. It first shows which flows the rules deny from then on;
flows under way that they deny end. With --confirm the node returns to observe by itself unless
edgespan confirm follows in time; edgespan rollback returns at once.

A config file is not changed: remove observe there, too. On a node that a controller manages,
enforce changes nothing, says what to run there and exits 5. It exits 0 if no adapter has observe.`,
		Example: "  edgespan acl enforce app/web --dry-run\n" +
			"  edgespan acl enforce app/web/0 --confirm 120s && curl -m 5 http://192.0.2.1 && edgespan confirm",
		Args: term.ExactArgs(1, rulesTarget),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			switch d := how.Confirm; {
			case how.DryRun && given("confirm"):
				return term.Exclusive("--dry-run", "--confirm")
			case !how.DryRun && given("output"):
				return term.Requires("-o", "--dry-run")
			case given("confirm") && (d < nodeapi.MinConfirm || d > nodeapi.MaxConfirm):
				return term.Invalid("--confirm", d, fmt.Sprintf("%v to %v", nodeapi.MinConfirm, nodeapi.MaxConfirm))
			}
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			how.By = userName()
			return a.enforce(cmd.Context(), args[0], how, output)
		},
		ValidArgsFunction: a.completeApps,
	}
	cmd.Flags().BoolVar(&how.DryRun, "dry-run", false, "show which flows would be denied, and change nothing")
	cmd.Flags().DurationVar(&how.Confirm, "confirm", 0,
		"roll back after this time, such as 120s, unless edgespan confirm is run")
	term.OutputFlag(cmd, &output)
	return cmd
}

// enforce shows what changes, and then changes that: not another config that the node has got meanwhile.
func (a commands) enforce(ctx context.Context, target string, how nodeapi.EnforceOptions, output string) error {
	app, index, err := readRulesTarget(target)
	if err != nil {
		return err
	}
	ctx, c, done := a.Connect(ctx)
	defer done()
	x, err := c.Enforce(ctx, app, index, nodeapi.EnforceOptions{DryRun: true})
	if err != nil {
		return err
	}
	if err := a.showEnforced(x, target, output); err != nil || how.DryRun || len(x.Adapters) == 0 {
		return err
	}
	how.Replaces = x.Config
	if x, err = c.Enforce(ctx, app, index, how); err != nil {
		return err
	}
	a.stored(x.Warnings, how.Confirm)
	return nil
}

// showEnforced shows which adapters and flows change.
func (a commands) showEnforced(x nodeapi.Enforced, target, output string) error {
	if output != "table" && output != "wide" {
		data := map[string]any{"adapters": x.Adapters, "flows": append([]nodeapi.FlowChange{}, x.Flows.List...),
			"flowsLeftOut": x.Flows.LeftOut, "flowsIncomplete": x.Flows.Incomplete}
		return a.Show(term.Shown{Data: data, Names: x.Adapters}, output)
	}
	if len(x.Adapters) == 0 {
		a.Printf("no adapter of %s has observe", term.Printable(target))
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "enforced: adapter/%s\n%s", strings.Join(x.Adapters, ", adapter/"), flowChanges(x.Flows))
	return err
}
