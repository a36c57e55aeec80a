package rest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"edgespan/config"
)

// Schemas generates JSON Schemas (2020-12, as in OpenAPI 3.1) from Go types. Its entries are the schemas that do not
// follow from the type's kind, such as those of enumerations.
type Schemas map[reflect.Type]config.Object

var anObject = reflect.TypeFor[config.Object]()

// Enum returns the schema of a string with a fixed set of values.
func Enum[T ~string](values ...T) config.Object {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return config.Object{"type": "string", "enum": list}
}

// Components puts each named type of an OpenAPI description into components once: ref returns the reference to it.
func (s Schemas) Components(components config.Object) (ref func(reflect.Type) config.Object) {
	return func(t reflect.Type) config.Object {
		name := component(t)
		if _, known := components[name]; !known {
			components[name] = true // the type may refer to itself
			components[name] = s.ofStruct(t, s.Components(components))
		}
		return config.Object{"$ref": "#/components/schemas/" + name}
	}
}

// component returns the name of a type's schema among the components, "" for an inline one.
func component(t reflect.Type) string {
	if t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() {
		return strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	}
	return ""
}

// Of returns the schema of a type; ref, if not nil, returns references to components, otherwise everything is inline.
func (s Schemas) Of(t reflect.Type, ref func(reflect.Type) config.Object) config.Object {
	if one, ok := s[t]; ok {
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
		panic(fmt.Sprintf("%s has no form on the wire", t)) // the tests find it, because they describe every route
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
