package fleetapi

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/rest"
)

// row is one route. Routing, roles, 405s, the checks of queries and bodies, the OpenAPI description and
// docs/protocol.md follow from the table. Own returns the layers that an If-Match applies to.
type row = rest.Route[*api, *call, func(*call) []history.Layer]

type param = rest.Param

var (
	anObject = reflect.TypeFor[config.Object]()
	written  = reflect.TypeFor[Written]()
	nothing  = reflect.TypeFor[Nothing]()
)

var (
	pMessage  = param{Name: "message", Summary: "why, for the history; at most 1000 characters"}
	pDryRun   = param{Name: "dryRun", Summary: "answer what would change, and store nothing", Form: rest.Flag}
	pReveal   = param{Name: "reveal", Summary: "secrets as they are; admins only, audited", Form: rest.Flag}
	pPaths    = param{Name: "paths", Summary: "keys joined by '.'; * matches any", Form: rest.PathList}
	pNodes    = param{Name: "nodes", Summary: "names; none: all", Form: rest.List}
	pVersions = param{Name: "versions", Summary: "software, firmware or hardware versions; none: all", Form: rest.List}
	pBoards   = param{Name: "boards", Summary: "hardware board ids; none: all", Form: rest.List}
	pModify   = param{Name: "modify", Summary: "merge into the existing value instead of replacing it", Form: rest.Flag}
	pReplica  = param{Name: "replica", Summary: "the replica whose own part it is, for fields that replicas do not share"}
)

func required(p param) param { p.Required = true; return p }

// table lists all routes, in the order of docs/protocol.md.
var table = concat(nodeRows(), eventRows(), hardwareRows(), layerRows(), peerRows(), topologyRows(), e2eRows(),
	historyRows(), bisectRows(), otherRows())

func concat(lists ...[]row) []row {
	out := slices.Concat(lists...)
	for i := range out {
		r := &out[i]
		r.Status = cmp.Or(r.Status, http.StatusOK)
		if r.Effect == rest.Writes {
			r.Answer = written
			r.Query = append(r.Query, pMessage, pDryRun)
		}
		if r.Path[0] != '/' {
			r.Path = Prefix + r.Path
		}
		switch {
		case r.Own != nil:
			r.Headers = []param{{Name: "If-Match", Summary: `"REVISION" that the caller has seen, a list of them, or *`},
				{Name: "If-None-Match", Summary: "*: the resource must not exist yet"}}
		case r.Answer == anObject && r.Role != "":
			r.Headers = []param{{Name: "If-None-Match", Summary: "the ETag of what the caller has"}}
			r.Also = map[string]string{"304": "the resource matches If-None-Match"}
		}
	}
	return out
}

