package configdbapi

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// row is one route. Routing, roles, 405s, the OpenAPI description and docs/configdb.md follow from the table. Own says
// what a node may do; routes of the seed or its implementations are lenient.
type row = rest.Route[*api, *call, nodeMay]

// param is one parameter of a query. A flag without a value is set.
type param = rest.Param

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

var (
	document = typeOf[Document]()
	keys     = typeOf[[][]configdb.JSON]()
	values   = typeOf[[]configdb.JSON]()
)

// The bodies of the routes. Other members are ignored where clients of the original send some.
type (
	// Document is values or overrides: any object.
	Document map[string]configdb.JSON

	// NewComponent creates a component.
	NewComponent struct {
		ID          *int64          `json:"id,omitempty"`
		Name        string          `json:"name"`
		Definitions []NewDefinition `json:"resource_definitions,omitempty"`
	}
	// NewDefinition creates a resource definition.
	NewDefinition struct {
		ID        *int64        `json:"id,omitempty"`
		Name      string        `json:"name"`
		Component *int64        `json:"component_id,omitempty"`
		Content   configdb.JSON `json:"content,omitempty"`
	}
	// ComponentEdit changes a component; Definitions replaces all its definitions.
	ComponentEdit struct {
		Name        *string `json:"name,omitempty"`
		Definitions *[]ByID `json:"resource_definitions,omitempty"`
	}
	// ByID identifies a definition.
	ByID struct {
		ID int64 `json:"id"`
	}
	// DefinitionEdit changes a definition. *Component nil removes it from its component.
	DefinitionEdit struct {
		Name      *string       `json:"name,omitempty"`
		Component **int64       `json:"component_id,omitempty"`
		Content   configdb.JSON `json:"content,omitempty"`
	}
	// NewEnvironment creates an environment; a component is an id or a name.
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
	// Secrets are the declared secret keys of a definition.
	Secrets struct {
		Secrets []string `json:"secrets"`
	}
	// NodeNames are the names of a node besides its id, and its values of the levels above its own. Missing levels do not
	// change.
	NodeNames struct {
		FQDN     string            `json:"fqdn,omitempty"`
		Certname string            `json:"certname,omitempty"`
		Levels   map[string]string `json:"levels,omitzero"`
	}
	// BulkBody is the new content of several resources of one place, by name or id.
	BulkBody struct {
		Resources map[string]BulkResource `json:"resources"`
	}
	// BulkResource is both halves of a record; a missing half does not change.
	BulkResource struct {
		Values    Document `json:"values,omitempty"`
		Overrides Document `json:"overrides,omitempty"`
	}
	// RollbackBody names the target: a version of the half, or a revision of the facts.
	RollbackBody struct {
		Version  uint64 `json:"version,omitempty"`
		Revision uint64 `json:"revision,omitempty"`
	}
	// PlaceRollback names the target revision of the facts.
	PlaceRollback struct {
		Revision uint64 `json:"revision"`
	}
	// LookupBody looks up several keys.
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
	// Done is the result of a dry run, and of a write on routes that the seed does not have.
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

// table lists all routes, in the order of docs/configdb.md.
var table = concat(componentRows(), definitionRows(), environmentRows(), halfRows(model.Values),
	halfRows(model.Overrides), placeRows(), historyRows())

func concat(lists ...[]row) []row {
	out := slices.Concat(lists...)
	for i := range out {
		r := &out[i]
		r.Status = cmp.Or(r.Status, http.StatusOK)
		if r.Effect == rest.Writes {
			r.Query = append(r.Query, param{Name: "message", Summary: "why, for the history; at most 1000 characters"},
				param{Name: "dryRun", Summary: "answer what would change, and store nothing", Form: rest.Flag})
		}
		switch {
		case r.Bound:
			r.Headers = []param{{Name: "If-Match", Summary: "the ETag that the caller has seen, a list of them, or *"}}
		case r.Method == "GET" && r.Answer == document:
			r.Headers = []param{{Name: "If-None-Match", Summary: "the ETag of what the caller has"}}
		case r.Events:
			r.Headers = []param{{Name: "Last-Event-ID", Summary: "the last event that the caller has received"}}
		}
		switch {
		case r.Method == "GET" && r.Answer == document:
			r.Also = map[string]string{"304": "the resource matches If-None-Match"}
		case r.Method == "PUT" && r.Body == document:
			r.Also = map[string]string{"308": "the resource is named: Location has its id"}
		}
	}
	return out
}

func rowsByPath() map[string][]*row {
	out := map[string][]*row{}
	for i := range table {
		out[table[i].Path] = append(out[table[i].Path], &table[i])
	}
	return out
}

// allow returns the methods of a path.
func (a *api) allow(path string) []string {
	var out []string
	for _, m := range []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"} {
		ok := m == "OPTIONS"
		for _, r := range a.rows[path] {
			ok = ok || r.Method == m || m == "HEAD" && r.Method == "GET" || m == "PATCH" && r.Patch
		}
		if ok {
			out = append(out, m)
		}
	}
	return out
}

