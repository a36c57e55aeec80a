package fleetapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
	"edgespan/pubsub/loglevel"
)

// maxEditions is the maximum number of revisions in one answer, fewEditions the default.
const (
	maxEditions = 1000
	fewEditions = 50
)

func serveNodes(a *api, c *call) (reply, error) {
	nodes, err := a.backend.Nodes(c.Context())
	return answerPage(c, nodes, func(n Node) string { return n.Name }, err)
}

func serveNode(a *api, c *call) (reply, error) {
	return answer(a.backend.Node(c.Context(), c.values["node"]))
}

func serveConfig(a *api, c *call) (reply, error) {
	return answerDocument(a.backend.Config(c.Context(), ops.ConfigQuery{
		Node: c.values["node"], Paths: c.paths["paths"], Reveal: c.flags["reveal"],
		Versions: layers.Versions{Software: c.texts["sw"], Firmware: c.texts["fw"], Board: c.texts["board"]},
	}))
}

func servePaths(a *api, c *call) (reply, error) {
	q := ops.PathsQuery{Nodes: c.lists["nodes"], Paths: c.paths["paths"], Reveal: c.flags["reveal"],
		After: c.texts["after"]}
	if _, given := c.nums["limit"]; given {
		q.Limit = pageLimit(c)
	}
	d, err := a.backend.Paths(c.Context(), q)
	r, err := answerDocument(d, err)
	c.setNextLink(&r, "after", d.Next)
	return r, err
}

func serveExplain(a *api, c *call) (reply, error) {
	var path []string
	if given := c.paths["path"]; len(given) > 0 {
		path = given[0]
	}
	got, err := a.backend.Explain(c.Context(), c.values["node"], path)
	out := make([]Explanation, len(got))
	for i, e := range got {
		out[i] = Explanation{Path: config.FormatPath(e.Path), Value: e.Value, Origin: e.Origin.String(), By: by(e.By)}
		for _, s := range e.Shadowed {
			out[i].Shadowed = append(out[i].Shadowed,
				Shadow{Layer: s.Layer.String(), Path: config.FormatPath(s.Path), Value: s.Value, By: by(s.By)})
		}
	}
	return answer(out, err)
}

func by(r *history.RevisionRecord) *By {
	if r == nil {
		return nil
	}
	return &By{Number: r.Number, Author: r.Author, Time: r.Time, Message: r.Message}
}

func serveLayer(l layers.Layer) func(*api, *call) (reply, error) {
	release := answerDocument
	if l >= layers.Auto {
		release = answerVersioned
	}
	return func(a *api, c *call) (reply, error) {
		return release(a.backend.Layer(c.Context(), ops.LayerQuery{
			Layer: l, Nodes: c.lists["nodes"], Versions: c.lists["versions"], Boards: c.lists["boards"],
			Reveal: c.flags["reveal"],
		}))
	}
}

// serveNodeLayer answers with the overrides of one node, {} if it has none.
func serveNodeLayer(a *api, c *call) (reply, error) {
	node := c.values["node"]
	d, err := a.backend.Layer(c.Context(),
		ops.LayerQuery{Layer: layers.Node, Nodes: []string{node}, Reveal: c.flags["reveal"]})
	d.Object, _ = d.Object[node].(config.Object)
	d.Digest = "" // it belongs to {node: …}
	return answerVersioned(d, err)
}

func serveMetadata(of string) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		return answerDocument(a.backend.Metadata(c.Context(), of))
	}
}

func serveE2E(file string) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		return answerVersioned(a.backend.E2E(c.Context(), file, c.flags["reveal"]))
	}
}

func serveTopology(a *api, c *call) (reply, error) {
	return answerTopology(a.backend.Topology(c.Context()))
}

// answerTopology is never "not modified": liveness changes without a revision.
func answerTopology(d ops.DocumentAnswer, err error) (reply, error) {
	r, err := answerVersioned(d, err)
	r.Lively = true
	return r, err
}

func serveTopologyList(object string) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		d, err := a.backend.Topology(c.Context())
		all, _ := d.Object[object+"s"].([]any)
		if all == nil {
			all = []any{}
		}
		return answerTopology(ops.DocumentAnswer{Object: config.Object{object + "s": all}, Revision: d.Revision}, err)
	}
}

func serveTopologyObject(object string) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		d, err := a.backend.Topology(c.Context())
		if err != nil {
			return reply{}, err
		}
		all, _ := d.Object[object+"s"].([]any)
		for _, one := range all {
			if o, _ := one.(config.Object); o["name"] == c.values["name"] {
				return answerTopology(ops.DocumentAnswer{Object: o, Revision: d.Revision}, nil)
			}
		}
		return reply{}, &ops.NotFoundError{What: object + " " + c.values["name"]}
	}
}

