package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/platform/datadir"
	"edgespan/platform/pki"
)

// certificates are the settings of what the controller shows and issues.
type certificates struct {
	APICert, APIKey      text
	APITLS12             boolean
	NodeDays, ServerDays number
}

// monthly are how long certificates hold by themselves.
var monthly = certificates{NodeDays: 30, ServerDays: 30}

func (o *options) certificateSettings() []setting {
	return []setting{
		{"api-cert", &o.APICert,
			"PEM file of an outside certificate for the API, shown to clients that ask for one of its names, in place of " +
				"which they see the controller's own while it has ended or can't be read; read again when it changes", serving},
		{"api-key", &o.APIKey, "PEM file of its key", serving},
		{"api-tls12", &o.APITLS12, "let clients of the API speak TLS 1.2 too, as the original's do; nodes never do", serving},
		{"node-certificate-days", &o.NodeDays,
			"days that a node's certificate holds: a node that is dark for longer than a third of them has to join anew",
			storing},
		{"server-certificate-days", &o.ServerDays,
			"days that the controller's own certificate holds; it is made anew after two thirds", storing},
	}
}

// longestDays is what a certificate may hold at most: ten years.
const longestDays = 3650

func (o *options) checkCertificates(no func(format string, args ...any)) {
	if (o.APICert == "") != (o.APIKey == "") {
		no("--api-cert and --api-key: one without the other: both or none are allowed")
	}
	for name, days := range map[string]number{"node": o.NodeDays, "server": o.ServerDays} {
		if days < 1 || days > longestDays {
			no("--%s-certificate-days: is %d: 1 to %d are allowed", name, days, longestDays)
		}
	}
}

// pki are the options of the CA that o names.
func (o *options) pki(names []string, revoked *pki.Revocations) pki.Options {
	const day = 24 * time.Hour
	return pki.Options{
		Dir: string(o.DataDir), Outside: pki.Outside{Cert: string(o.CACert), Key: string(o.CAKey)}, Names: names,
		Revoked:  revoked,
		API:      pki.Files{Cert: string(o.APICert), Key: string(o.APIKey)},
		NodeLife: time.Duration(o.NodeDays) * day, ServerLife: time.Duration(o.ServerDays) * day,
	}
}

// warnings are what a person should look at though the controller serves. Anybody may read them.
func (s *service) warnings() (out []string) {
	if s.issuer.authority.APIFault() != nil {
		out = append(out, "--api-cert: the certificate has ended or can't be read; the controller's log says why")
	}
	if s.access.callers.Stale() != nil {
		out = append(out, "--client-crl-file: a list has ended; what its CA has revoked since is not known here")
	}
	return out
}

func newCA(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Another CA for the fleet",
		Long: `Another CA for the fleet, in three steps, with the controller of the folder ended for each. After
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
		{"next", "Make the CA that is to follow, and trust it",
			"the CA %s is trusted from the next start on; the old one goes on issuing",
			func(dir string) (pki.Pin, error) { return pki.NextCA(dir, time.Now()) }},
		{"switch", "Issue by the CA that is to follow",
			"the CA %s issues from the next start on; the old one is still trusted", pki.SwitchCA},
		{"drop", "Trust the new CA alone", "the CA %s is the only one from the next start on", pki.DropCA},
	} {
		o := newOptions()
		one := &cobra.Command{Use: step.name, Short: step.short, Args: term.ExactArgs(0, "none"),
			Example: "  edgespan-controller ca " + step.name + " --data-dir /var/lib/edgespan-controller"}
		o.bind(one, storing)
		one.RunE = func(cmd *cobra.Command, _ []string) error {
			if err := o.resolve(cmd, a.Env); err != nil {
				return err
			}
			if o.CACert != "" {
				return term.Usagef("--ca-cert: is given: an outside CA is rotated by its files")
			}
			dir, err := datadir.Open(string(o.DataDir))
			if err != nil {
				return err
			}
			pin, err := step.do(string(o.DataDir))
			if err != nil {
				return errors.Join(err, dir.Close())
			}
			a.Say(step.done, pin)
			return dir.Close()
		}
		cmd.AddCommand(one)
	}
	return cmd
}