func nodeRows() []row {
	versions := []param{
		{Name: "sw", Summary: "as if the node ran this software version"},
		{Name: "fw", Summary: "as if the node ran this firmware version"},
		{Name: "board", Summary: "as if the node were this board"},
	}
	rows := []row{
		{Method: "GET", Path: "nodes", Role: Viewer, Summary: "all nodes", Query: []param{pLimit, pAfter},
			Answer: reflect.TypeFor[[]Node](), Serve: serveNodes},
		{Method: "GET", Path: "nodes/{node}", Role: Viewer, Summary: "everything known about one node",
			Answer: reflect.TypeFor[NodeDetail](), Serve: serveNode},
		{
			Method: "GET", Path: "nodes/{node}/config", Role: Viewer, Summary: "the effective config of one node",
			Query: append([]param{pPaths, pReveal}, versions...), Answer: anObject, Serve: serveConfig,
		},
		{
			Method: "GET", Path: "nodes/{node}/explain", Role: Viewer, Summary: "which layer set each value, when and by whom",
			Query:  []param{{Name: "path", Summary: "where; none: everything", Form: rest.OnePath}},
			Answer: reflect.TypeFor[[]Explanation](), Serve: serveExplain,
		},
		{Method: "GET", Path: "config", Role: Viewer, Summary: "parts of the effective configs of many nodes",
			Query: []param{pNodes, required(pPaths), pReveal, pLimit, pAfter}, Answer: anObject, Serve: servePaths},
		{
			Method: "POST", Path: "nodes/{node}/invite", Role: Admin, Summary: "create a join token for one name",
			Effect:  rest.Acts,
			Reveals: true,
			Query: []param{
				{Name: "life", Summary: "how long the token is valid, such as 24h", Form: rest.Duration},
				{Name: "replace", Summary: "revoke the certificate of the node that has the name", Form: rest.Flag},
			},
			Answer: reflect.TypeFor[Invitation](), Status: http.StatusCreated, Serve: serveInvite,
		},
		{
			Method: "POST", Path: "nodes/{node}/adopt", Role: Operator, Summary: "take over a node that has a config of its own",
			Effect: rest.Acts,
			Query: []param{{Name: "mode", Summary: "import: they become its node layer; replace: they may go", Required: true,
				Enum: []string{"import", "replace"}}},
			Answer: nothing, Serve: serveAdopt,
		},
	}
	for _, c := range []struct {
		cmd     Command
		role    Role
		summary string
	}{
		{Retry, Operator, "push again now, even what failed before"},
		{Release, Operator, "end a local hold"},
		{Confirm, Operator, "confirm the pending config by hand"},
		{Renew, Operator, "have a node renew its certificate now"},
		{Forget, Admin, "revoke the certificate of a node and forget that it joined; withdraw the invitation " +
			"of one that has not"},
	} {
		rows = append(rows, row{
			Method: "POST", Path: "nodes/{node}/" + string(c.cmd), Role: c.role, Summary: c.summary, Effect: rest.Acts,
			Answer: nothing, Serve: command(c.cmd),
		})
	}
	return append(rows, supportRow, shellRow)
}

var shellRow = row{
	Method: "POST", Path: "nodes/{node}/shell", Role: Operator,
	Summary: "one command of a debug shell on a connected node; audited", Effect: rest.Acts, Lines: true,
	Body: reflect.TypeFor[ShellCommand](), Answer: anObject, Serve: serveShell,
}

var supportRow = row{
	Method: "POST", Path: "nodes/{node}/support", Role: Operator,
	Summary: "a support archive of a connected node, without secrets; audited", Effect: rest.Acts, Zipped: true,
	Query: []param{
		{Name: "since", Summary: "how far to go back in log and events, such as 2h", Form: rest.Duration},
		{Name: "noLogs", Summary: "leave out the daemon's log", Form: rest.Flag},
		{Name: "flows", Summary: "include the end of the flow log; admins only", Form: rest.Flag},
	},
	Answer: reflect.TypeFor[string](), Serve: serveSupport,
}

func e2eRows() []row {
	var rows []row
	for _, file := range []string{"controller", "aggregator"} {
		layer := func(*call) []history.Layer { return []history.Layer{{Kind: history.E2E, Name: file}} }
		rows = append(rows,
			row{Method: "GET", Path: "e2e/" + file, Role: Viewer, Summary: "the config of the " + file, Query: []param{pReveal},
				Answer: anObject, Serve: serveE2E(file)},
			row{
				Method: "PUT", Path: "e2e/" + file, Role: Admin, Summary: "replace the config of the " + file, Effect: rest.Writes,
				Query: []param{pReplica}, Body: anObject, Own: layer, Serve: setE2E(file, false),
			},
			row{
				Method: "PATCH", Path: "e2e/" + file, Role: Admin, Summary: "merge into the config of the " + file,
				Effect: rest.Writes,
				Query:  []param{pReplica}, Body: anObject, Own: layer, Serve: setE2E(file, true),
			},
			row{Method: "GET", Path: "e2e/" + file + "/metadata", Role: Viewer,
				Summary: "the metadata of the parameters of the " + file, Answer: anObject, Serve: serveMetadata(file)},
			row{
				Method: "POST", Path: "e2e/" + file + "/actions", Role: Admin, Summary: "which actions of the " + file +
					" a config would trigger", Effect: rest.Acts,
				Query: []param{pModify, pReplica}, Body: anObject, Answer: written, Serve: previewE2E(file),
			},
		)
	}
	return rows
}

