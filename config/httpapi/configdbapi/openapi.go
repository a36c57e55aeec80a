package configdbapi

import (
	"reflect"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/httpapi/rest"
)

// schemas are the schemas that do not follow from the kind of a type.
var schemas = rest.Schemas{
	reflect.TypeFor[configdb.JSON](): {},
	reflect.TypeFor[Document]():      {"type": "object"},
	reflect.TypeFor[**int64]():       {"type": []any{"integer", "null"}},
	reflect.TypeFor[*int64]():        {"type": []any{"integer", "null"}},
	reflect.TypeFor[*string]():       {"type": []any{"string", "null"}},
}

func getOpenAPI(a *api, c *call) (reply, error) {
	return answer(describe(a.all, c.prefix, a.Version), nil)
}

// describe returns the OpenAPI 3.1 document of a table, below a prefix.
func describe(rows []row, prefix, version string) config.Object {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Path = "/" + rows[i].Path
	}
	return rest.Describe(rest.Description{
		Info: config.Object{
			"title": "ConfigDB of edgespan-controller", "version": version,
			"description": "Serialized facts. {levels} stands for any number of LEVEL/VALUE/, a prefix of the environment's " +
				"levels; it and {resource} may have slashes. overrides may be spelled override.",
		},
		Servers: []any{config.Object{"url": strings.TrimSuffix(prefix, "/")}},
		Schemas: schemas, Errors: "Error", Error: typeOf[Message](), Kind: "application/json", Wrong: "what is wrong",
		Schemes: config.Object{
			"token":    config.Object{"type": "http", "scheme": "bearer"},
			"basic":    config.Object{"type": "http", "scheme": "basic"},
			"keystone": config.Object{"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
		},
		Ways:   []string{"token", "basic", "keystone"},
		Bodies: []string{"application/json"}, Integers: []string{"component", "definition", "environment", "revision"},
		Lenient: true,
	}, rows)
}