func serveHistory(a *api, c *call) (reply, error) {
	q := HistoryQuery{Before: c.nums["before"], Limit: int(min(c.nums["limit"], maxEditions))}
	if text := c.texts["layer"]; text != "" {
		l, err := history.ParseLayer(text)
		if err != nil {
			return reply{}, rest.Refuse(rest.TypeBadRequest, "layer: %s", err)
		}
		q.Layer = &l
	}
	es, err := a.backend.History(c.Context(), q)
	r, err := answer(es, err)
	if n := len(es); n >= cmp.Or(q.Limit, fewEditions) && es[n-1].Number > 1 {
		c.setNextLink(&r, "before", strconv.FormatUint(es[n-1].Number, 10))
	}
	return r, err
}

func serveDiff(a *api, c *call) (reply, error) {
	to, given := c.nums["to"]
	if !given || to == 0 {
		newest, err := a.backend.History(c.Context(), HistoryQuery{Limit: 1})
		if err != nil {
			return reply{}, err
		}
		if to = 0; len(newest) > 0 {
			to = newest[0].Number
		}
	}
	return answer(a.diff(c.Context(), c.nums["from"], to))
}

func (a *api) diff(ctx context.Context, from, to uint64) ([]LayerDiff, error) {
	got, err := a.backend.Diff(ctx, from, to)
	out := make([]LayerDiff, len(got))
	for i, d := range got {
		out[i] = LayerDiff{Layer: d.Layer.String(), Before: d.Before.Revision, After: d.After.Revision}
		for _, v := range d.Values {
			out[i].Values = append(out[i].Values,
				Value{Path: config.FormatPath(v.Path), Old: v.Old, New: v.New, HadOld: v.HadOld, HasNew: v.HasNew})
		}
	}
	return out, err
}

// revisionValue returns the revision in the path of a call, at least 1.
func (c *call) revisionValue() (uint64, error) { return c.revisionFrom(1) }

// rolloutValue returns the revision of a rollout in the path. 0 is the rollout of changes before any write, such as
// those of a base version.
func (c *call) rolloutValue() (uint64, error) { return c.revisionFrom(0) }

func (c *call) revisionFrom(least uint64) (uint64, error) {
	text := c.values["revision"]
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n < least {
		return 0, rest.Refuse(rest.TypeBadRequest, "revision: invalid value %s: must be a number from %d", config.Quote(text),
			least)
	}
	return n, nil
}

func serveRevision(a *api, c *call) (reply, error) {
	n, err := c.revisionValue()
	if err != nil {
		return reply{}, err
	}
	es, err := a.backend.History(c.Context(), HistoryQuery{Before: n + 1, Limit: 1})
	if err != nil {
		return reply{}, err
	}
	if len(es) == 0 || es[0].Number != n {
		return reply{}, &history.NoRevisionError{Number: n}
	}
	changes, err := a.diff(c.Context(), n-1, n)
	return answer(EditionDetail{Edition: es[0], Changes: changes}, err)
}

func serveRollouts(a *api, c *call) (reply, error) {
	rs, err := a.backend.Rollouts(c.Context())
	for i := range rs {
		rs[i] = summaryOf(rs[i])
	}
	return answer(rs, err)
}

// maxNamed is how many nodes a rollout in a list names: the route of a single rollout names all.
const maxNamed = 100

// summaryOf shortens a rollout for a list.
func summaryOf(r Rollout) Rollout {
	r.FailedNodes, r.WaitingNodes = len(r.Failed), len(r.Waiting)
	r.Failed, r.Waiting = some(r.Failed), some(r.Waiting)
	return r
}

func some(all map[string]string) map[string]string {
	if len(all) <= maxNamed {
		return all
	}
	out := make(map[string]string, maxNamed)
	for _, name := range slices.Sorted(maps.Keys(all))[:maxNamed] {
		out[name] = all[name]
	}
	return out
}

func serveRollout(a *api, c *call) (reply, error) {
	n, err := c.rolloutValue()
	if err != nil {
		return reply{}, err
	}
	rs, err := a.backend.Rollouts(c.Context())
	if err != nil {
		return reply{}, err
	}
	for _, r := range rs {
		if r.Revision == n {
			r.FailedNodes, r.WaitingNodes = len(r.Failed), len(r.Waiting)
			return answer(r, nil)
		}
	}
	return reply{}, &ops.NotFoundError{What: fmt.Sprintf("rollout of revision %d", n), Allowed: "the last ones are kept"}
}