func componentRows() []row {
	return []row{
		{Method: "GET", Path: toComponents, Role: Viewer, Lenient: true, Summary: "all components",
			Answer: typeOf[[]model.Component](), Serve: getComponents},
		{
			Method: "POST", Path: toComponents, Role: Admin, Lenient: true, Effect: rest.Writes,
			Summary: "create a component with its resource definitions",
			Body:    typeOf[NewComponent](), Answer: typeOf[model.Component](), Status: http.StatusCreated, Serve: postComponent,
		},
		{Method: "GET", Path: toComponent, Role: Viewer, Lenient: true, Summary: "one component",
			Answer: typeOf[model.Component](), Serve: getComponent},
		{
			Method: "PUT", Path: toComponent, Role: Admin, Lenient: true, Patch: true, Effect: rest.Writes,
			Status:  http.StatusNoContent,
			Body:    typeOf[ComponentEdit](),
			Summary: "rename a component, or replace its list of definitions: those left out are deleted", Serve: putComponent,
		},
		{Method: "DELETE", Path: toComponent, Role: Admin, Lenient: true, Effect: rest.Writes, Status: http.StatusNoContent,
			Summary: "delete a component with its definitions and their records", Serve: deleteComponent},
	}
}

func definitionRows() []row {
	rows := []row{
		{
			Method: "GET", Path: toDefinitions, Role: Viewer, Lenient: true, Summary: "all resource definitions",
			Answer: typeOf[[]model.Definition](),
			Query:  []param{{Name: "component_id", Summary: "only those of a component; empty: of none"}}, Serve: getDefinitions,
		},
		{
			Method: "POST", Path: toDefinitions, Role: Admin, Lenient: true, Effect: rest.Writes,
			Summary: "create a resource definition",
			Body:    typeOf[NewDefinition](), Answer: typeOf[model.Definition](), Status: http.StatusCreated,
			Serve: postDefinition,
		},
		{Method: "GET", Path: toDefinition, Role: Viewer, Lenient: true, Summary: "one resource definition",
			Answer: typeOf[model.Definition](), Serve: getDefinition},
		{
			Method: "PUT", Path: toDefinition, Role: Admin, Lenient: true, Patch: true, Effect: rest.Writes,
			Status:  http.StatusNoContent,
			Body:    typeOf[DefinitionEdit](),
			Summary: "change name, component or content of a definition", Serve: putDefinition,
		},
		{Method: "DELETE", Path: toDefinition, Role: Admin, Lenient: true, Effect: rest.Writes, Status: http.StatusNoContent,
			Summary: "delete a definition with its records", Serve: deleteDefinition},
		{Method: "GET", Path: toSecrets, Role: Viewer, Summary: "the secret keys of a resource",
			Answer: typeOf[Secrets](), Serve: getSecrets},
		{Method: "PUT", Path: toSecrets, Role: Admin, Effect: rest.Writes, Status: http.StatusNoContent,
			Summary: "declare the secret keys of a resource, by paths; * matches any key", Body: typeOf[Secrets](),
			Serve: putSecrets},
	}
	return append(rows, keysRows(toContentKeys, Admin, nodeNot, "the content of a definition", contentKeys)...)
}

// keysRows are the routes of the keys operations.
func keysRows(path string, role Role, node nodeMay, what string,
	serve func(configdb.KeysOp) func(*api, *call) (reply, error)) []row {
	reads := node
	if path == inResource+"overrides/keys/" {
		reads = nodeReads
	}
	return []row{
		{Method: "PUT", Path: path + "get", Role: Viewer, Own: min(reads, nodeReads), Lenient: true, Patch: true,
			Summary: "the values at paths of " + what, Body: keys, Answer: values, Serve: serve(configdb.KeysGet)},
		{
			Method: "PUT", Path: path + "set", Role: role, Own: node, Lenient: true, Patch: true, Effect: rest.Writes,
			Bound: path != toContentKeys, Status: http.StatusNoContent,
			Summary: "set keys of " + what + "; the last of each path is the value", Body: keys, Serve: serve(configdb.KeysSet),
		},
		{
			Method: "PUT", Path: path + "delete", Role: role, Own: node, Lenient: true, Patch: true, Effect: rest.Writes,
			Bound: path != toContentKeys, Status: http.StatusNoContent,
			Summary: "delete keys of " + what, Body: keys, Serve: serve(configdb.KeysDelete),
		},
	}
}

