// Package configdb owns the documents of ConfigDB and the computations on them (seed
// fuel-configdb-serialized-facts-api; docs/adr/0022): the canonical form that keeps every literal, effective values,
// keys operations, templates, lookups as in Hiera, differences, masks, and YAML.
//
// It never knows where a document is stored or who requests it: config/configdb/model owns records and versions,
// config/httpapi/configdbapi the wire. It never converts a number to one of Go's types, so that 1.0 stays 1.0 and a
// number of forty digits stays whole.
//
// Read object.go first, then documents.go and hiera.go.
package configdb

// JSON is one JSON value in canonical form: the keys of objects in the order of their bytes,
// each once (of equal keys the last counts, RFC 8259 §4) with only those characters escaped that must be,
// no white space, the literals of numbers and strings as they were given: "\u00e9" is another document
// than "é" with the same value. Parse makes it. nil is no value; "null" is one.
type JSON []byte

// String is the text of the value.
func (j JSON) String() string { return string(j) }

// MarshalJSON is the text as it stands; that of no value is null.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j == nil {
		return []byte("null"), nil
	}
	return j, nil
}

// UnmarshalJSON is Parse.
func (j *JSON) UnmarshalJSON(text []byte) error {
	v, err := Parse(text)
	*j = v
	return err
}
