package fleetcli

import (
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/layerscli"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/optimize"
	"edgespan/config/layers"
)

const aboutFleetWrites = `

The controller validates the write for every node it affects; one fault rejects the whole write
(exit code 4, a line for each fault). Changes and actions are printed per node on stdout, warnings
and the new revision on stderr. --dry-run does everything but write.`

// layerSpecs are the commands for layers that belong to no single node.
var layerSpecs = []fleetSpec{
	{use: "network", short: "Read and change the network overrides of the controller", sub: []fleetSpec{
		{
			use: "get", short: "Print the network overrides",
			example: "  edgespan network get -o yaml",
			args:    term.ExactArgs(0, ""), forms: documentForms,
			flags: bindReveal, run: getNetwork,
		},
		{
			use: "set -f FILE|KEY=VALUE...", short: "Replace the network overrides; {} clears them",
			long:    "Replace the whole network layer; {} clears it." + aboutFleetWrites + layerscli.AboutKeys,
			example: "  edgespan network set -f network.json -m 'as agreed' --if-match 12",
			args:    cobra.ArbitraryArgs, forms: tableForms, body: true, write: true,
			run: func(c *fleetCall) error { return c.setNetwork(false) },
		},
		{
			use: "modify -f FILE|KEY=VALUE...", short: "Merge values into the network overrides",
			long: "Merge into the network layer: an object is merged, everything else replaced; null is a value." +
				aboutFleetWrites + layerscli.AboutKeys,
			example: "  edgespan network modify sysParams.managedConfig=true --dry-run",
			args:    cobra.ArbitraryArgs, forms: tableForms, body: true, write: true,
			run: func(c *fleetCall) error { return c.setNetwork(true) },
		},
		{
			use: "unset KEY...", short: "Remove keys from the network overrides",
			example: "  edgespan network unset sysParams.logLevel -m 'default log level again'",
			long:    "Remove keys, all of them or none." + aboutFleetWrites,
			args:    term.AtLeast(1, "one KEY or more"), forms: tableForms, write: true, run: unsetNetwork,
		},
		{
			use: "actions -f FILE|KEY=VALUE...", short: "Ask the nodes which actions new network overrides would cause",
			example: "  edgespan network actions sysParams.logLevel=debug\n  edgespan network actions -f network.json --set " +
				"--wait 30s",
			long: aboutPreview, args: cobra.ArbitraryArgs, forms: tableForms, body: true, flags: bindPreview,
			run: previewNetwork,
		},
	}},
	{use: "actions ID", short: "Show the nodes' answers to a preview of actions",
		example: "  edgespan actions 1b4e28ba-2fa1-4d7b-883f-0016d3cca427 --wait 10s",
		args:    term.ExactArgs(1, "the ID of a preview"), forms: tableForms, flags: bindTimeout, run: showActionsOf},
	{use: "base", short: "Print the base configs by software version", sub: []fleetSpec{{
		use: "get [VERSION...]", short: "Print the base configs, or those that versions get",
		long: `Print the base configs as {version: {…}}: all of them, or for each VERSION the
closest that is not newer.`,
		example: "  edgespan base get\n  edgespan base get RELEASE_M81 -o yaml",
		args:    cobra.ArbitraryArgs, forms: documentForms,
		run: func(c *fleetCall) error { return c.layerOf(ops.LayerQuery{Layer: layers.Base, Versions: c.args}) },
	}}},
	{use: "firmware", short: "Print the base configs by firmware version", sub: []fleetSpec{{
		use: "get [VERSION...]", short: "Print firmware configs by version",
		example: "  edgespan firmware get 10.11.0",
		args:    cobra.ArbitraryArgs,
		forms:   documentForms,
		run: func(c *fleetCall) error {
			return c.layerOf(ops.LayerQuery{Layer: layers.Firmware, Versions: c.args})
		},
	}}},
	{use: "hardware", short: "Print the base configs by hardware board", sub: []fleetSpec{{
		use: "get [BOARD...]", short: "Print hardware configs by board and version",
		example: "  edgespan hardware get NXP_LS1048A_PUMA",
		args:    cobra.ArbitraryArgs,
		forms:   documentForms,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().StringSliceVar(&c.versions, "versions", nil, "software versions (default: all)")
		},
		run: func(c *fleetCall) error {
			return c.layerOf(ops.LayerQuery{Layer: layers.Hardware, Boards: c.args, Versions: term.List(c.versions)})
		},
	}}},
	{use: "metadata", short: "Print the metadata of nodes, controller and aggregator",
		sub: []fleetSpec{{
			use: "get [node|controller|aggregator]", short: "Print metadata with its copy-blocks expanded",
			example: "  edgespan metadata get node",
			args:    term.RangeArgs(0, 1, "node, controller or aggregator"), forms: documentForms,
			complete: firstOf("node", "controller", "aggregator"), run: getMetadata,
		}}},
	{
		use:     "optimize polarity|golay|channel|control-superframe",
		short:   "Assign radio values to the nodes of the topology, into the auto layer",
		example: "  edgespan optimize polarity --dry-run\n  edgespan optimize channel -m 'new sector'",
		long: "Assign polarities, golay codes, channels or superframes for the topology, into the auto overrides." +
			aboutFleetWrites,
		args: term.ExactArgs(1, "polarity, golay, channel or control-superframe"), forms: tableForms, write: true,
		complete: firstOf(optimizations...), run: runOptimize,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().BoolVar(&c.clearUser, "clear-user", false,
				"remove users' values from the node layer instead of respecting them")
		},
	},
}

