package configdbapi

import (
	"net/http"
	"reflect"
	"strings"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
)

// row is one route. The table of all of them is what routing, roles, 405s, the description
// (OpenAPI) and docs/configdb.md are made from.
type row struct {
	method  string
	path    string
	role    Role    // the least that may
	node    nodeMay // what a node may with its certificate
	seed    bool    // a route of the seed's or its implementations': unknown parameters are ignored
	patch   bool    // PATCH does the same
	writes  bool    // takes message and dryRun, is audited
	bound   bool    // takes If-Match
	events  bool    // answers with server-sent events, each of which is answer
	summary string
	query   []param
	body    reflect.Type // nil: there is none
	answer  reflect.Type // nil: there is none
	status  int          // of success
	serve   func(*api, *call) (reply, error)
}

// param is one parameter of a query. A flag without a value is set.
type param struct{ name, summary, form string }

const (
	aText   = ""
	aNumber = "number"
	aFlag   = "flag"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

var (
	document = typeOf[Document]()
	keys     = typeOf[[][]configdb.JSON]()
	values   = typeOf[[]configdb.JSON]()
)

// The bodies of the routes. What a body has beside these is ignored where clients of the original
// send more.
type (
	// Document is values or overrides: any object.
	Document map[string]configdb.JSON

	// NewComponent is a component to be made.
	NewComponent struct {
		ID          *int64          `json:"id,omitempty"`
		Name        string          `json:"name"`
		Definitions []NewDefinition `json:"resource_definitions,omitempty"`
	}
	// NewDefinition is a resource definition to be made.
	NewDefinition struct {
		ID        *int64        `json:"id,omitempty"`
		Name      string        `json:"name"`
		Component *int64        `json:"component_id,omitempty"`
		Content   configdb.JSON `json:"content,omitempty"`
	}
	// ComponentEdit changes a component; the definitions are all that it has then.
	ComponentEdit struct {
		Name        *string `json:"name,omitempty"`
		Definitions *[]ByID `json:"resource_definitions,omitempty"`
	}
	// ByID names a definition.
	ByID struct {
		ID int64 `json:"id"`
	}
	// DefinitionEdit changes a definition. *Component nil takes it from its component.
	DefinitionEdit struct {
		Name      *string       `json:"name,omitempty"`
		Component **int64       `json:"component_id,omitempty"`
		Content   configdb.JSON `json:"content,omitempty"`
	}
	// NewEnvironment is an environment to be made; a component is an id or a name.
	NewEnvironment struct {
		ID         *int64          `json:"id,omitempty"`
		Components []configdb.JSON `json:"components"`
		Levels     []string        `json:"hierarchy_levels"`
		model.Nodes
	}
	// EnvironmentEdit changes an environment.
	EnvironmentEdit struct {
		Components *[]configdb.JSON `json:"components,omitempty"`
		Levels     *[]string        `json:"hierarchy_levels,omitempty"`

		SelfRegistration *bool `json:"self_registration,omitempty"`
		StrictNodes      *bool `json:"strict_nodes,omitempty"`
	}
	// LevelEdit renames a level.
	LevelEdit struct {
		Name string `json:"name"`
	}
	// Secrets are the declared keys of a definition.
	Secrets struct {
		Secrets []string `json:"secrets"`
	}
	// NodeNames are the names of a node beside its id, and the values that it has of levels above its own. Levels that
	// are not there stay as they are.
	NodeNames struct {
		FQDN     string            `json:"fqdn,omitempty"`
		Certname string            `json:"certname,omitempty"`
		Levels   map[string]string `json:"levels,omitzero"`
	}
	// BulkBody is what several resources of one place have then, by their names or ids.
	BulkBody struct {
		Resources map[string]BulkResource `json:"resources"`
	}
	// BulkResource is both halves of a record; one that is absent stays as it is.
	BulkResource struct {
		Values    Document `json:"values,omitempty"`
		Overrides Document `json:"overrides,omitempty"`
	}
	// RollbackBody says to what: a version of that half, or a revision of the facts.
	RollbackBody struct {
		Version  uint64 `json:"version,omitempty"`
		Revision uint64 `json:"revision,omitempty"`
	}
	// PlaceRollback says to what revision of the facts.
	PlaceRollback struct {
		Revision uint64 `json:"revision"`
	}
	// LookupBody asks for several keys.
	LookupBody struct {
		Keys            []string `json:"keys"`
		Resources       []string `json:"resources"`
		Merge           string   `json:"merge,omitempty"`
		KnockoutPrefix  string   `json:"knockout_prefix,omitempty"`
		SortMerged      bool     `json:"sort_merged_arrays,omitempty"`
		MergeHashArrays bool     `json:"merge_hash_arrays,omitempty"`
	}
	// Found is the value of a key.
	Found struct {
		Value configdb.JSON `json:"value"`
	}
	// Done is what came of a write of the routes that are ours, and of dryRun.
	Done struct {
		Revision uint64         `json:"revision"`
		Changed  bool           `json:"changed"`
		Changes  []model.Change `json:"changes"`
	}
	// PatchOp is one step of a difference (RFC 6902).
	PatchOp struct {
		Op    string        `json:"op"`
		Path  string        `json:"path"`
		Value configdb.JSON `json:"value,omitempty"`
	}
)

// table is all routes, in the order in which docs/configdb.md has them.
var table = concat(componentRows(), definitionRows(), environmentRows(), halfRows(model.Values),
	halfRows(model.Overrides), placeRows(), historyRows())

func concat(lists ...[]row) []row {
	var out []row
	for _, l := range lists {
		for _, r := range l {
			if r.status == 0 {
				r.status = http.StatusOK
			}
			if r.writes {
				r.query = append(r.query, param{"message", "why, for the history; at most 1000 characters", aText},
					param{"dryRun", "say what would change and store nothing", aFlag})
			}
			out = append(out, r)
		}
	}
	return out
}

func rowsByPath() map[string][]*row {
	out := map[string][]*row{}
	for i := range table {
		out[table[i].path] = append(out[table[i].path], &table[i])
	}
	return out
}

// allow are the methods of a path.
func (a *api) allow(path string) []string {
	var out []string
	for _, m := range []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"} {
		is := m == "OPTIONS"
		for _, r := range a.rows[path] {
			is = is || r.method == m || m == "HEAD" && r.method == "GET" || m == "PATCH" && r.patch
		}
		if is {
			out = append(out, m)
		}
	}
	return out
}

