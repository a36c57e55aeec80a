package fleetcli

import (
	"slices"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/layerscli"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/ops"
)

var topologyKinds = []string{"node", "link", "site"}

const topologyNames = "node|link|site NAME"

// topologySpecs are the commands for the topology.
var topologySpecs = []fleetSpec{{use: "topology", short: "Show and change the topology: nodes, links and sites",
	sub: []fleetSpec{
		{
			use: "get [" + topologyNames + "]", short: "Print the topology, or one entry of it, with what is currently alive",
			example: "  edgespan topology get\n  edgespan topology get node edge-1 -o yaml",
			args:    term.RangeArgs(0, 2, "none, or "+topologyNames), forms: documentForms, complete: completeTopology,
			run: getTopology,
		},
		{
			use: "import -f FILE", short: "Replace the topology by a topology file",
			example: "  edgespan topology import -f topology.json --dry-run",
			args:    term.FileArgs,
			forms:   tableForms, body: true, write: true,
			long: "Replace the whole topology. A node that is not in the file is removed with its layers." + aboutFleetWrites,
			run:  importTopology,
		},
		{
			use: "add node|link|site -f FILE|KEY=VALUE...", short: "Add a node, a link or a site",
			args: term.AtLeast(1, "node, link or site"),
			example: "  edgespan topology add node name=pop-3 site_name=roof mac_addr=02:00:00:00:00:03 node_type=DN " +
				"pop_node=true",
			forms: tableForms, body: true, write: true, complete: firstOf(topologyKinds...),
			run: func(c *fleetCall) error { return c.editTopology("add", 1) },
		},
		{
			use: "edit " + topologyNames + " -f FILE|KEY=VALUE...", short: "Merge values into a node, a link or a site",
			example: "  edgespan topology edit node edge-1 pop_node=true",
			args:    term.AtLeast(2, topologyNames),
			forms:   tableForms, body: true, write: true, complete: completeTopology,
			run: func(c *fleetCall) error { return c.editTopology("edit", 2) },
		},
		{
			use: "delete " + topologyNames, short: "Delete a node, a link or a site",
			example: "  edgespan topology delete link link-edge-1-edge-2",
			args:    term.ExactArgs(2, topologyNames),
			forms:   tableForms, write: true, complete: completeTopology,
			run: func(c *fleetCall) error { return c.editTopology("delete", 2) },
		},
		{
			use: "rename node|site NAME NEW", short: "Rename a node or a site with its layers and links",
			example: "  edgespan topology rename node edge-1 ulm-1",
			args:    term.ExactArgs(3, "node|site NAME NEW"),
			forms:   tableForms, write: true, complete: completeTopology,
			run: func(c *fleetCall) error { return c.editTopology("rename", 3) },
		},
	}}}

func completeTopology(a *reach.App, cmd *cobra.Command, args []string, typed string) []string {
	switch {
	case len(args) == 0:
		return topologyKinds
	case len(args) == 1 && args[0] == "node":
		return completeNodes(a, cmd, nil, typed)
	}
	return nil
}

func getTopology(c *fleetCall) error {
	var d ops.DocumentAnswer
	var err error
	switch len(c.args) {
	case 0:
		d, err = c.client.Topology(c.ctx)
	case 1:
		return term.Usagef("get: got 1 argument: must be none or %s", topologyNames)
	default:
		if err := topologyKind(c.args[0]); err != nil {
			return err
		}
		d, err = c.client.TopologyObject(c.ctx, c.args[0], c.args[1])
	}
	if err != nil {
		return err
	}
	return c.versioned(d)
}

func topologyKind(kind string) error {
	if !slices.Contains(topologyKinds, kind) {
		return term.NotOneOf("topology", kind, topologyKinds)
	}
	return nil
}

func importTopology(c *fleetCall) error {
	if c.file == "" {
		return term.Required("-f", "a file, or - for stdin")
	}
	o, err := layerscli.ReadObject(c.a.Streams, c.file)
	if err != nil {
		return err
	}
	return c.put(ops.SetTopology{Document: o})
}

// editTopology changes one entry, which the first named arguments identify.
func (c *fleetCall) editTopology(op string, named int) error {
	w := ops.EditTopology{Object: c.args[0], Op: op}
	if err := topologyKind(w.Object); err != nil {
		return err
	}
	if op == "rename" && w.Object == "link" {
		return term.Usagef("rename: a link cannot be renamed, its name follows from its nodes: must be node or site")
	}
	if named > 1 {
		w.Name = c.args[1]
	}
	if named > 2 {
		w.To = c.args[2]
	}
	if op == "add" || op == "edit" {
		var err error
		if w.Document, err = c.entry(c.args[named:]); err != nil {
			return err
		}
	}
	return c.put(w)
}

// entry reads an entry of the topology from -f or KEY=VALUE. It has no metadata: a VALUE is JSON, or else text.
func (c *fleetCall) entry(args []string) (config.Object, error) {
	if c.file != "" || len(args) == 0 {
		return c.overrides("", args)
	}
	return layerscli.Assignments(nil, args)
}
