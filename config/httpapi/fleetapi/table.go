package fleetapi

import (
	"net/http"
	"reflect"

	"edgespan/config"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
)

// row is one route. The table of all of them is what routing, roles, 405s, the checks of
// queries and bodies, the description (OpenAPI) and docs/protocol.md are made from.
type row struct {
	method  string
	path    string // a segment in {} stands for any text
	role    Role   // the least that may; "" is everybody, without a token
	summary string
	query   []param
	body    reflect.Type // nil: there is none
	whole   bool         // it may be the fleet's whole, with as many values
	answer  reflect.Type // config.Object: a document
	status  int          // of success
	effect  effect
	reveals bool // answers with a secret of its own, a token
	lines   bool // answers with lines of JSON, of which answer is the first
	events  bool // answers with server-sent events, each of which is answer
	// bound are the layers that an If-Match is about; nil: none.
	bound func(*call) []history.Layer
	serve func(*api, *call) (reply, error)
}

// effect is what a row does beside answering.
type effect int

const (
	reads  effect = iota
	acts          // on nodes, tokens or by asking nodes; it is no revision
	writes        // layers; takes message and dryRun
)

// form is what a parameter of a query may be.
type form int

const (
	text form = iota
	flag
	number
	duration
	list     // repeated, or separated by commas
	pathList // the same of paths
	onePath
)

type param struct {
	name, summary string
	form          form
	required      bool
	enum          []string
}

var (
	anObject = reflect.TypeFor[config.Object]()
	written  = reflect.TypeFor[Written]()
	nothing  = reflect.TypeFor[Nothing]()
)

var (
	pMessage  = param{name: "message", summary: "why, for the history; at most 1000 characters"}
	pDryRun   = param{name: "dryRun", summary: "say what would change and store nothing", form: flag}
	pReveal   = param{name: "reveal", summary: "secrets as they are; admins only, audited", form: flag}
	pPaths    = param{name: "paths", summary: "keys joined by '.'; * stands for any", form: pathList}
	pNodes    = param{name: "nodes", summary: "names; none: all", form: list}
	pVersions = param{name: "versions", summary: "software, firmware or hardware versions; none: all", form: list}
	pBoards   = param{name: "boards", summary: "hardware board ids; none: all", form: list}
	pModify   = param{name: "modify", summary: "merge into what is there instead of replacing it", form: flag}
	pReplica  = param{name: "replica", summary: "whose own part it is, for fields that replicas do not share"}
)

func must(p param) param { p.required = true; return p }

// table is all routes, in the order in which docs/protocol.md has them.
var table = concat(nodeRows(), hardwareRows(), layerRows(), peerRows(), topologyRows(), e2eRows(), historyRows(),
	otherRows())

func concat(lists ...[]row) []row {
	var out []row
	for _, l := range lists {
		for _, r := range l {
			if r.status == 0 {
				r.status = http.StatusOK
			}
			if r.effect == writes {
				r.answer = written
				r.query = append(r.query, pMessage, pDryRun)
			}
			if r.path[0] != '/' {
				r.path = Prefix + r.path
			}
			out = append(out, r)
		}
	}
	return out
}

