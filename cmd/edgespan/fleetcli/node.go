package fleetcli

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/layerscli"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/layers"
)

// nodeLayers are the values of `node get --layer`: the node's own layers, the effective config, and the layers below
// that nodes share.
var nodeLayers = []string{"node", "auto", "full", "network", "base", "firmware", "hardware"}

// nodeSpecs are the commands below `node`, about single nodes in the controller. `node` without a subcommand runs the
// daemon.
var nodeSpecs = []fleetSpec{
	{
		use: "get NODE...", short: "Print the overrides or the whole config of a node",
		long: `Print one layer of a node: its own overrides (node, the default), those that the controller sets
by itself (auto), the base, firmware or hardware config that it gets, the network's overrides, or
the effective config merged from all of them (full). For several nodes, or without NODE for all of
them, the answer is {node: {…}}.

--paths selects parts; * matches any key. --sw, --fw and --board compute the config
for other versions than the node reported.`,
		example: `  edgespan node get pop-1 > pop-1.json && edgespan node set pop-1 -f pop-1.json
  edgespan node get pop-1 --layer full --paths sysParams.managedConfig,radioParamsBase.*`,
		args: cobra.ArbitraryArgs, forms: documentForms, complete: completeNodes, flags: bindNodeGet, run: getNodeConfig,
	},
	{
		use: "set [NODE] -f FILE|KEY=VALUE...", short: "Replace the overrides of a node; {} clears them",
		long: "Replace all overrides of a node, or without NODE those of each node in the file, {node: {…}}." +
			aboutFleetWrites + layerscli.AboutKeys,
		example: "  edgespan node set pop-1 popParams.POP_IFACE=nic2\n  edgespan node set -f nodes.json -m 'new sites'",
		args:    cobra.ArbitraryArgs, forms: tableForms, body: true, write: true, complete: firstNode,
		run: func(c *fleetCall) error { return c.setNode(false) },
	},
	{
		use: "modify [NODE] -f FILE|KEY=VALUE...", short: "Merge values into the overrides of a node",
		long: "Merge into the overrides of a node, or without NODE of each node of the file, {node: {…}}." +
			aboutFleetWrites + layerscli.AboutKeys,
		example: "  edgespan node modify pop-1 sysParams.managedConfig=false -m 'on the bench'",
		args:    cobra.ArbitraryArgs, forms: tableForms, body: true, write: true, complete: firstNode,
		run: func(c *fleetCall) error { return c.setNode(true) },
	},
	{
		use: "unset NODE KEY...", short: "Remove keys from the overrides of a node",
		example: "  edgespan node unset edge-1 ports.wan.cost sysParams.logLevel",
		long:    "Remove keys, all of them or none." + aboutFleetWrites,
		args:    term.AtLeast(2, "NODE KEY..."), forms: tableForms, write: true, complete: firstNode, run: unsetNode,
	},
	{
		use: "actions [NODE] -f FILE|KEY=VALUE...", short: "Ask a node which actions new overrides would cause",
		example: "  edgespan node actions edge-1 sysParams.logLevel=debug",
		long:    aboutPreview, args: cobra.ArbitraryArgs, forms: tableForms, body: true, complete: firstNode,
		flags: bindPreview,
		run: func(c *fleetCall) error {
			o, err := c.nodeOverrides()
			if err != nil {
				return err
			}
			return c.previewOf(ops.SetNodes{Overrides: o, Modify: !c.set})
		},
	},
	{
		use: "clear-auto [NODE...] --paths PATH,...", short: "Remove the values that the controller assigned (auto layer)",
		example: "  edgespan node clear-auto edge-1 --paths radioParamsOverride --dry-run",
		long:    "Remove paths from the auto overrides of the nodes, or of all nodes; '*' is all of them." + aboutFleetWrites,
		args:    cobra.ArbitraryArgs, forms: tableForms, write: true, complete: completeNodes, run: clearAuto,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().StringArrayVar(&c.paths, "paths", nil, "paths to remove, separated by ','; required")
		},
	},
}

