package offline

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/platform/datadir"
	"edgespan/platform/pki"
)

func newCA(a *serve.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Rotate the CA of the fleet",
		Long: `Rotate the CA of the fleet in three steps. Stop all controllers for each step, and copy ca.pem of this
folder to all others before they start again:

  next     create another CA and trust it; the old one still issues. Then wait until each node has
           renewed its certificate: nine tenths of --node-certificate-days.
  switch   issue with the new one, and trust both. Wait as long again.
  drop     trust only the new one.

A node that is away for the whole of a wait has to join again. Rotate an external CA (--ca-cert)
through its files: the issuing certificate first, then all others that are trusted.`,
		Args: term.ExactArgs(0, "next, switch or drop"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, step := range []struct {
		name, short, done string
		do                func(dir string) (pki.Pin, error)
	}{
		{"next", "Create the next CA, and trust it",
			"CA %s: trusted from the next start on; the old one keeps issuing",
			func(dir string) (pki.Pin, error) { return pki.NextCA(dir, time.Now()) }},
		{"switch", "Issue certificates by the next CA",
			"CA %s: issues from the next start on; the old one is still trusted", pki.SwitchCA},
		{"drop", "Trust only the new CA", "CA %s: the only one from the next start on", pki.DropCA},
	} {
		o := serve.NewOptions()
		one := &cobra.Command{Use: step.name, Short: step.short, Args: term.ExactArgs(0, ""),
			Example: "  edgespan-controller ca " + step.name + " --data-dir /var/lib/edgespan-controller"}
		o.BindStore(one)
		one.RunE = func(cmd *cobra.Command, _ []string) error {
			if err := o.Resolve(cmd, a.Env); err != nil {
				return err
			}
			if o.CACert != "" {
				return term.Usagef("--ca-cert: an external CA cannot be rotated here: replace its files instead")
			}
			dir, err := datadir.Open(string(o.DataDir))
			if err != nil {
				return err
			}
			pin, err := step.do(string(o.DataDir))
			if err != nil {
				return errors.Join(err, dir.Close())
			}
			a.Printf(step.done, pin)
			return dir.Close()
		}
		cmd.AddCommand(one)
	}
	return cmd
}
