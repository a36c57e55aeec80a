package offline

import (
	"bufio"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/platform/datadir"
)

func newAudit(a *serve.App) *cobra.Command {
	o := serve.NewOptions()
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print the audit log: who did what, in order of time",
		Long: `Print who did what, in order of time: the lines of audit-admins.log, audit-operators.log and
audit.log of the data folder and of their older files, except compressed ones. It works whether a
controller runs on the folder or not. Each controller of a fleet has its own log in its folder.`,
		Args: term.ExactArgs(0, ""),
		Example: "  edgespan-controller audit --data-dir /var/lib/edgespan-controller --since 24h | jq 'select(.role == " +
			"\"admin\")'",
	}
	o.BindStore(cmd)
	cmd.Flags().DurationVar(&since, "since", 0, "show entries of this last period, such as 24h; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Resolve(cmd, a.Env); err != nil {
			return err
		}
		if since < 0 {
			return term.Invalid("--since", since, "0s or more")
		}
		return printAudit(a.Out, o.AuditFiles(), since)
	}
	return cmd
}

// printAudit prints the lines of files that are at most since old; 0 is all lines.
func printAudit(w io.Writer, paths []string, since time.Duration) error {
	out, from := bufio.NewWriter(w), time.Now().Add(-since)
	err := datadir.ReadAudit(paths, func(at time.Time, line []byte) error {
		if since > 0 && at.Before(from) {
			return nil
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
		return out.WriteByte('\n')
	})
	return errors.Join(err, out.Flush())
}