func (r *row) allowed() string {
	if len(r.query) == 0 {
		return "none is allowed"
	}
	names := make([]string, len(r.query))
	for i, p := range r.query {
		names[i] = p.name
	}
	return strings.Join(names, ", ") + " are allowed"
}

func componentRows() []row {
	return []row{
		{method: "GET", path: toComponents, role: Viewer, seed: true, summary: "all components",
			answer: typeOf[[]model.Component](), serve: getComponents},
		{
			method: "POST", path: toComponents, role: Admin, seed: true, writes: true,
			summary: "make a component with its resource definitions",
			body:    typeOf[NewComponent](), answer: typeOf[model.Component](), status: http.StatusCreated, serve: postComponent,
		},
		{method: "GET", path: toComponent, role: Viewer, seed: true, summary: "one component",
			answer: typeOf[model.Component](), serve: getComponent},
		{
			method: "PUT", path: toComponent, role: Admin, seed: true, patch: true, writes: true, status: http.StatusNoContent,
			body:    typeOf[ComponentEdit](),
			summary: "rename a component, or say which definitions it has: those left out are deleted", serve: putComponent,
		},
		{method: "DELETE", path: toComponent, role: Admin, seed: true, writes: true, status: http.StatusNoContent,
			summary: "delete a component with its definitions and their records", serve: deleteComponent},
	}
}