func nodeRows() []row {
	versions := []param{
		{name: "sw", summary: "as if the node ran this software version"},
		{name: "fw", summary: "as if the node ran this firmware version"},
		{name: "board", summary: "as if the node were this board"},
	}
	rows := []row{
		{method: "GET", path: "nodes", role: Viewer, summary: "all nodes", query: []param{pLimit, pAfter},
			answer: reflect.TypeFor[[]Node](), serve: serveNodes},
		{method: "GET", path: "nodes/{node}", role: Viewer, summary: "all that is known of one node",
			answer: reflect.TypeFor[NodeDetail](), serve: serveNode},
		{
			method: "GET", path: "nodes/{node}/config", role: Viewer, summary: "the effective config of one node",
			query: append([]param{pPaths, pReveal}, versions...), answer: anObject, serve: serveConfig,
		},
		{
			method: "GET", path: "nodes/{node}/explain", role: Viewer, summary: "which layer set each value, when and by whom",
			query:  []param{{name: "path", summary: "where; none: everything", form: onePath}},
			answer: reflect.TypeFor[[]Explanation](), serve: serveExplain,
		},
		{method: "GET", path: "config", role: Viewer, summary: "parts of the effective configs of many nodes",
			query: []param{pNodes, must(pPaths), pReveal, pLimit, pAfter}, answer: anObject, serve: servePaths},
		{
			method: "POST", path: "nodes/{node}/invite", role: Admin, summary: "open a join token for one name", effect: acts,
			reveals: true,
			query: []param{
				{name: "life", summary: "how long the token lives, as 24h", form: duration},
				{name: "replace", summary: "revoke the certificate of the node that has the name", form: flag},
			},
			answer: reflect.TypeFor[Invitation](), status: http.StatusCreated, serve: serveInvite,
		},
		{
			method: "POST", path: "nodes/{node}/adopt", role: Operator, summary: "take over a node that runs objects of its own",
			effect: acts,
			query: []param{{name: "mode", summary: "import: they become its node layer; replace: they may go", required: true,
				enum: []string{"import", "replace"}}},
			answer: nothing, serve: serveAdopt,
		},
	}
	for _, c := range []struct {
		cmd     Command
		role    Role
		summary string
	}{
		{Retry, Operator, "push again what failed before, now"},
		{Release, Operator, "end a config that is held locally"},
		{Confirm, Operator, "confirm the pending config by hand"},
		{Renew, Operator, "have a node renew its certificate now"},
		{Forget, Admin, "revoke the certificate of a node and forget that it joined"},
	} {
		rows = append(rows, row{
			method: "POST", path: "nodes/{node}/" + string(c.cmd), role: c.role, summary: c.summary, effect: acts,
			answer: nothing, serve: command(c.cmd),
		})
	}
	return rows
}

func e2eRows() []row {
	var rows []row
	for _, file := range []string{"controller", "aggregator"} {
		layer := func(*call) []history.Layer { return []history.Layer{{Kind: history.E2E, Name: file}} }
		rows = append(rows,
			row{method: "GET", path: "e2e/" + file, role: Viewer, summary: "the config of the " + file, query: []param{pReveal},
				answer: anObject, serve: serveE2E(file)},
			row{
				method: "PUT", path: "e2e/" + file, role: Admin, summary: "replace the config of the " + file, effect: writes,
				query: []param{pReplica}, body: anObject, bound: layer, serve: setE2E(file, false),
			},
			row{
				method: "PATCH", path: "e2e/" + file, role: Admin, summary: "merge into the config of the " + file, effect: writes,
				query: []param{pReplica}, body: anObject, bound: layer, serve: setE2E(file, true),
			},
			row{method: "GET", path: "e2e/" + file + "/metadata", role: Viewer,
				summary: "what describes the parameters of the " + file, answer: anObject, serve: serveMetadata(file)},
			row{
				method: "POST", path: "e2e/" + file + "/actions", role: Admin, summary: "which actions of the " + file +
					" a config would entail", effect: acts,
				query: []param{pModify, pReplica}, body: anObject, answer: written, serve: previewE2E(file),
			},
		)
	}
	return rows
}

