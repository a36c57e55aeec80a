package nodecli

import (
	"context"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// userName returns the name of the user, which is recorded as the holder of the node.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return "uid " + strconv.Itoa(os.Getuid())
	}
	return u.Username
}

func newConfirm(a commands) *cobra.Command {
	return a.word("confirm", "Confirm the config that waits for confirmation",
		"It exits 5 if no config of apply --confirm waits for confirmation.",
		func(ctx context.Context, c *nodeapi.Client) (string, error) {
			return "confirmed", c.Confirm(ctx)
		})
}

func newRollback(a commands) *cobra.Command {
	return a.word("rollback", "Roll back the config that waits for confirmation",
		"It exits 5 if no config waits for confirmation.",
		func(ctx context.Context, c *nodeapi.Client) (string, error) {
			return "rolling back to the previous config", c.Rollback(ctx)
		})
}

func newRelease(a commands) *cobra.Command {
	return a.word("release", "End a local hold, so that the controller manages the node again",
		"A hold begins with apply --local.",
		func(ctx context.Context, c *nodeapi.Client) (string, error) {
			held, err := c.Release(ctx)
			if held {
				return "released: the controller manages the node", err
			}
			return "no local hold", err
		})
}

// word returns a command that sends one request to the daemon; more is the end of its description.
func (a commands) word(name, short, more string,
	say func(context.Context, *nodeapi.Client) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: short + ".\n\n" + more, Example: "  edgespan " + name, Args: term.ExactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, c, done := a.Connect(cmd.Context())
			defer done()
			said, err := say(ctx, c)
			if err == nil {
				a.Printf("%s", said)
			}
			return err
		},
	}
}
