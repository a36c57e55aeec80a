package fleetapi

import (
	"reflect"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/optimize"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
)

func layerRows() []row {
	get := func(l layers.Layer, summary string, query ...param) row {
		return row{
			Method: "GET", Path: "layers/" + l.String(), Role: Viewer, Summary: summary,
			Query: append(query, pReveal), Answer: anObject, Serve: serveLayer(l),
		}
	}
	rows := []row{
		get(layers.Base, "base configs by software version", pVersions),
		get(layers.Firmware, "base configs by firmware version", pVersions),
		get(layers.Hardware, "base configs by board and version", pVersions, pBoards),
		get(layers.Auto, "assigned values, by node", pNodes),
		get(layers.Network, "the overrides of the network"),
		get(layers.Node, "the overrides of nodes, by node", pNodes),
		{
			Method: "DELETE", Path: "layers/auto", Role: Operator, Summary: "clear assigned values", Effect: rest.Writes,
			Query: []param{pNodes, required(pPaths)}, Own: autoOfQuery, Serve: clearAuto,
		},
		{Method: "GET", Path: "layers/node/{node}", Role: Viewer, Summary: "the overrides of one node",
			Query: []param{pReveal}, Answer: anObject, Serve: serveNodeLayer},
		{
			Method: "DELETE", Path: "layers/node/{node}", Role: Operator,
			Summary: "remove the overrides of one node, or keys of them", Effect: rest.Writes,
			Query: []param{pPaths}, Own: nodeOfPath, Serve: unsetNode,
		},
	}
	rows = append(rows, overrideRows("layers/network", "the overrides of the network", network, setNetwork)...)
	rows = append(rows, overrideRows("layers/node", "the overrides of the nodes named", nodesOfBody, setNodes)...)
	rows = append(rows, overrideRows("layers/node/{node}", "the overrides of one node", nodeOfPath, setNode)...)
	rows = append(
		rows,
		row{
			Method: "DELETE", Path: "layers/network", Role: Operator, Summary: "remove single overrides of the network",
			Effect: rest.Writes,
			Query:  []param{required(pPaths)}, Own: network, Serve: unset(layers.Network),
		},
		row{
			Method: "DELETE", Path: "layers/node", Role: Operator,
			Summary: "remove single overrides of nodes; a path begins with the node", Effect: rest.Writes,
			Query: []param{required(pPaths)}, Own: nodesOfKeys, Serve: unset(layers.Node),
		},
	)
	for _, k := range []optimize.Kind{optimize.Polarity, optimize.Golay, optimize.Channel, optimize.Superframe} {
		rows = append(rows, row{
			Method: "POST", Path: "optimize/" + kindWord(k), Role: Operator, Summary: "assign " + kindWord(k),
			Effect: rest.Writes,
			Query:  []param{{Name: "clearUser", Summary: "remove users' values from the node layer", Form: rest.Flag}},
			Own:    autoOfQuery, Serve: optimizeKind(k),
		})
	}
	return rows
}

// overrideRows are the routes to set, modify and preview overrides.
func overrideRows(path, what string, bound func(*call) []history.Layer, make writeOf) []row {
	return []row{
		{Method: "PUT", Path: path, Role: Operator, Summary: "replace " + what, Effect: rest.Writes, Body: anObject,
			Own:   bound,
			Serve: override(make, false)},
		{Method: "PATCH", Path: path, Role: Operator, Summary: "merge into " + what, Effect: rest.Writes, Body: anObject,
			Own: bound, Serve: override(make, true)},
		{
			Method: "POST", Path: path + "/actions", Role: Operator, Summary: "ask the nodes which actions a change of " + what +
				" would trigger", Effect: rest.Acts,
			Query: []param{pModify}, Body: anObject, Answer: reflect.TypeFor[Preview](), Status: 202, Serve: preview(make),
		},
	}
}

func topologyRows() []row {
	rows := []row{
		{Method: "GET", Path: "topology", Role: Viewer, Summary: "nodes, links and sites, with what is alive now",
			Answer: anObject, Serve: serveTopology},
		{Method: "PUT", Path: "topology", Role: Operator, Summary: "replace the topology", Effect: rest.Writes,
			Body:  anObject,
			Whole: true, Own: topo, Serve: setTopology},
	}
	for _, object := range []string{"node", "link", "site"} {
		many := "topology/" + object + "s"
		rows = append(rows,
			row{Method: "GET", Path: many, Role: Viewer, Summary: "all " + object + "s of the topology", Answer: anObject,
				Serve: serveTopologyList(object)},
			row{Method: "POST", Path: many, Role: Operator, Summary: "add a " + object, Effect: rest.Writes, Body: anObject,
				Own: topo, Serve: editTopology(object, "add")},
			row{Method: "GET", Path: many + "/{name}", Role: Viewer, Summary: "one " + object, Answer: anObject,
				Serve: serveTopologyObject(object)},
			row{Method: "PATCH", Path: many + "/{name}", Role: Operator, Summary: "edit a " + object, Effect: rest.Writes,
				Body: anObject, Own: topo, Serve: editTopology(object, "edit")},
			row{Method: "DELETE", Path: many + "/{name}", Role: Operator, Summary: "delete a " + object, Effect: rest.Writes,
				Own: topo, Serve: editTopology(object, "delete")},
		)
		if object != "link" { // a link is named after its ends
			rows = append(rows, row{
				Method: "POST", Path: many + "/{name}/rename", Role: Operator, Summary: "rename a " + object + "",
				Effect: rest.Writes,
				Body:   reflect.TypeFor[renaming](), Own: topo, Serve: editTopology(object, "rename"),
			})
		}
	}
	return rows
}

// renaming is the body of a rename.
type renaming struct {
	To string `json:"to"`
}

// The layers that an If-Match applies to.

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

// autoOfQuery returns one layer without a name if the query is for all nodes.
func autoOfQuery(c *call) []history.Layer {
	if len(c.lists["nodes"]) == 0 {
		return []history.Layer{{Kind: history.Auto}}
	}
	return layersOf(history.Auto, c.lists["nodes"])
}

func layersOf(kind history.Kind, names []string) []history.Layer {
	out := []history.Layer{} // not nil: If-Match is accepted
	for _, n := range names {
		out = append(out, history.Layer{Kind: kind, Name: n})
	}
	return out
}