func historyRows() []row {
	return []row{
		{
			method: "GET", path: "history", role: Viewer, summary: "revisions, the newest first",
			query: []param{
				{name: "layer", summary: "only those that wrote this layer, as network or node/NAME"},
				{name: "before", summary: "older than this revision", form: number},
				{name: "limit", summary: "at most so many, 50 if absent, at most 1000", form: number},
			},
			answer: reflect.TypeFor[[]Edition](), serve: serveHistory,
		},
		{
			method: "GET", path: "history/diff", role: Viewer, summary: "what changed between two revisions",
			query: []param{{name: "from", summary: "0 is before the first", form: number, required: true},
				{name: "to", summary: "the newest if absent", form: number}},
			answer: reflect.TypeFor[[]LayerDiff](), serve: serveDiff,
		},
		{method: "GET", path: "history/{revision}", role: Viewer, summary: "one revision and what it changed",
			answer: reflect.TypeFor[EditionDetail](), serve: serveRevision},
		{
			method: "POST", path: "history/{revision}/restore", role: Operator,
			summary: "bring layers back to what they were; files of the controller and metadata are an admin's", effect: writes,
			query: []param{{name: "layers", summary: "which, as network or node/NAME; none: all", form: list}},
			serve: serveRestore,
		},
		{
			method: "POST", path: "history/prune", role: Admin,
			summary: "forget the revisions of before a time; the newest, and those of rollouts that go on, stay", effect: acts,
			query: []param{{name: "before",
				summary: "a time as 2026-11-22T12:00:00Z, or an age as 2160h or 90d; an hour ago at the latest", required: true},
				pDryRun},
			answer: reflect.TypeFor[PrunedHistory](), serve: servePrune,
		},
		{method: "POST", path: "history/{revision}/revert", role: Operator,
			summary: "undo what one revision did; files of the controller and metadata are an admin's", effect: writes,
			serve: serveRevert},
		{method: "GET", path: "rollouts", role: Viewer, summary: "the last changes on their way to the nodes",
			answer: reflect.TypeFor[[]Rollout](), serve: serveRollouts},
		{method: "GET", path: "rollouts/{revision}", role: Viewer,
			summary: "the change of one revision on its way to the nodes", answer: reflect.TypeFor[Rollout](),
			serve: serveRollout},
		{method: "GET", path: "rollouts/{revision}/explain", role: Viewer,
			summary: "what was decided of a staged rollout, why, and what comes next", answer: reflect.TypeFor[RolloutDetail](),
			serve: serveRolloutDetail},
		{method: "POST", path: "rollouts/{revision}/pause", role: Operator,
			summary: "hold a staged rollout after the batch that is out", effect: acts, answer: nothing,
			serve: rolloutCommand(PauseRollout)},
		{method: "POST", path: "rollouts/{revision}/resume", role: Operator, summary: "go on after a pause or a halt",
			effect: acts, answer: nothing, serve: rolloutCommand(ResumeRollout)},
		{method: "POST", path: "rollouts/{revision}/abort", role: Operator,
			summary: "end a staged rollout: who does not have the change keeps what it has", effect: acts, answer: nothing,
			serve: rolloutCommand(AbortRollout)},
		{method: "POST", path: "rollouts/{revision}/revert", role: Operator,
			summary: "end a staged rollout and take its change back, in batches too", effect: acts, answer: nothing,
			serve: rolloutCommand(RevertRollout)},
	}
}

func otherRows() []row {
	return []row{
		{method: "GET", path: "metadata", role: Viewer, summary: "what describes the parameters of a node", answer: anObject,
			serve: serveMetadata("node")},
		{method: "GET", path: "actions/{id}", role: Viewer, summary: "what the nodes have answered to a preview",
			answer: reflect.TypeFor[Preview](), serve: servePreview},
		{method: "GET", path: "operators", role: Admin, summary: "whom tokens belong to",
			answer: reflect.TypeFor[[]OperatorToken](), serve: serveOperators},
		{
			method: "POST", path: "operators", role: Admin, summary: "make a token; its text is told this once", effect: acts,
			reveals: true,
			body:    reflect.TypeFor[OperatorToken](), answer: reflect.TypeFor[NewOperator](), status: http.StatusCreated,
			serve: addOperator,
		},
		{method: "DELETE", path: "operators/{name}", role: Admin, summary: "revoke a token", effect: acts, answer: nothing,
			serve: removeOperator},
		{method: "POST", path: "import", role: Admin, summary: "make the layers what the seed's files say", effect: writes,
			body: reflect.TypeFor[Files](), whole: true, serve: serveImport},
		{method: "GET", path: "export", role: Viewer, summary: "the seed's files as of one revision", query: []param{pReveal},
			answer: reflect.TypeFor[Exported](), serve: serveExport},
		{
			method: "GET", path: "backup", role: Admin,
			summary: "all that the store has, as `edgespan-controller restore` takes it; audited", reveals: true,
			lines: true, answer: reflect.TypeFor[backup.Header](), serve: serveBackup,
		},
		{method: "GET", path: "/api/v1/openapi.json", summary: "this description", answer: anObject, serve: serveOpenAPI},
		{method: "GET", path: "/livez", summary: "whether the process answers", answer: reflect.TypeFor[Alive](),
			serve: serveLive},
		{method: "GET", path: "/readyz", summary: "whether requests can be served", answer: reflect.TypeFor[Alive](),
			serve: serveReady},
	}
}
