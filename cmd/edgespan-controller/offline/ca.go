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
		Long: `Rotate the CA of the fleet in three steps, with the controller of the folder stopped for each. After
each step ca.pem of this folder goes to all other controllers, and they start anew:

  next     make another CA and trust it; the old one goes on issuing. Wait until each node has
           renewed its certificate: two thirds of --node-certificate-days, and a tenth.
  switch   issue by the new one, trust both. Wait as long again.
  drop     trust the new one alone.

A node that was dark over the whole of a wait has to join anew. A CA from outside (--ca-cert) is
rotated by its files: the issuing certificate first, then all others that are trusted.`,
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