var optimizations = []string{"polarity", "golay", "channel", "control-superframe"}

func bindReveal(cmd *cobra.Command, c *fleetCall) {
	cmd.Flags().BoolVar(&c.reveal, "reveal", false, "show secrets in clear text; admins only, audited")
}

// firstOf completes the first argument with fixed words.
func firstOf(words ...string) completer {
	return func(_ *reach.App, _ *cobra.Command, args []string, _ string) []string {
		if len(args) > 0 {
			return nil
		}
		return words
	}
}

func (c *fleetCall) layerOf(q ops.LayerQuery) error {
	d, err := c.client.Layer(c.ctx, q)
	if err != nil {
		return err
	}
	return c.versioned(d)
}

// versioned prints a document, and on stderr the revision for --if-match.
func (c *fleetCall) versioned(d ops.DocumentAnswer) error {
	if err := c.document(d.Object); err != nil {
		return err
	}
	if d.Revision > 0 {
		c.a.Printf("revision %d", d.Revision)
	}
	return nil
}

func getNetwork(c *fleetCall) error {
	return c.layerOf(ops.LayerQuery{Layer: layers.Network, Reveal: c.reveal})
}

func (c *fleetCall) setNetwork(modify bool) error {
	o, err := c.overrides("node", c.args)
	if err != nil {
		return err
	}
	return c.put(ops.SetNetwork{Overrides: o, Modify: modify})
}

func unsetNetwork(c *fleetCall) error {
	paths, err := keys(c.args)
	if err != nil {
		return err
	}
	return c.put(ops.Unset{Layer: layers.Network, Keys: paths})
}

func previewNetwork(c *fleetCall) error {
	o, err := c.overrides("node", c.args)
	if err != nil {
		return err
	}
	return c.previewOf(ops.SetNetwork{Overrides: o, Modify: !c.set})
}

func getMetadata(c *fleetCall) error {
	of := strings.Join(append(c.args, "node")[:1], "")
	if of != "node" && of != "controller" && of != "aggregator" {
		return term.NotOneOf("metadata", of, []string{"node", "controller", "aggregator"})
	}
	d, err := c.client.Metadata(c.ctx, of)
	if err != nil {
		return err
	}
	return c.document(d.Object)
}

func runOptimize(c *fleetCall) error {
	kind := optimize.Kind(c.args[0])
	if c.args[0] == "control-superframe" {
		kind = optimize.Superframe
	}
	for _, known := range optimizations {
		if known == c.args[0] {
			return c.put(ops.Optimize{Kinds: []optimize.Kind{kind}, ClearUser: c.clearUser})
		}
	}
	return term.NotOneOf("optimize", c.args[0], optimizations)
}

// WriteDescriptors writes descriptors as one revision and prints the result.
func WriteDescriptors(a *reach.App, cmd *cobra.Command, docs []config.Object, message, output string, dry bool) error {
	call := &fleetCall{a: a, cmd: cmd, message: message, dryRun: dry, output: output}
	return call.get(cmd.Context(), func(c *fleetCall) error { return c.put(ops.Describe{Documents: docs}) })
}

// put sends a write and prints the result.
func (c *fleetCall) put(w ops.Write) error {
	o, err := c.writeOptions()
	if err != nil {
		return err
	}
	done, err := c.client.Write(c.ctx, w, o)
	if err != nil {
		return err
	}
	return c.written(done)
}