func definitionRows() []row {
	rows := []row{
		{
			method: "GET", path: toDefinitions, role: Viewer, seed: true, summary: "all resource definitions",
			answer: typeOf[[]model.Definition](),
			query:  []param{{"component_id", "only those of a component; empty: of none", aText}}, serve: getDefinitions,
		},
		{
			method: "POST", path: toDefinitions, role: Admin, seed: true, writes: true, summary: "make a resource definition",
			body: typeOf[NewDefinition](), answer: typeOf[model.Definition](), status: http.StatusCreated, serve: postDefinition,
		},
		{method: "GET", path: toDefinition, role: Viewer, seed: true, summary: "one resource definition",
			answer: typeOf[model.Definition](), serve: getDefinition},
		{
			method: "PUT", path: toDefinition, role: Admin, seed: true, patch: true, writes: true, status: http.StatusNoContent,
			body:    typeOf[DefinitionEdit](),
			summary: "change name, component or content of a definition", serve: putDefinition,
		},
		{method: "DELETE", path: toDefinition, role: Admin, seed: true, writes: true, status: http.StatusNoContent,
			summary: "delete a definition with its records", serve: deleteDefinition},
		{method: "GET", path: toSecrets, role: Viewer, summary: "the keys of a resource that are secret",
			answer: typeOf[Secrets](), serve: getSecrets},
		{method: "PUT", path: toSecrets, role: Admin, writes: true, status: http.StatusNoContent,
			summary: "declare the keys of a resource that are secret, by paths; * is any key", body: typeOf[Secrets](),
			serve: putSecrets},
	}
	return append(rows, keysRows(toContentKeys, Admin, nodeNot, "the content of a definition", contentKeys)...)
}

// keysRows are the keys operations of what.
func keysRows(path string, role Role, node nodeMay, what string,
	serve func(configdb.KeysOp) func(*api, *call) (reply, error)) []row {
	reads := node
	if path == inResource+"overrides/keys/" {
		reads = nodeReads
	}
	return []row{
		{method: "PUT", path: path + "get", role: Viewer, node: min(reads, nodeReads), seed: true, patch: true,
			summary: "the values at paths of " + what, body: keys, answer: values, serve: serve(configdb.KeysGet)},
		{
			method: "PUT", path: path + "set", role: role, node: node, seed: true, patch: true, writes: true,
			bound: path != toContentKeys, status: http.StatusNoContent,
			summary: "set keys of " + what + "; the last of each path is the value", body: keys, serve: serve(configdb.KeysSet),
		},
		{
			method: "PUT", path: path + "delete", role: role, node: node, seed: true, patch: true, writes: true,
			bound: path != toContentKeys, status: http.StatusNoContent,
			summary: "delete keys of " + what, body: keys, serve: serve(configdb.KeysDelete),
		},
	}
}

