package fleetcli

import (
	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/layerscli"
	"edgespan/cmd/term"
	"edgespan/config/fleet/ops"
)

// e2eSpecs are the commands for the controller's own config and the aggregator's.
var e2eSpecs = []fleetSpec{e2eSpec("controller"), e2eSpec("aggregator")}

func e2eSpec(file string) fleetSpec {
	return fleetSpec{use: file, short: "Read and change the config of the " + file + " itself", sub: []fleetSpec{
		{
			use: "get", short: "Print the config of the " + file, example: "  edgespan " + file + " get -o yaml",
			args: term.ExactArgs(0, ""), forms: documentForms,
			flags: bindReveal,
			run: func(c *fleetCall) error {
				d, err := c.client.E2E(c.ctx, file, c.reveal)
				if err != nil {
					return err
				}
				return c.versioned(d)
			},
		},
		{
			use: "set -f FILE|KEY=VALUE...", short: "Replace the config of the " + file,
			example: "  edgespan " + file + " set -f " + file + ".json --dry-run", args: cobra.ArbitraryArgs,
			forms: tableForms, body: true, write: true,
			long: "Replace the config of the " + file + ". It is validated against its metadata." + layerscli.AboutKeys,
			run:  func(c *fleetCall) error { return c.setE2E(file, false) },
		},
		{
			use: "modify -f FILE|KEY=VALUE...", short: "Merge values into the config of the " + file, args: cobra.ArbitraryArgs,
			forms: tableForms, body: true, write: true,
			long:    "Merge into the config of the " + file + ". It is validated against its metadata." + layerscli.AboutKeys,
			example: "  edgespan " + file + " modify flags.v=2 -m 'more words in the log'",
			run:     func(c *fleetCall) error { return c.setE2E(file, true) },
		},
		{
			use: "metadata", short: "Print the metadata of the config of the " + file,
			example: "  edgespan " + file + " metadata", args: term.ExactArgs(0, ""),
			forms: documentForms,
			run:   func(c *fleetCall) error { c.args = []string{file}; return getMetadata(c) },
		},
		{
			use:     "actions -f FILE|KEY=VALUE...",
			short:   "Show which actions a change of the config would cause",
			example: "  edgespan " + file + " actions flags.v=2",
			args:    cobra.ArbitraryArgs, forms: tableForms, body: true,
			flags: func(cmd *cobra.Command, c *fleetCall) {
				cmd.Flags().BoolVar(&c.set, "set", false, "replace the present config, as set does")
			},
			run: func(c *fleetCall) error { c.dryRun = true; return c.setE2E(file, !c.set) },
		},
	}}
}

func (c *fleetCall) setE2E(file string, modify bool) error {
	o, err := c.overrides(file, c.args)
	if err != nil {
		return err
	}
	return c.put(ops.SetE2E{File: file, Config: o, Modify: modify})
}
