package layerscli

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/topology"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
	"edgespan/platform/confdir"
)

// writing is one `layers set`, `modify` or `unset`.
type writing struct {
	selection
	op     override.Op
	layer  string
	dryRun bool
	output string
}

const aboutWrites = `

The file of --network or of --node is written, whole or not at all, and what it held is kept beside
it as FILE.bak. Before, the write is checked with all other layers that are named, for each node:
what is read-only or deprecated may not be added or changed, nodes must be in the --topology, the
effective config must hold to the --metadata and make sense as a whole. One node that would become
invalid refuses the whole write: exit code 4, one line for each fault, and the file stays as it is.
Faults that were there before do not count. A write to the network layer is checked on each node
that a file or the topology names.

What changes on which node is printed, with the actions that it takes; --dry-run does all but
writing. With --node-name the overrides are those of that node, without it they are {node: {…}}, and
the name of a node comes first in a KEY.`

// AboutKeys is the help text about KEY=VALUE.
const AboutKeys = `

A KEY is a path such as sysParams.managedConfig; quote a part that contains '.' or '=' with "". A
VALUE is a string if the metadata says STRING, else JSON, or a string if it is not valid JSON.`

func newLayersSet(a offline) *cobra.Command {
	return newWrite(a, override.Set, &cobra.Command{
		Use:   "set --layer network|node FILE|KEY=VALUE...",
		Short: "Replace the network layer or the layers of nodes",
		Long: "Replace the whole network layer, or the whole layer of each node that is named; {} clears it." + aboutWrites +
			AboutKeys,
		Example: `  edgespan layers set --layer node --node nodes.json --node-name pop-1 --metadata ` +
			`config_metadata.json popParams.POP_IFACE=nic2
  edgespan layers set --layer network --network network.json --base-dir base_versions new.json`,
		Args: term.AtLeast(1, "one FILE, or KEY=VALUE..."),
	})
}

func newLayersModify(a offline) *cobra.Command {
	return newWrite(a, override.Modify, &cobra.Command{
		Use:   "modify --layer network|node FILE|KEY=VALUE...",
		Short: "Merge values into the network layer or the layers of nodes",
		Long: "Merge into the network layer, or into the layer of each node that is named. An object is\nmerged, " +
			"everything else replaced; null is a value, and removes nothing (see unset)." +
			aboutWrites + AboutKeys,
		Example: `  edgespan layers modify --layer network --network network.json --metadata config_metadata.json ` +
			`sysParams.managedConfig=true
  edgespan layers modify --layer node --node nodes.json --dry-run -o json new.json`,
		Args: term.AtLeast(1, "one FILE, or KEY=VALUE..."),
	})
}

func newLayersUnset(a offline) *cobra.Command {
	return newWrite(a, override.Unset, &cobra.Command{
		Use:   "unset --layer network|node KEY...",
		Short: "Remove keys from the network layer or the layers of nodes",
		Long: "Remove keys, all of them or none. An object that becomes empty by it goes too. A key that\nis not there is " +
			"a fault. Without --node-name the name of a node alone removes its layer." +
			aboutWrites,
		Example: `  edgespan layers unset --layer network --network network.json sysParams.managedConfig`,
		Args:    term.AtLeast(1, "one KEY or more"),
	})
}

func newWrite(a offline, op override.Op, cmd *cobra.Command) *cobra.Command {
	w := &writing{op: op}
	cmd.RunE = func(_ *cobra.Command, args []string) error { return w.run(a, args) }
	w.bind(cmd)
	cmd.Flags().StringVar(&w.layer, "layer", "", "layer to write: network or node")
	cmd.Flags().BoolVar(&w.dryRun, "dry-run", false, "validate and print, and write nothing")
	term.OneOf(cmd, &w.output, "text", "json")
	return cmd
}

func (w *writing) run(a offline, args []string) error {
	layer, err := w.target()
	if err != nil {
		return err
	}
	files := append([]string{w.auto, w.network, w.node, w.topology, args[0]}, w.metadata...)
	if n := len(slices.DeleteFunc(files, func(f string) bool { return f != "-" })); n > 1 {
		return term.Usagef("-: given for %d files: only one of them can be stdin", n)
	}
	var m *metadata.Metadata
	if len(w.metadata) > 0 {
		if m, err = a.metadata(w.metadata); err != nil {
			return err
		}
	} else {
		a.Printf("--metadata: not given: types, ranges, read-only and deprecated keys are not checked")
	}
	change, err := w.change(a, m, layer, args)
	if err != nil {
		return err
	}
	world, err := w.world(a)
	if err != nil {
		return err
	}
	world.Metadata = m
	result, faults := override.Apply(world, change)
	if faults != nil {
		return faults
	}
	return w.finish(a, world, result)
}