func environmentRows() []row {
	return []row{
		{method: "GET", path: toEnvironments, role: Viewer, seed: true, summary: "all environments",
			answer: typeOf[[]model.Environment](), serve: getEnvironments},
		{
			method: "POST", path: toEnvironments, role: Admin, seed: true, writes: true,
			summary: "make an environment of components and levels, from the least to the most narrow",
			body:    typeOf[NewEnvironment](), answer: typeOf[model.Environment](), status: http.StatusCreated,
			serve: postEnvironment,
		},
		{method: "GET", path: toEnvironment, role: Viewer, seed: true, summary: "one environment",
			answer: typeOf[model.Environment](), serve: getEnvironment},
		{
			method: "PUT", path: toEnvironment, role: Admin, seed: true, patch: true, writes: true, status: http.StatusNoContent,
			body:    typeOf[EnvironmentEdit](),
			summary: "change components or levels of an environment; what a level had that is gone is deleted",
			serve:   putEnvironment,
		},
		{method: "DELETE", path: toEnvironment, role: Admin, seed: true, writes: true, status: http.StatusNoContent,
			summary: "delete an environment with its records", serve: deleteEnvironment},
		{method: "GET", path: toLevels, role: Viewer, seed: true, summary: "the levels of an environment and their values",
			answer: typeOf[[]model.Level](), serve: getLevels},
		{method: "GET", path: toLevel, role: Viewer, seed: true, summary: "one level, by id or name",
			answer: typeOf[model.Level](), serve: getLevel},
		{method: "PUT", path: toLevel, role: Admin, seed: true, patch: true, writes: true, status: http.StatusNoContent,
			summary: "rename a level", body: typeOf[LevelEdit](), serve: putLevel},
		{method: "GET", path: toNodes, role: Viewer, summary: "the registered nodes of an environment",
			answer: typeOf[[]model.Node](), serve: getNodes},
		{method: "GET", path: toNode, role: Viewer, node: nodeItself, summary: "one node, by any of its names",
			answer: typeOf[model.Node](), serve: getNode},
		{
			method: "PUT", path: toNode, role: Admin, node: nodeItself, writes: true, status: http.StatusNoContent,
			summary: "register a node with its other names, each of which reaches its data, and with its values of the levels " +
				"above, which it may read", body: typeOf[NodeNames](), serve: putNode,
		},
		{method: "DELETE", path: toNode, role: Admin, writes: true, status: http.StatusNoContent,
			summary: "take a node from an environment", serve: deleteNode},
	}
}

// halfRows are those of values or overrides. A node uploads values only: overrides are people's.
func halfRows(k model.Kind) []row {
	half, role, upload := halves[k], Operator, nodeWrites
	query := []param{
		{"key", "one value, by its dotted path", aText},
		{"version", "that was uploaded as the Nth at this level", aNumber},
		{"revision", "as of a revision of the facts", aNumber},
	}
	if k == model.Overrides {
		upload = nodeNot
	} else {
		query = append([]param{
			{"effective", "merged over all levels of the path, with overrides; its presence counts", aFlag},
			{"show_lookup", "each top-level value with the level that won; with effective", aFlag},
			{"merge", "deep: with effective, hashes are merged at any depth", aText},
		}, query...)
	}
	rows := []row{
		{method: "GET", path: half[""], role: Viewer, node: nodeReads, seed: true, summary: string(k) + " of a resource",
			query: query, answer: document, serve: getHalf},
		{
			method: "PUT", path: half[""], role: role, node: upload, seed: true, writes: true, bound: true,
			status:  http.StatusNoContent,
			summary: "replace the " + string(k) + "; by name: 308", body: document, serve: putHalf,
		},
		{method: "DELETE", path: half[""], role: role, node: nodeNot, writes: true, bound: true, status: http.StatusNoContent,
			summary: "remove the " + string(k) + "; their versions stay", serve: deleteHalf},
		{
			method: "GET", path: half["history"], role: Viewer, node: nodeReads, summary: "the versions of the " + string(k) +
				", the newest first", query: historyQuery,
			answer: typeOf[[]model.Version](), serve: getVersions,
		},
		{
			method: "GET", path: half["diff"], role: Viewer, node: nodeReads,
			summary: "what changed between two versions, as a JSON Patch",
			query:   []param{{"from", "a version; 0: nothing", aNumber}, {"to", "a version; none: the newest", aNumber}},
			answer:  typeOf[[]PatchOp](), serve: getDiff,
		},
		{
			method: "POST", path: half["rollback"], role: role, node: upload, writes: true,
			summary: "make what a version was, or what stood at a revision, the newest version",
			body:    typeOf[RollbackBody](), answer: typeOf[Done](), serve: postRollback,
		},
	}
	return append(rows, keysRows(half["keys/get"][:len(half["keys/get"])-len("get")], role, upload, "the "+string(k),
		halfKeys)...)
}
