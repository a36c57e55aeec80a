package fleetapi

import (
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/optimize"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
	"edgespan/pubsub/loglevel"
)

// write calls the backend with the revisions that the write requires.
func (a *api) write(c *call, w ops.Write) (reply, error) {
	bound, err := a.ifMatch(c)
	if err != nil {
		return reply{}, err
	}
	done, err := a.backend.Write(c.Context(), WriteRequest{
		Caller: c.Caller, Write: w, Message: c.texts["message"], IfMatch: bound, DryRun: c.flags["dryRun"],
	})
	r, err := answer(done, err)
	if done.Changed && !done.DryRun {
		r.Revision = done.Revision
	}
	return r, err
}

// writeOf makes the write for a call.
type writeOf func(c *call, modify bool) ops.Write

func setNetwork(c *call, modify bool) ops.Write {
	return ops.SetNetwork{Overrides: c.body, Modify: modify}
}

func setNodes(c *call, modify bool) ops.Write {
	return ops.SetNodes{Overrides: c.body, Modify: modify}
}

func setNode(c *call, modify bool) ops.Write {
	return ops.SetNodes{Overrides: config.Object{c.values["node"]: c.body}, Modify: modify}
}

func override(make writeOf, modify bool) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) { return a.write(c, make(c, modify)) }
}

func preview(make writeOf) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		p, err := a.backend.Preview(c.Context(), WriteRequest{Caller: c.Caller, Write: make(c, c.flags["modify"])})
		r, err := answer(p, err)
		r.Add("Location", route("actions", p.ID))
		return r, err
	}
}

func unset(l layers.Layer) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		return a.write(c, ops.Unset{Layer: l, Keys: c.paths["paths"]})
	}
}

// unsetNode removes keys of one node, or all of them.
func unsetNode(a *api, c *call) (reply, error) {
	node := []string{c.values["node"]}
	keys := [][]string{node}
	if paths := c.paths["paths"]; len(paths) > 0 {
		keys = nil
		for _, p := range paths {
			keys = append(keys, config.Below(node, p...))
		}
	}
	return a.write(c, ops.Unset{Layer: layers.Node, Keys: keys})
}

func clearAuto(a *api, c *call) (reply, error) {
	return a.write(c, ops.ClearAuto{Nodes: c.lists["nodes"], Paths: c.paths["paths"]})
}

func setE2E(file string, modify bool) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		return a.write(c, ops.SetE2E{File: file, Config: c.body, Modify: modify, Replica: c.texts["replica"]})
	}
}

// previewE2E asks no node: the actions of the controller follow from its metadata.
func previewE2E(file string) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		c.flags["dryRun"], c.Entry.DryRun = true, true
		return a.write(c, ops.SetE2E{File: file, Config: c.body, Modify: c.flags["modify"], Replica: c.texts["replica"]})
	}
}

func optimizeKind(k optimize.Kind) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		return a.write(c, ops.Optimize{Kinds: []optimize.Kind{k}, ClearUser: c.flags["clearUser"]})
	}
}

func setTopology(a *api, c *call) (reply, error) {
	return a.write(c, ops.SetTopology{Document: c.body})
}

func editTopology(object, op string) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		w := ops.EditTopology{Object: object, Op: op, Name: c.values["name"]}
		if op == "rename" {
			w.To, _ = c.body["to"].(string)
		} else {
			w.Document = c.body
		}
		return a.write(c, w)
	}
}

func serveRestore(a *api, c *call) (reply, error) {
	n, err := c.revisionValue()
	if err != nil {
		return reply{}, err
	}
	w := ops.Restore{Revision: n}
	for _, text := range c.lists["layers"] {
		l, err := history.ParseLayer(text)
		if err != nil {
			return reply{}, rest.Refuse(rest.TypeBadRequest, "layers: %s", err)
		}
		w.Layers = append(w.Layers, l)
	}
	return a.write(c, w)
}

func serveRevert(a *api, c *call) (reply, error) {
	n, err := c.revisionValue()
	if err != nil {
		return reply{}, err
	}
	return a.write(c, ops.Revert{Revision: n})
}

func serveImport(a *api, c *call) (reply, error) {
	var files Files
	if err := c.decode(&files); err != nil {
		return reply{}, err
	}
	return a.write(c, ops.Import{Files: files.History()})
}

func command(cmd Command) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		return done(a.backend.Command(c.Context(), c.Caller, c.values["node"], cmd))
	}
}

func rolloutCommand(cmd RolloutCommand) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		n, err := c.rolloutValue()
		if err != nil {
			return reply{}, err
		}
		return done(a.backend.CommandRollout(c.Context(), c.Caller, n, cmd))
	}
}

func serveAdopt(a *api, c *call) (reply, error) {
	if c.texts["mode"] == "import" {
		return command(AdoptImport)(a, c)
	}
	return command(AdoptReplace)(a, c)
}

func serveInvite(a *api, c *call) (reply, error) {
	life, _ := time.ParseDuration(c.texts["life"]) // readQuery has checked it; absent is 0
	return answer(a.backend.Invite(c.Context(), c.Caller, c.values["node"], life, c.flags["replace"]))
}

func addOperator(a *api, c *call) (reply, error) {
	var t OperatorToken
	if err := c.decode(&t); err != nil {
		return reply{}, err
	}
	text, err := a.backend.AddOperator(c.Context(), c.Caller, t)
	r, err := answer(NewOperator{OperatorToken: t, Token: text}, err)
	r.Add("Location", route("operators", t.Name))
	return r, err
}

func removeOperator(a *api, c *call) (reply, error) {
	return done(a.backend.RemoveOperator(c.Context(), c.Caller, c.values["name"]))
}

// setLogLevel changes levels of the log for a while.
func setLogLevel(a *api, c *call) (reply, error) {
	to := loglevel.Change{Subsystem: c.texts["subsystem"], Level: c.texts["level"], By: c.Caller.Name}
	if text := c.texts["for"]; text != "" {
		var err error
		if to.For, err = time.ParseDuration(text); err != nil || to.For == 0 {
			to.For = -1
		}
	}
	if field, problem := a.levels.Check(to); field != "" {
		return reply{}, rest.Refuse(rest.TypeBadRequest, "%s: %s", field, problem)
	}
	a.levels.Set(to)
	return serveLogLevels(a, c)
}