func historyRows() []row {
	return []row{
		{
			Method: "GET", Path: "history", Role: Viewer, Summary: "revisions, the newest first",
			Query: []param{
				{Name: "layer", Summary: "only those that wrote this layer, such as network or node/NAME"},
				{Name: "before", Summary: "older than this revision", Form: rest.Number},
				{Name: "limit", Summary: "how many at most, 50 by default, up to 1000", Form: rest.Number},
			},
			Answer: reflect.TypeFor[[]Edition](), Serve: serveHistory,
		},
		{
			Method: "GET", Path: "history/diff", Role: Viewer, Summary: "what changed between two revisions",
			Query: []param{{Name: "from", Summary: "0 means before the first", Form: rest.Number, Required: true},
				{Name: "to", Summary: "the newest if absent", Form: rest.Number}},
			Answer: reflect.TypeFor[[]LayerDiff](), Serve: serveDiff,
		},
		{Method: "GET", Path: "history/{revision}", Role: Viewer, Summary: "one revision and what it changed",
			Answer: reflect.TypeFor[EditionDetail](), Serve: serveRevision},
		{
			Method: "POST", Path: "history/{revision}/restore", Role: Operator,
			Summary: "restore layers; the controller's files and metadata need an admin",
			Effect:  rest.Writes,
			Query:   []param{{Name: "layers", Summary: "which, as network or node/NAME; none: all", Form: rest.List}},
			Serve:   serveRestore,
		},
		{
			Method: "POST", Path: "history/prune", Role: Admin,
			Summary: "delete the revisions before a time; the newest, and those of running rollouts, stay",
			Effect:  rest.Acts,
			Query: []param{{Name: "before",
				Summary: "a time like 2026-11-22T12:00:00Z, or an age like 2160h or 90d; at least an hour ago", Required: true},
				pDryRun},
			Answer: reflect.TypeFor[PrunedHistory](), Serve: servePrune,
		},
		{Method: "POST", Path: "history/{revision}/revert", Role: Operator,
			Summary: "undo one revision; the controller's files and metadata need an admin", Effect: rest.Writes,
			Serve: serveRevert},
		{Method: "GET", Path: "rollouts", Role: Viewer, Summary: "the latest changes and their progress",
			Answer: reflect.TypeFor[[]Rollout](), Serve: serveRollouts},
		{Method: "GET", Path: "rollouts/{revision}", Role: Viewer,
			Summary: "the progress of one revision", Answer: reflect.TypeFor[Rollout](),
			Serve: serveRollout},
		{Method: "GET", Path: "rollouts/{revision}/explain", Role: Viewer,
			Summary: "the decisions of a staged rollout, their reasons, and what comes next",
			Answer:  reflect.TypeFor[RolloutDetail](),
			Serve:   serveRolloutDetail},
		{Method: "POST", Path: "rollouts/{revision}/pause", Role: Operator,
			Summary: "pause a staged rollout after the current batch", Effect: rest.Acts, Answer: nothing,
			Serve: rolloutCommand(PauseRollout)},
		{Method: "POST", Path: "rollouts/{revision}/resume", Role: Operator, Summary: "continue after a pause or a halt",
			Effect: rest.Acts, Answer: nothing, Serve: rolloutCommand(ResumeRollout)},
		{Method: "POST", Path: "rollouts/{revision}/abort", Role: Operator,
			Summary: "end a staged rollout: nodes without the change keep what they have", Effect: rest.Acts, Answer: nothing,
			Serve: rolloutCommand(AbortRollout)},
		{Method: "POST", Path: "rollouts/{revision}/revert", Role: Operator,
			Summary: "end a staged rollout and revert its change, also in batches", Effect: rest.Acts, Answer: nothing,
			Serve: rolloutCommand(RevertRollout)},
	}
}

