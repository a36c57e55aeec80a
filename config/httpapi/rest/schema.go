package rest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"edgespan/config"
)

// Schemas makes JSON Schemas (2020-12, as OpenAPI 3.1 has it) of Go types. It has those that
// do not follow from the type's kind, as of one that has few values.
type Schemas map[reflect.Type]config.Object

var anObject = reflect.TypeFor[config.Object]()

// Enum is the schema of a text of few values.
func Enum[T ~string](values ...T) config.Object {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return config.Object{"type": "string", "enum": list}
}

// Components names each type that an OpenAPI description has once: ref gives the reference to
// one, and puts its schema into components.
func (s Schemas) Components(components config.Object) (ref func(reflect.Type) config.Object) {
	return func(t reflect.Type) config.Object {
		name := component(t)
		if _, known := components[name]; !known {
			components[name] = true // it may name itself
			components[name] = s.ofStruct(t, s.Components(components))
		}
		return config.Object{"$ref": "#/components/schemas/" + name}
	}
}

// component is the name of a type that the description has once, "" for what it has in place.
func component(t reflect.Type) string {
	if t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() {
		return strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	}
	return ""
}

// Of is that of a type; ref, where it is there, names what stands among the components, else all
// stands in place.
func (s Schemas) Of(t reflect.Type, ref func(reflect.Type) config.Object) config.Object {
	if one, is := s[t]; is {
		return one
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return config.Object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[any]():
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
	case reflect.Int, reflect.Int64:
		return config.Object{"type": "integer"}
	case reflect.Float64:
		return config.Object{"type": "number"}
	case reflect.Uint64, reflect.Uint32:
		return config.Object{"type": "integer", "minimum": int64(0)}
	case reflect.Pointer:
		return s.Of(t.Elem(), ref)
	case reflect.Slice:
		return config.Object{"type": "array", "items": s.Of(t.Elem(), ref)}
	case reflect.Array:
		n := int64(t.Len())
		return config.Object{"type": "array", "items": s.Of(t.Elem(), ref), "minItems": n, "maxItems": n}
	case reflect.Map:
		return config.Object{"type": "object", "additionalProperties": s.Of(t.Elem(), ref)}
	case reflect.Struct:
		return s.ofStruct(t, ref)
	default:
		panic(fmt.Sprintf("%s has no form on the wire", t)) // found by the tests, which describe every row
	}
}

func (s Schemas) ofStruct(t reflect.Type, ref func(reflect.Type) config.Object) config.Object {
	properties, required := config.Object{}, []any{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		properties[name] = s.Of(f.Type, ref)
		if options != "omitempty" && options != "omitzero" {
			required = append(required, name)
		}
	}
	return config.Object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}
