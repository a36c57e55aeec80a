package fleetapi

import (
	"reflect"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/optimize"
	"edgespan/config/layers"
)

func layerRows() []row {
	get := func(l layers.Layer, summary string, query ...param) row {
		return row{
			method: "GET", path: "layers/" + l.String(), role: Viewer, summary: summary,
			query: append(query, pReveal), answer: anObject, serve: serveLayer(l),
		}
	}
	rows := []row{
		get(layers.Base, "base configs by software version", pVersions),
		get(layers.Firmware, "base configs by firmware version", pVersions),
		get(layers.Hardware, "base configs by board and version", pVersions, pBoards),
		get(layers.Auto, "what was assigned to nodes, by node", pNodes),
		get(layers.Network, "the overrides of the network"),
		get(layers.Node, "the overrides of nodes, by node", pNodes),
		{
			method: "DELETE", path: "layers/auto", role: Operator, summary: "clear what was assigned", effect: writes,
			query: []param{pNodes, must(pPaths)}, bound: autoOfQuery, serve: clearAuto,
		},
		{method: "GET", path: "layers/node/{node}", role: Viewer, summary: "the overrides of one node",
			query: []param{pReveal}, answer: anObject, serve: serveNodeLayer},
		{
			method: "DELETE", path: "layers/node/{node}", role: Operator,
			summary: "remove the overrides of one node, or keys of them", effect: writes,
			query: []param{pPaths}, bound: nodeOfPath, serve: unsetNode,
		},
	}
	rows = append(rows, overrideRows("layers/network", "the overrides of the network", network, setNetwork)...)
	rows = append(rows, overrideRows("layers/node", "the overrides of the nodes that are named", nodesOfBody, setNodes)...)
	rows = append(rows, overrideRows("layers/node/{node}", "the overrides of one node", nodeOfPath, setNode)...)
	rows = append(
		rows,
		row{
			method: "DELETE", path: "layers/network", role: Operator, summary: "remove single overrides of the network",
			effect: writes,
			query:  []param{must(pPaths)}, bound: network, serve: unset(layers.Network),
		},
		row{
			method: "DELETE", path: "layers/node", role: Operator,
			summary: "remove single overrides of nodes; a path begins with the node", effect: writes,
			query: []param{must(pPaths)}, bound: nodesOfKeys, serve: unset(layers.Node),
		},
	)
	for _, k := range []optimize.Kind{optimize.Polarity, optimize.Golay, optimize.Channel, optimize.Superframe} {
		rows = append(rows, row{
			method: "POST", path: "optimize/" + kindWord(k), role: Operator, summary: "assign " + kindWord(k), effect: writes,
			query: []param{{name: "clearUser", summary: "take values that users set out of the node layer", form: flag}},
			bound: autoOfQuery, serve: optimizeKind(k),
		})
	}
	return rows
}

// overrideRows are set, modify and the preview of both.
func overrideRows(path, what string, bound func(*call) []history.Layer, make writeOf) []row {
	return []row{
		{method: "PUT", path: path, role: Operator, summary: "replace " + what, effect: writes, body: anObject, bound: bound,
			serve: override(make, false)},
		{method: "PATCH", path: path, role: Operator, summary: "merge into " + what, effect: writes, body: anObject,
			bound: bound, serve: override(make, true)},
		{
			method: "POST", path: path + "/actions", role: Operator, summary: "ask the nodes which actions a change of " + what +
				" would entail", effect: acts,
			query: []param{pModify}, body: anObject, answer: reflect.TypeFor[Preview](), status: 202, serve: preview(make),
		},
	}
}

func topologyRows() []row {
	rows := []row{
		{method: "GET", path: "topology", role: Viewer, summary: "nodes, links and sites, with what is alive now",
			answer: anObject, serve: serveTopology},
		{method: "PUT", path: "topology", role: Operator, summary: "replace the topology", effect: writes, body: anObject,
			whole: true, bound: topo, serve: setTopology},
	}
	for _, object := range []string{"node", "link", "site"} {
		many := "topology/" + object + "s"
		rows = append(rows,
			row{method: "GET", path: many, role: Viewer, summary: "all " + object + "s of the topology", answer: anObject,
				serve: serveTopologyList(object)},
			row{method: "POST", path: many, role: Operator, summary: "add a " + object, effect: writes, body: anObject,
				bound: topo, serve: editTopology(object, "add")},
			row{method: "GET", path: many + "/{name}", role: Viewer, summary: "one " + object, answer: anObject,
				serve: serveTopologyObject(object)},
			row{method: "PATCH", path: many + "/{name}", role: Operator, summary: "edit a " + object, effect: writes,
				body: anObject, bound: topo, serve: editTopology(object, "edit")},
			row{method: "DELETE", path: many + "/{name}", role: Operator, summary: "delete a " + object, effect: writes,
				bound: topo, serve: editTopology(object, "delete")},
		)
		if object != "link" { // a link is named after its ends
			rows = append(rows, row{
				method: "POST", path: many + "/{name}/rename", role: Operator, summary: "give a " + object + " another name",
				effect: writes,
				body:   reflect.TypeFor[renaming](), bound: topo, serve: editTopology(object, "rename"),
			})
		}
	}
	return rows
}

// renaming is the body of a rename.
type renaming struct {
	To string `json:"to"`
}

// The layers that an If-Match is about.

func network(*call) []history.Layer { return []history.Layer{{Kind: history.Network}} }
func topo(*call) []history.Layer    { return []history.Layer{{Kind: history.Topology}} }

func nodeOfPath(c *call) []history.Layer {
	return []history.Layer{{Kind: history.Node, Name: c.values["node"]}}
}

func nodesOfBody(c *call) []history.Layer { return layersOf(history.Node, config.Keys(c.body)) }

func nodesOfKeys(c *call) []history.Layer {
	var names []string
	for _, k := range c.paths["paths"] {
		names = append(names, k[0])
	}
	return layersOf(history.Node, names)
}

// autoOfQuery has no name where all nodes are meant.
func autoOfQuery(c *call) []history.Layer {
	if len(c.lists["nodes"]) == 0 {
		return []history.Layer{{Kind: history.Auto}}
	}
	return layersOf(history.Auto, c.lists["nodes"])
}

func layersOf(kind history.Kind, names []string) []history.Layer {
	out := []history.Layer{} // not nil: If-Match is known here
	for _, n := range names {
		out = append(out, history.Layer{Kind: kind, Name: n})
	}
	return out
}