// target returns the layer to write, whose file must be named.
func (w *writing) target() (layers.Layer, error) {
	file := map[string]string{"network": w.network, "node": w.node}[w.layer]
	switch {
	case w.layer != "network" && w.layer != "node":
		return 0, term.NotOneOf("--layer", w.layer, []string{"network", "node"})
	case file == "":
		return 0, term.Required("--"+w.layer, "the file to write")
	case file == "-":
		return 0, term.Usagef("--%s: is stdin: must be a file, because it is written", w.layer)
	case w.layer == "network":
		return layers.Network, nil
	}
	return layers.Node, nil
}

func (w *writing) file() string {
	if w.layer == "network" {
		return w.network
	}
	return w.node
}

// world reads everything that the write is checked with, and returns the faults of all files together.
func (w *writing) world(a offline) (override.Inputs, error) {
	world := override.Inputs{
		Kinds: map[string]layers.Set{}, Nodes: map[string]override.Node{},
		Sections: ops.Sections(),
	}
	s, err := w.base(a)
	if err != nil {
		return world, err
	}
	var faults [5]error
	if s.dir != nil {
		if world.Kinds[""], err = s.dir.Read(s.choice); err != nil {
			faults[0] = term.Unreadable(err)
		}
	}
	var auto, own map[string]config.Object
	world.Network, faults[1] = w.read(a, w.network)
	auto, faults[2] = w.readNodes(a, w.auto)
	own, faults[3] = w.readNodes(a, w.node)
	for node, o := range auto {
		world.Nodes[node] = override.Node{Auto: o}
	}
	for node, o := range own {
		world.Nodes[node] = override.Node{Auto: auto[node], Own: o}
	}
	var t *topology.Topology
	if w.topology != "" {
		t, faults[4] = a.topologyFile(w.topology)
	}
	if t != nil {
		world.InTopology = make(map[string]bool, len(t.Nodes))
		for _, n := range t.Nodes {
			world.InTopology[n.Name] = true
			world.Nodes[n.Name] = override.Node{Auto: auto[n.Name], Own: own[n.Name]}
		}
	}
	if _, known := world.Nodes[w.nodeName]; w.nodeName != "" && !known {
		world.Nodes[w.nodeName] = override.Node{}
	}
	return world, errors.Join(faults[:]...)
}

// read reads the file of a layer. The layer to be written may be missing.
func (w *writing) read(a offline, file string) (config.Object, error) {
	if file == "" {
		return nil, nil
	}
	o, err := ReadObject(a.Streams, file)
	if errors.Is(err, os.ErrNotExist) && file == w.file() && w.op != override.Unset {
		a.Printf("%s: not found", term.Printable(file))
		return nil, nil
	}
	return o, err
}

func (w *writing) readNodes(a offline, file string) (map[string]config.Object, error) {
	o, err := w.read(a, file)
	if err != nil {
		return nil, err
	}
	nodes, faults := layers.NodeLayers(o)
	if faults != nil {
		return nil, &confdir.Broken{File: file, Faults: faults}
	}
	return nodes, nil
}

// finish writes the layer and prints the changes.
func (w *writing) finish(a offline, world override.Inputs, r override.Result) error {
	for _, f := range r.Warnings {
		a.Printf("warning: %s", term.Printable(f.Error()))
	}
	if r.Changed && !w.dryRun {
		if err := w.write(world, r); err != nil {
			return err
		}
	}
	if err := w.show(a, r); err != nil {
		return err
	}
	file := term.Printable(w.file())
	switch {
	case !r.Changed:
		a.Printf("%s: no change: nothing written", file)
	case w.dryRun:
		a.Printf("%s: would be written", file)
	default:
		a.Printf("%s: written", file)
	}
	if r.Changed && len(r.Effects) == 0 {
		a.Printf("no effective config changes: other layers already have these values, or hide them")
	}
	return nil
}

func (w *writing) write(world override.Inputs, r override.Result) error {
	if w.layer == "network" {
		return confdir.WriteObject(w.network, r.Network)
	}
	nodes := map[string]config.Object{}
	for name, n := range world.Nodes {
		if n.Own != nil {
			nodes[name] = n.Own
		}
	}
	for name, o := range r.Nodes {
		if o == nil {
			delete(nodes, name)
		} else {
			nodes[name] = o
		}
	}
	return confdir.WriteNodes(w.node, nodes)
}

// show prints what changes on the nodes.
func (w *writing) show(a offline, r override.Result) error {
	if w.output == "json" {
		return a.PrintJSON(w.answer(r))
	}
	var b strings.Builder
	for _, x := range r.Effects {
		b.WriteString(effectText(x))
	}
	_, err := a.Out.Write([]byte(b.String()))
	return err
}
