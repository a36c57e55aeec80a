package fleetapi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"edgespan/config"
)

// enums are the types that have few values.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[Role](): {string(Viewer), string(Operator), string(Admin)},
}

// component is the name of a type that the description has once, "" for what it has in place.
func component(t reflect.Type) string {
	if t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() {
		return strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	}
	return ""
}

// schemaOf is the JSON Schema (2020-12, as OpenAPI 3.1 has it) of a Go type, with everything
// in place.
func schemaOf(t reflect.Type) config.Object { return schema(t, nil) }

// schema is that of a type; ref, where it is there, names what stands among the components.
func schema(t reflect.Type, ref func(reflect.Type) config.Object) config.Object {
	if values, is := enums[t]; is {
		return config.Object{"type": "string", "enum": values}
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return config.Object{"type": "string", "format": "date-time"}
	case t == anything:
		return config.Object{}
	case t == anObject:
		return config.Object{"type": "object"}
	case component(t) != "" && ref != nil:
		return ref(t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return config.Object{"type": "boolean"}
	case reflect.String:
		return config.Object{"type": "string"}
	case reflect.Int:
		return config.Object{"type": "integer"}
	case reflect.Float64:
		return config.Object{"type": "number"}
	case reflect.Uint64, reflect.Uint32:
		return config.Object{"type": "integer", "minimum": int64(0)}
	case reflect.Pointer:
		return schema(t.Elem(), ref)
	case reflect.Slice:
		return config.Object{"type": "array", "items": schema(t.Elem(), ref)}
	case reflect.Array:
		n := int64(t.Len())
		return config.Object{"type": "array", "items": schema(t.Elem(), ref), "minItems": n, "maxItems": n}
	case reflect.Map:
		return config.Object{"type": "object", "additionalProperties": schema(t.Elem(), ref)}
	case reflect.Struct:
		return structSchema(t, ref)
	default:
		panic(fmt.Sprintf("%s has no form on the wire", t)) // found by the tests, which describe every row
	}
}

func structSchema(t reflect.Type, ref func(reflect.Type) config.Object) config.Object {
	properties, required := config.Object{}, []any{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() {
			continue
		}
		properties[name] = schema(f.Type, ref)
		if options != "omitempty" && options != "omitzero" {
			required = append(required, name)
		}
	}
	return config.Object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// checkSchema finds where a value is not what a schema in place says.
func checkSchema(s config.Object, v any, path []string) config.Faults {
	var faults config.Faults
	kind, _ := s["type"].(string)
	whole := kind == "number" && typeName(v) == "integer" // which is one
	if kind != "" && kind != typeName(v) && !whole {
		faults.Add(path, "is of the type "+typeName(v), kind+" is allowed") // never the value: it may be a secret
		return faults
	}
	if values, has := s["enum"].([]any); has && !slices.Contains(values, v) {
		texts := make([]string, len(values))
		for i, one := range values {
			texts[i] = fmt.Sprint(one)
		}
		faults.Add(path, "is "+config.Quote(fmt.Sprint(v)), config.OrList(texts)+" is allowed")
	}
	switch v := v.(type) {
	case []any:
		items, _ := s["items"].(config.Object)
		for i, one := range v {
			faults = append(faults, checkSchema(items, one, config.Sub(path, fmt.Sprint(i)))...)
		}
	case config.Object:
		faults = append(faults, checkObject(s, v, path)...)
	case string:
		if s["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339, v); err != nil {
				faults.Add(path, "is "+config.Quote(v), "a time as 2006-01-02T15:04:05Z is allowed")
			}
		}
	case int64:
		if _, bounded := s["minimum"]; bounded && v < 0 {
			faults.Add(path, fmt.Sprint("is ", v), "0 or more is allowed")
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
			faults.Add(config.Sub(path, name.(string)), "is missing", "it is required")
		}
	}
	for _, key := range config.Keys(v) {
		below, known := properties[key].(config.Object)
		if !known {
			switch more := s["additionalProperties"].(type) {
			case bool:
				faults.Add(config.Sub(path, key), "is unknown", strings.Join(config.Keys(properties), ", ")+" are allowed")
				continue
			case config.Object:
				below = more
			}
		}
		faults = append(faults, checkSchema(below, v[key], config.Sub(path, key))...)
	}
	return faults
}

// typeName is the JSON Schema type of a value.
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