func environmentRows() []row {
	return []row{
		{Method: "GET", Path: toEnvironments, Role: Viewer, Lenient: true, Summary: "all environments",
			Answer: typeOf[[]model.Environment](), Serve: getEnvironments},
		{
			Method: "POST", Path: toEnvironments, Role: Admin, Lenient: true, Effect: rest.Writes,
			Summary: "create an environment with components and levels, from the least to the most specific",
			Body:    typeOf[NewEnvironment](), Answer: typeOf[model.Environment](), Status: http.StatusCreated,
			Serve: postEnvironment,
		},
		{Method: "GET", Path: toEnvironment, Role: Viewer, Lenient: true, Summary: "one environment",
			Answer: typeOf[model.Environment](), Serve: getEnvironment},
		{
			Method: "PUT", Path: toEnvironment, Role: Admin, Lenient: true, Patch: true, Effect: rest.Writes,
			Status:  http.StatusNoContent,
			Body:    typeOf[EnvironmentEdit](),
			Summary: "change components or levels of an environment; the data of a removed level is deleted",
			Serve:   putEnvironment,
		},
		{Method: "DELETE", Path: toEnvironment, Role: Admin, Lenient: true, Effect: rest.Writes, Status: http.StatusNoContent,
			Summary: "delete an environment with its records", Serve: deleteEnvironment},
		{Method: "GET", Path: toLevels, Role: Viewer, Lenient: true, Summary: "the levels of an environment and their values",
			Answer: typeOf[[]model.Level](), Serve: getLevels},
		{Method: "GET", Path: toLevel, Role: Viewer, Lenient: true, Summary: "one level, by id or name",
			Answer: typeOf[model.Level](), Serve: getLevel},
		{Method: "PUT", Path: toLevel, Role: Admin, Lenient: true, Patch: true, Effect: rest.Writes,
			Status:  http.StatusNoContent,
			Summary: "rename a level", Body: typeOf[LevelEdit](), Serve: putLevel},
		{Method: "GET", Path: toNodes, Role: Viewer, Summary: "the registered nodes of an environment",
			Answer: typeOf[[]model.Node](), Serve: getNodes},
		{Method: "GET", Path: toNode, Role: Viewer, Own: nodeItself, Summary: "one node, by any of its names",
			Answer: typeOf[model.Node](), Serve: getNode},
		{
			Method: "PUT", Path: toNode, Role: Admin, Own: nodeItself, Effect: rest.Writes, Status: http.StatusNoContent,
			Summary: "register a node with its other names, under which its data can be reached too, and with its values of " +
				"the levels above, which it can read", Body: typeOf[NodeNames](), Serve: putNode,
		},
		{Method: "DELETE", Path: toNode, Role: Admin, Effect: rest.Writes, Status: http.StatusNoContent,
			Summary: "remove a node from an environment", Serve: deleteNode},
	}
}

// halfRows are the routes of values or overrides. A node may upload values only: overrides belong to operators.
func halfRows(k model.Kind) []row {
	half, role, upload := halves[k], Operator, nodeWrites
	query := []param{
		{Name: "key", Summary: "one value, by its dotted path"},
		{Name: "version", Summary: "the Nth upload at this level", Form: rest.Number},
		{Name: "revision", Summary: "as of a revision of the facts", Form: rest.Number},
	}
	if k == model.Overrides {
		upload = nodeNot
	} else {
		query = append([]param{
			{Name: "effective", Summary: "merged over all levels of the path, with overrides; its presence counts",
				Form: rest.Flag},
			{Name: "show_lookup", Summary: "each top-level value with the level that won; with effective", Form: rest.Flag},
			{Name: "merge", Summary: "deep: with effective, merge hashes at any depth"},
		}, query...)
	}
	rows := []row{
		{Method: "GET", Path: half[""], Role: Viewer, Own: nodeReads, Lenient: true, Summary: string(k) + " of a resource",
			Query: query, Answer: document, Serve: getHalf},
		{
			Method: "PUT", Path: half[""], Role: role, Own: upload, Lenient: true, Effect: rest.Writes, Bound: true,
			Status:  http.StatusNoContent,
			Summary: "replace the " + string(k) + "; by name: 308", Body: document, Serve: putHalf,
		},
		{Method: "DELETE", Path: half[""], Role: role, Own: nodeNot, Effect: rest.Writes, Bound: true,
			Status:  http.StatusNoContent,
			Summary: "remove the " + string(k) + "; their versions stay", Serve: deleteHalf},
		{
			Method: "GET", Path: half["history"], Role: Viewer, Own: nodeReads, Summary: "the versions of the " + string(k) +
				", the newest first", Query: historyQuery,
			Answer: typeOf[[]model.Version](), Serve: getVersions,
		},
		{
			Method: "GET", Path: half["diff"], Role: Viewer, Own: nodeReads,
			Summary: "what changed between two versions, as a JSON Patch",
			Query: []param{{Name: "from", Summary: "a version; 0: nothing", Form: rest.Number},
				{Name: "to", Summary: "a version; none: the newest", Form: rest.Number}},
			Answer: typeOf[[]PatchOp](), Serve: getDiff,
		},
		{
			Method: "POST", Path: half["rollback"], Role: role, Own: upload, Effect: rest.Writes,
			Summary: "make an older version, or the state at a revision, the newest version",
			Body:    typeOf[RollbackBody](), Answer: typeOf[Done](), Serve: postRollback,
		},
	}
	return append(rows, keysRows(half["keys/get"][:len(half["keys/get"])-len("get")], role, upload, "the "+string(k),
		halfKeys)...)
}
