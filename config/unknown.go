package config

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
)

// Unknown holds the fields of a stored record that this version does not know. They are written back unchanged: a
// replica of an older release must not drop the fields that a newer one has added.
type Unknown map[string]json.RawMessage

// ReadRecord decodes an object into a struct and returns the fields that the struct does not have. The struct's type
// must not have its own JSON decoding. null is an error. On an error ReadRecord does not change the struct.
func ReadRecord[T any](text []byte, into *T) (Unknown, error) {
	var read T
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, err
	}
	var all Unknown
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	if all == nil {
		return nil, errors.New("invalid type null: must be an object")
	}
	*into = read
	for t, i := reflect.TypeFor[T](), 0; i < t.NumField(); i++ {
		if f := t.Field(i); f.IsExported() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// WriteRecord encodes a struct together with the unknown fields that were read with it.
func WriteRecord(v any, others Unknown) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil || len(others) == 0 {
		return text, err
	}
	all := maps.Clone(others)
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}
