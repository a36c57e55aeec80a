package config

import "testing"

func TestARecordKeepsWhatItDoesNotKnow(t *testing.T) {
	type record struct {
		A int    `json:"a"`
		B string `json:"b,omitempty"`
	}
	for text, want := range map[string]string{
		`{"a":1}`:                      `{"a":1}`,
		`{"a":1,"b":"x"}`:              `{"a":1,"b":"x"}`,
		`{"a":1,"c":{"a":2},"d":null}`: `{"a":2,"c":{"a":2},"d":null}`,
		`{"c":3}`:                      `{"a":1,"c":3}`,
		`null`:                         "invalid type null: must be an object",
		`[]`:                           "json: cannot unmarshal array into Go value of type config.record",
		`{"a":"x"}`:                    "json: cannot unmarshal string into Go struct field record.a of type int",
	} {
		var r record
		others, err := ReadRecord([]byte(text), &r)
		var got []byte
		if err == nil {
			if len(others) > 0 {
				r.A++ // what is known is written as it is by then
			}
			got, err = WriteRecord(r, others)
		}
		said := string(got)
		if err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%s: %s, want %s", text, said, want)
		}
	}
}
