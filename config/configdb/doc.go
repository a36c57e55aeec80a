// Package configdb owns the documents of ConfigDB and the computations on them (seed
// fuel-configdb-serialized-facts-api; docs/adr/0022): the canonical form that keeps every literal, effective values,
// keys operations, templates, lookups as in Hiera, differences, masks, and YAML.
//
// It never knows where a document is stored or who requests it: config/configdb/model owns records and versions,
// config/httpapi/configdbapi the wire. It never converts a number to one of Go's types, so that 1.0 stays 1.0 and a
// number of forty digits keeps them all.
//
// Read object.go first, then documents.go and hiera.go.
package configdb

// JSON is one JSON value in canonical form, as Parse returns it: no white space, and the keys of each object sorted by
// their bytes and unique (the last of equal keys counts, RFC 8259 §4), with only the required escapes. Numbers and
// string values keep their literals: "\u00e9" is another document than "é" with the same value. nil means no value;
// "null" is a value.
type JSON []byte

// String returns the JSON text.
func (j JSON) String() string { return string(j) }

// MarshalJSON returns the text unchanged, and null for no value.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j == nil {
		return []byte("null"), nil
	}
	return j, nil
}

// UnmarshalJSON parses the text with Parse.
func (j *JSON) UnmarshalJSON(text []byte) error {
	v, err := Parse(text)
	*j = v
	return err
}
