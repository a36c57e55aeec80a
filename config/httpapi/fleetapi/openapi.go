package fleetapi

import (
	"reflect"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
)

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
