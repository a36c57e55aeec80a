package offline

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/pki"
)

const aboutAdmin = `

With --controller the command talks to a running controller; without it, it opens the store of
--data-dir or --etcd, and no controller may run on that store.`

func newToken(a *serve.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Manage the tokens of operators",
		Args:  term.ExactArgs(0, "add"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenAdd(a))
	return cmd
}

func newTokenAdd(a *serve.App) *cobra.Command {
	var role string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "add NAME --role viewer|operator|admin",
		Short: "Create a token for a person or a program, and print it once",
		Long: "Create a token for a person or a program, and print it once: the controller keeps only its hash." +
			aboutAdmin,
		Example: "  edgespan-controller token add anna --role operator >anna.token",
		Args:    term.ExactArgs(1, "one NAME"),
	}
	r := bindReach(cmd)
	cmd.Flags().StringVar(&role, "role", string(pki.Viewer),
		"viewer reads, operator writes configuration, admin can do everything")
	cmd.Flags().DurationVar(&life, "life", 0, "validity of the token (default: unlimited)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := pki.ParseRole(role); err != nil {
			return term.Usagef("--role: %w", err)
		}
		t := fleetapi.OperatorToken{Name: args[0], Role: fleetapi.Role(role)}
		if life > 0 {
			end := time.Now().Add(life).UTC()
			t.Expires = &end
		}
		return at(a, cmd, r, func(ctx context.Context, o adminClient) error {
			text, err := o.token(ctx, t)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, text)
			return err
		})
	}
	return cmd
}

func newInvite(a *serve.App) *cobra.Command {
	var life time.Duration
	var replace bool
	cmd := &cobra.Command{
		Use:   "invite NODE",
		Short: "Create a join token for a node, and print the command to run there",
		Long: "Create a join token for the name of a node, and print the command to run on the node. The token is valid " +
			"for one join." + aboutAdmin,
		Example: "  edgespan-controller invite ulm-1 --life 2h",
		Args:    term.ExactArgs(1, "one NODE"),
	}
	r := bindReach(cmd)
	cmd.Flags().DurationVar(&life, "life", 24*time.Hour, "validity of the token")
	cmd.Flags().BoolVar(&replace, "replace", false,
		"the node is a replacement machine: revoke the certificate of the old one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if life <= 0 {
			return term.Invalid("--life", life, "more than 0s")
		}
		return at(a, cmd, r, func(ctx context.Context, o adminClient) error {
			i, err := o.invite(ctx, args[0], life, replace)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, i.Command)
			return err
		})
	}
	return cmd
}
