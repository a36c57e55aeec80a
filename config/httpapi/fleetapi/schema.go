package fleetapi

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"edgespan/config"
	"edgespan/config/events"
	"edgespan/config/httpapi/rest"
)

// schemas are the schemas of enumerations, and of the chain of an event, whose type refers to itself.
var schemas = rest.Schemas{
	reflect.TypeFor[Role](): rest.Enum(Viewer, Operator, Admin),
	reflect.TypeFor[[]events.Event](): {"type": "array", "items": config.Object{"type": "object"},
		"description": "events as this one, without chains"},
}

// schemaOf returns the schema of a type without references.
func schemaOf(t reflect.Type) config.Object { return schemas.Of(t, nil) }

// checkSchema returns the faults of a value against a schema without references.
func checkSchema(s config.Object, v any, path []string) config.Faults {
	var faults config.Faults
	kind, _ := s["type"].(string)
	whole := kind == "number" && typeName(v) == "integer" // an integer is a number
	if kind != "" && kind != typeName(v) && !whole {
		faults.Add(path, config.InvalidType(typeName(v)), config.MustBe(kind)) // without the value: it may be secret
		return faults
	}
	if values, has := s["enum"].([]any); has && !slices.Contains(values, v) {
		texts := make([]string, len(values))
		for i, one := range values {
			texts[i] = fmt.Sprint(one)
		}
		faults.Add(path, config.Invalid(fmt.Sprint(v)), config.OneOf(texts))
	}
	switch v := v.(type) {
	case []any:
		items, _ := s["items"].(config.Object)
		for i, one := range v {
			faults = append(faults, checkSchema(items, one, config.Below(path, fmt.Sprint(i)))...)
		}
	case config.Object:
		faults = append(faults, checkObject(s, v, path)...)
	case string:
		if s["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339, v); err != nil {
				faults.Add(path, config.Invalid(v), "must be a time such as 2006-01-02T15:04:05Z")
			}
		}
	case int64:
		if _, bounded := s["minimum"]; bounded && v < 0 {
			faults.Add(path, config.InvalidValue(fmt.Sprint(v)), "must be 0 or more")
		}
	}
	return faults
}

func checkObject(s, v config.Object, path []string) config.Faults {
	var faults config.Faults
	properties, _ := s["properties"].(config.Object)
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, there := v[name.(string)]; !there {
			faults.Add(config.Below(path, name.(string)), config.Required, "")
		}
	}
	for _, key := range config.Keys(v) {
		below, known := properties[key].(config.Object)
		if !known {
			switch more := s["additionalProperties"].(type) {
			case bool:
				faults.Add(config.Below(path, key), config.UnknownField, config.OneOf(config.Keys(properties)))
				continue
			case config.Object:
				below = more
			}
		}
		faults = append(faults, checkSchema(below, v[key], config.Below(path, key))...)
	}
	return faults
}

// typeName returns the JSON Schema type of a value.
func typeName(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case config.Object:
		return "object"
	}
	return "null"
}
