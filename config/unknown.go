package config

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
)

// Unknown are the fields of a stored record that this version does not know. It writes them as it
// read them: a replica of an older release must not drop what a newer one beside it has added.
type Unknown map[string]json.RawMessage

// ReadRecord reads an object into a struct, and answers with the fields that the struct has not.
// The type of the struct must have no JSON form of its own. null is an error. After an error the struct
// is as it was.
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

// WriteRecord writes a struct with the fields that were read beside its own.
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