func bindNodeGet(cmd *cobra.Command, c *fleetCall) {
	flags := cmd.Flags()
	flags.StringVar(&c.layer, "layer", nodeLayers[0], "layer: "+term.Joined(nodeLayers))
	flags.StringArrayVar(&c.paths, "paths", nil, "print only these paths, separated by ','")
	flags.StringVar(&c.software, "sw", "", "software version instead of the reported one")
	flags.StringVar(&c.firmware, "fw", "", "firmware version instead of the reported one")
	flags.StringVar(&c.board, "board", "", "hardware board instead of the reported one")
	bindReveal(cmd, c)
	// The only possible error is an undefined flag, and it is defined above.
	_ = cmd.RegisterFlagCompletionFunc("layer", cobra.FixedCompletions(nodeLayers, cobra.ShellCompDirectiveNoFileComp))
}

func getNodeConfig(c *fleetCall) error {
	if !slices.Contains(nodeLayers, c.layer) {
		return term.NotOneOf("--layer", c.layer, nodeLayers)
	}
	paths, err := splitPaths(c.paths)
	if err != nil {
		return err
	}
	versions := layers.Versions{Software: c.software, Firmware: c.firmware, Board: c.board}
	if versions != (layers.Versions{}) && (c.layer == "node" || c.layer == "auto" || c.layer == "network") {
		return term.Requires("--sw, --fw and --board", "--layer full, base, firmware or hardware: layer "+c.layer+
			" has no versions")
	}
	var d ops.DocumentAnswer
	switch {
	case c.layer != "full":
		d, err = c.nodeLayer(versions)
	case len(c.args) == 1:
		d, err = c.client.Config(c.ctx, ops.ConfigQuery{Node: c.args[0], Paths: paths, Versions: versions, Reveal: c.reveal})
		paths = nil // the paths are applied already
	case versions != (layers.Versions{}):
		return term.Usagef("--sw, --fw and --board: given with %s: must be with one NODE", term.Many(len(c.args), "node"))
	case len(paths) == 0:
		return term.Required("--paths", "for more than one NODE; without it name one NODE to print its whole config")
	default:
		d, err = c.client.Paths(c.ctx, ops.PathsQuery{Nodes: c.args, Paths: paths, Reveal: c.reveal})
		paths = nil
	}
	if err != nil {
		return err
	}
	if paths != nil {
		d.Object = c.cut(d.Object, paths)
	}
	return c.versioned(d)
}

// nodeLayer reads one layer of the named nodes.
func (c *fleetCall) nodeLayer(v layers.Versions) (ops.DocumentAnswer, error) {
	q := ops.LayerQuery{Reveal: c.reveal}
	switch c.layer {
	case "network":
		q.Layer = layers.Network
		return c.client.Layer(c.ctx, q)
	case "node", "auto":
		if q.Layer = layers.Node; c.layer == "auto" {
			q.Layer = layers.Auto
		}
		if c.layer == "node" && len(c.args) == 1 {
			return c.client.NodeLayer(c.ctx, c.args[0], c.reveal)
		}
		q.Nodes = c.args
		d, err := c.client.Layer(c.ctx, q)
		return c.only(d, err)
	}
	if len(c.args) != 1 {
		return ops.DocumentAnswer{}, term.Usagef("NODE: got %s: layer %s is printed for exactly one NODE",
			term.Many(len(c.args), "node"), c.layer)
	}
	return c.versionLayer(v)
}

// only returns the layer of the one named node out of {node: {…}}.
func (c *fleetCall) only(d ops.DocumentAnswer, err error) (ops.DocumentAnswer, error) {
	if err != nil || len(c.args) != 1 {
		return d, err
	}
	d.Object = below(d.Object, c.args[0])
	return d, nil
}