func otherRows() []row {
	return []row{
		{Method: "GET", Path: "metadata", Role: Viewer, Summary: "the metadata of a node's parameters", Answer: anObject,
			Serve: serveMetadata("node")},
		{Method: "GET", Path: "actions/{id}", Role: Viewer, Summary: "the nodes' answers to a preview",
			Answer: reflect.TypeFor[Preview](), Serve: servePreview},
		{Method: "GET", Path: "operators", Role: Admin, Summary: "the holders of tokens",
			Answer: reflect.TypeFor[[]OperatorToken](), Serve: serveOperators},
		{
			Method: "POST", Path: "operators", Role: Admin, Summary: "create a token; its text is shown only once",
			Effect:  rest.Acts,
			Reveals: true,
			Body:    reflect.TypeFor[OperatorToken](), Answer: reflect.TypeFor[NewOperator](), Status: http.StatusCreated,
			Serve: addOperator,
		},
		{Method: "DELETE", Path: "operators/{name}", Role: Admin, Summary: "revoke a token", Effect: rest.Acts,
			Answer: nothing,
			Serve:  removeOperator},
		{Method: "GET", Path: "loglevel", Role: Viewer, Summary: "the levels of this replica's log, by subsystem",
			Answer: reflect.TypeFor[LogLevels](), Serve: serveLogLevels},
		{
			Method: "POST", Path: "loglevel", Role: Admin,
			Summary: "change levels of this replica's log for a while", Effect: rest.Acts,
			Query: []param{{Name: "subsystem", Summary: "one of the list, or all", Required: true},
				{Name: "level", Summary: "debug, info, warn or error; reset ends a change at once", Required: true},
				{Name: "for", Summary: "how long, such as 1h; 10m if absent, 24h at most"}},
			Answer: reflect.TypeFor[LogLevels](), Serve: setLogLevel,
		},
		{Method: "POST", Path: "import", Role: Admin, Summary: "replace the layers by the original controller's files",
			Effect: rest.Writes,
			Body:   reflect.TypeFor[Files](), Whole: true, Serve: serveImport},
		{Method: "GET", Path: "export", Role: Viewer, Summary: "the original controller's files as of one revision",
			Query:  []param{pReveal},
			Answer: reflect.TypeFor[Exported](), Serve: serveExport},
		{
			Method: "GET", Path: "backup", Role: Admin,
			Summary: "the whole store, for `edgespan-controller restore`; audited", Reveals: true,
			Lines: true, Answer: reflect.TypeFor[backup.Header](), Serve: serveBackup,
		},
		{Method: "GET", Path: "/api/v1/openapi.json", Summary: "this description", Answer: anObject, Serve: serveOpenAPI},
		{Method: "GET", Path: "/livez", Summary: "whether the process answers", Answer: reflect.TypeFor[Alive](),
			Serve: serveLive},
		{Method: "GET", Path: "/readyz", Summary: "whether requests can be served", Answer: reflect.TypeFor[Alive](),
			Query: []param{{Name: "verbose", Summary: "with each check"}}, Serve: serveReady},
		{Method: "GET", Path: "/metrics", Role: Viewer, Summary: "the metrics of this replica, for Prometheus",
			Answer: reflect.TypeFor[string](), Text: true, Serve: serveMetrics},
	}
}

func serveOpenAPI(a *api, _ *call) (reply, error) {
	return a.described()
}

// describe returns the OpenAPI 3.1 document of a table.
func describe(rows []row, version string) config.Object {
	return rest.Describe(rest.Description{
		Info: config.Object{
			"title": "edgespan-controller", "version": version,
			"description": "The configuration of a fleet. A document's ETag is its revision; a write takes it in If-Match.",
		},
		Prefix: Prefix, Schemas: schemas, Errors: "Problem", Error: reflect.TypeFor[Problem](),
		Kind: "application/problem+json", Wrong: "what is wrong (RFC 9457)",
		Schemes: config.Object{"token": config.Object{"type": "http", "scheme": "bearer"}},
		Ways:    []string{"token"},
		Bodies:  []string{"application/json", "application/yaml"},
	}, rows)
}