func serveRolloutDetail(a *api, c *call) (reply, error) {
	n, err := c.rolloutValue()
	if err != nil {
		return reply{}, err
	}
	return answer(a.backend.ExplainRollout(c.Context(), n))
}

func servePreview(a *api, c *call) (reply, error) {
	return answer(a.backend.PreviewResult(c.Context(), c.values["id"]))
}

func serveOperators(a *api, c *call) (reply, error) {
	return answer(a.backend.Operators(c.Context()))
}

func serveExport(a *api, c *call) (reply, error) {
	files, revision, err := a.backend.Export(c.Context(), c.flags["reveal"])
	return answer(Exported{Revision: revision, Files: FromHistory(files)}, err)
}

func serveBackup(a *api, c *call) (reply, error) {
	write, err := a.backend.Backup(c.Context(), a.Version)
	return reply{Stream: write, Kind: rest.JSONLines}, err
}

// serveSupport passes the archive of a node on as it comes. The flow log says who talked to whom: only admins get it.
func serveSupport(a *api, c *call) (reply, error) {
	q := nodeproto.SupportRequest{NoLogs: c.flags["noLogs"], Flows: c.flags["flows"], By: c.Caller.Name}
	if q.Flows && !c.Caller.Role.Includes(Admin) {
		return reply{}, rest.Refuse(rest.TypePermission, "flows: not permitted to a %s: an admin can", c.Caller.Role)
	}
	q.Since, _ = time.ParseDuration(c.texts["since"]) // readQuery has checked it; absent is 0
	archive, err := a.backend.Support(c.Context(), c.values["node"], q)
	return reply{Stream: archive.Write, Done: archive.Close, Kind: rest.ZippedArchive}, err
}

// ShellCommand is one command of a debug shell.
type ShellCommand struct {
	Op    string   `json:"op"`
	Args  []string `json:"args,omitempty"`
	Write bool     `json:"write,omitempty"`
}

// adminOps are the commands of a debug shell that only admins may give through the controller: they break something on
// purpose.
var adminOps = []string{"fault"}

// serveShell passes the answer of a node's shell on as it comes. The audit has the command.
func serveShell(a *api, c *call) (reply, error) {
	var q ShellCommand
	if err := c.decode(&q); err != nil {
		return reply{}, err
	}
	c.Entry.Message = strings.TrimSpace(q.Op + " " + strings.Join(q.Args, " "))
	if slices.Contains(adminOps, q.Op) && !c.Caller.Role.Includes(Admin) {
		return reply{}, rest.Refuse(rest.TypePermission, "%s: not permitted to a %s: an admin can", q.Op, c.Caller.Role)
	}
	frames, err := a.backend.Shell(c.Context(), c.values["node"],
		nodeproto.ShellRequest{Op: q.Op, Args: q.Args, Write: q.Write, By: c.Caller.Name})
	return reply{Stream: frames.Write, Done: frames.Close, Kind: rest.JSONLines, Live: true}, err
}

func serveLive(*api, *call) (reply, error) { return answer(Alive{Status: "ok"}, nil) }

// serveReady writes the reason to the log only, because the route needs no authentication.
func serveReady(a *api, c *call) (reply, error) {
	asked, err := a.ready.ask(a.backend)
	if err != nil {
		if asked { // one log line for each check, not for each request
			a.Failed(c.Method, c.Entry.Path, err)
		}
		p := rest.Refuse(rest.TypeBusy, "the controller is not ready; its log says why")
		p.Retry = 5 * time.Second
		if c.URL.Query().Has("verbose") {
			p.Errors = a.ready.verbose()
		}
		return reply{}, p
	}
	now := Alive{Status: "ok", Warnings: a.warnings()}
	if c.URL.Query().Has("verbose") {
		now.Checks = a.ready.verbose()
	}
	return answer(now, nil)
}

// LogLevels are the levels of a replica's log.
type LogLevels struct {
	Levels []loglevel.Setting `json:"levels"`
}

func serveLogLevels(a *api, _ *call) (reply, error) { return answer(LogLevels{a.levels.List()}, nil) }

func serveMetrics(a *api, c *call) (reply, error) {
	text, err := a.metrics(c.Context())
	if err != nil {
		return reply{}, fmt.Errorf("metrics: %w: %w", ErrBusy, err)
	}
	return reply{Kind: rest.MetricsText, Body: text}, nil
}