// versionLayer reads the base, firmware or hardware layer that the node gets with the given versions, which default to
// those that it reported.
func (c *fleetCall) versionLayer(v layers.Versions) (ops.DocumentAnswer, error) {
	node, err := c.client.Node(c.ctx, c.args[0])
	if err != nil {
		return ops.DocumentAnswer{}, err
	}
	v.Software, v.Firmware, v.Board = cmp.Or(v.Software, node.Software), cmp.Or(v.Firmware, node.Firmware),
		cmp.Or(v.Board, node.Board)
	q := ops.LayerQuery{Layer: layers.Base, Versions: []string{v.Software}}
	at, lacks := []string{v.Software}, v.Software == ""
	switch c.layer {
	case "firmware":
		q.Layer, q.Versions = layers.Firmware, []string{v.Firmware}
		at, lacks = []string{v.Firmware}, v.Firmware == ""
	case "hardware":
		q.Layer, q.Boards = layers.Hardware, []string{v.Board}
		at, lacks = []string{v.Board, v.Software}, v.Software == "" || v.Board == ""
	}
	if lacks {
		return ops.DocumentAnswer{},
			term.Usagef("node %s: has not reported the version that selects layer %s: give --sw, --fw or --board", node.Name,
				c.layer)
	}
	d, err := c.client.Layer(c.ctx, q)
	for _, key := range at {
		d.Object = below(d.Object, key)
	}
	return d, err
}

// below returns the object at a key, or an empty one.
func below(o config.Object, key string) config.Object {
	inner, _ := o[key].(config.Object)
	if inner == nil {
		return config.Object{}
	}
	return inner
}

// cut keeps the parts of a document that are at or below the paths; "*" matches every key. In a document of several
// nodes the paths are relative to each node.
func (c *fleetCall) cut(o config.Object, paths [][]string) config.Object {
	out := config.Object{}
	for _, p := range paths {
		if len(c.args) != 1 && c.layer != "network" {
			p = config.Below([]string{"*"}, p...)
		}
		for _, at := range matching(o, nil, p) {
			v, _ := config.Lookup(o, at)
			out = config.Set(out, at, v)
		}
	}
	return out
}

// matching returns the paths in a document that match a pattern.
func matching(v any, at, pattern []string) [][]string {
	if len(pattern) == 0 {
		return [][]string{at}
	}
	o, ok := v.(config.Object)
	if !ok {
		return nil
	}
	var out [][]string
	for _, k := range config.Keys(o) {
		if pattern[0] == "*" || pattern[0] == k {
			out = append(out, matching(o[k], config.Below(at, k), pattern[1:])...)
		}
	}
	return out
}

// nodeOverrides returns the overrides of the command line as {node: {…}}. The first argument is the node, unless it
// is missing or a KEY=VALUE.
func (c *fleetCall) nodeOverrides() (config.Object, error) {
	args := c.args
	if len(args) == 0 {
		return c.overrides("node", nil)
	}
	if _, _, assigns := layerscli.CutAssignment(args[0]); assigns && c.file == "" {
		return nil, term.Invalid("NODE", args[0], "the name of a node, before KEY=VALUE")
	}
	o, err := c.overrides("node", args[1:])
	if err != nil {
		return nil, err
	}
	return config.Object{args[0]: o}, nil
}

func (c *fleetCall) setNode(modify bool) error {
	o, err := c.nodeOverrides()
	if err != nil {
		return err
	}
	return c.put(ops.SetNodes{Overrides: o, Modify: modify})
}

func unsetNode(c *fleetCall) error {
	paths, err := keys(c.args[1:])
	if err != nil {
		return err
	}
	for i, p := range paths {
		paths[i] = config.Below([]string{c.args[0]}, p...)
	}
	return c.put(ops.Unset{Layer: layers.Node, Keys: paths})
}

func clearAuto(c *fleetCall) error {
	paths, err := splitPaths(c.paths)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return term.Required("--paths", "paths separated by ',', or '*' for all of them")
	}
	return c.put(ops.ClearAuto{Nodes: c.args, Paths: paths})
}
