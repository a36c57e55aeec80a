package stateloop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// derived derives offline and prints the document on one line, or the faults.
func derived(desired, reported string) string {
	want, faults := ReadDesired([]byte(desired))
	got, more := ReadReported([]byte(reported))
	if faults = append(faults, more...); faults != nil {
		return strings.ReplaceAll(faults.Error(), "\n", "; ")
	}
	text, err := json.Marshal(Derive(want, got).Document())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestDeriveOffline(t *testing.T) {
	const nothing = `{"generation":1,"parameters":[]}`
	for _, c := range []struct{ name, desired, reported, want string }{
		{"nothing is ready", nothing, nothing, `{"ready":true,"parameters":[],"ignored":[]}`},
		{"null stands for an empty list", `{"generation":1,"parameters":null}`, `{"parameters":null,"generation":1}`,
			`{"ready":true,"parameters":[],"ignored":[]}`},
		{"nothing of another generation is not", nothing, `{"generation":0,"parameters":[]}`,
			`{"ready":false,"parameters":[],"ignored":[]}`},
		{
			"all there", `{"generation":1,"parameters":[{"id":"b","target":"absent","dependencies":null},{"id":"a","target":"present","dependencies":["b"]}]}`,
			`{"generation":1,"parameters":[{"id":"a","state":"Present","timestamp":"2026-05-01T12:00:00Z","message":"m"},{"id":"b","state":"Absent"}]}`,
			`{"ready":true,"parameters":[{"id":"a","state":"Present","review":"no","reason":"m"},{"id":"b","state":"Absent","review":"no","reason":""}],"ignored":[]}`,
		},
		{
			"a stale report", `{"generation":2,"parameters":[{"id":"a","target":"present"},{"id":"b","target":"present"},{"id":"c","target":"present"}]}`,
			`{"generation":1,"parameters":[{"id":"a","state":"CreatingFailed","message":"no ` +
				`port"},{"id":"b","state":"Present"},{"id":"x","state":"Present","message":"m"}]}`,
			`{"ready":false,"parameters":[{"id":"a","state":"CreatingFailed","review":"yes","reason":"stale report: ` +
				`generation 1, desired is 2: no port"},` +
				`{"id":"b","state":"Present","review":"no","reason":"stale report: generation 1, desired is 2"},` +
				`{"id":"c","state":"Creating","review":"no","reason":"stale report: generation 1, desired is 2"}],` +
				`"ignored":[{"id":"x","state":"Ignored","review":"maybe","reason":"stale report: generation 1, desired is 2: m"}]}`,
		},
		{
			"the newest, whatever the zone", `{"generation":1,"parameters":[{"id":"a","target":"present"}]}`,
			`{"generation":1,"parameters":[{"id":"a","state":"Present","timestamp":"2026-05-01T13:00:00.5+02:00"},{"id":"a","state":"CheckPresentFailed","timestamp":"2026-05-01t11:30:00z","message":"newer"}]}`,
			`{"ready":false,"parameters":[{"id":"a","state":"CheckPresentFailed","review":"yes","reason":"newer"}],"ignored":[]}`,
		},
		{
			"all faults of both at once",
			`{"generation":-1,"more":1,"parameters":[{"id":"a","target":"Present","dependencies":["b",1]},{"id":"b","target":"absent","dependencies":["a","z"]},{"id":"b","target":"absent","kind":"x"},` +
				`{"id":"","dependencies":"a"},{"id":7,"target":null},8,{"id":"q","target":"present","dependencies":["q"]}]}`,
			`{"generation":1.5,"parameters":[{"id":"a","state":"Creating"},{"id":"b","state":"present","timestamp":"2026-05-01","message":3},{"state":"Present","timestamp":""}]}`,
			`generation: invalid value -1: must be a whole number from 0 on; more: unknown field: must be generation or ` +
				`parameters; ` +
				`parameters.0.dependencies: parameters wait for each other: "a" -> "b" -> "a": must be without a cycle; ` +
				`parameters.0.dependencies.1: invalid type int64: must be an id; parameters.0.target: invalid value ` +
				`"Present": must be present or absent; ` +
				`parameters.1.dependencies: "b" depends on "z", which is not a parameter: must be the id of a parameter; ` +
				`parameters.2.id: duplicate value "b", also at parameters.1: must be unique; parameters.2.kind: unknown ` +
				`field: must be id, target or dependencies; ` +
				`parameters.3.dependencies: invalid type string: must be a list of ids; parameters.3.id: invalid value "": ` +
				`must be a string; parameters.3.target: required: must be a string; ` +
				`parameters.4.id: invalid type int64: must be a string; parameters.4.target: invalid type null: must be a ` +
				`string; ` +
				`parameters.5: invalid type int64: must be an object; parameters.6.dependencies: "q" depends on itself: must ` +
				`be without a cycle; ` +
				`generation: invalid type double: must be a whole number from 0 on; ` +
				`parameters.0.state: invalid value "Creating", which is not a reported state: must be Present, Absent, ` +
				`WaitingForDependencies, CreatingFailed, RemovingFailed, CheckPresentFailed or CheckAbsentFailed; ` +
				`parameters.1.message: invalid type int64: must be a string; ` +
				`parameters.1.state: invalid value "present", which is not a reported state: must be Present, Absent, ` +
				`WaitingForDependencies, CreatingFailed, RemovingFailed, CheckPresentFailed or CheckAbsentFailed; ` +
				`parameters.1.timestamp: invalid value "2026-05-01": must be a time of RFC 3339, such as 1970-01-01T00:00:00Z; ` +
				`parameters.2.id: required: must be a string; parameters.2.timestamp: invalid value "": must be a time of RFC ` +
				`3339, such as 1970-01-01T00:00:00Z`,
		},
		{"keys that are numbers, beside such that are not", `{"generation":1,"parameters":[],"more":1,"7":1}`, nothing,
			`7: unknown field: must be generation or parameters; more: unknown field: must be generation or parameters`},
		{"what is missing", `{}`, `{"parameters":{}}`,
			`generation: required: must be a whole number from 0 on; parameters: required: must be a list of objects; ` +
				`generation: required: must be a whole number from 0 on; parameters: invalid type object: must be a list of ` +
				`objects`},
		{"no JSON, and a key twice", `[]`, `{"generation":1,"generation":2,"parameters":[]}`,
			`invalid type array: must be one JSON object; generation: duplicate key (2 times)`},
		{"places in the order of their numbers", `{"generation":1,"parameters":[` +
			strings.Repeat(`{"id":"a","target":"present"},`, 10) + `0]}`, nothing, func() string {
			out := ""
			for i := 1; i < 10; i++ {
				out += fmt.Sprintf(`parameters.%d.id: duplicate value "a", also at parameters.0: must be unique; `, i)
			}
			return out + "parameters.10: invalid type int64: must be an object"
		}()},
	} {
		if got := derived(c.desired, c.reported); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestTimesAreThoseOfRFC3339(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-05-01T03:00:00Z": true, "2026-05-01t03:00:00.123456789z": true, "2026-05-01T03:00:00.5-00:00": true,
		"2026-05-01T03:00:00+23:59": true,
		"0000-01-01T00:00:00Z":      true, "9999-12-31T23:59:59Z": true, "2024-02-29T00:00:00Z": true,
		"2026-05-01T3:00:00Z": false, "2026-05-01T3:00:00.5Z": false, "2026-05-01T03:00:00,5Z": false,
		"2026-05-01 03:00:00Z": false, "2026-05-01T03:00:00": false,
		"2026-05-01T24:00:00Z": false, "2026-05-01T03:00:00+24:00": false, "2026-02-29T00:00:00Z": false,
		"2026-05-01T03:00:00.Z": false, "": false, "now": false,
	} {
		if at, got := parseTime(text); got != want {
			t.Errorf("%q: %v %v, want %v", text, at, got, want)
		}
	}
}

// FuzzReadOffline: any text is read or refused with faults, and what was read derives to one
// answer for each id.
func FuzzReadOffline(f *testing.F) {
	f.Add(`{"generation":1,"parameters":[{"id":"a","target":"present","dependencies":["b"]},{"id":"b","target":"absent"}]}`,
		`{"generation":1,"parameters":[{"id":"a","state":"Present","timestamp":"2026-05-01T12:00:00Z","message":"m"},{"id":"a","state":"Absent"}]}`)
	f.Add(`{"generation":1,"parameters":[{"id":"a","target":"present","dependencies":["a","x"]}]}`,
		`{"generation":-1,"parameters":[0]}`)
	f.Fuzz(func(t *testing.T, desired, reported string) {
		want, faults := ReadDesired([]byte(desired))
		got, more := ReadReported([]byte(reported))
		if faults != nil && (len(want.Parameters) > 0 || faults.Error() == "") || more != nil &&
			(len(got.Parameters) > 0 || more.Error() == "") {
			t.Fatal(faults, more)
		}
		if faults != nil || more != nil {
			return
		}
		d := Derive(want, got)
		if len(d.Parameters) != len(want.Parameters) {
			t.Fatalf("%d answers to %d parameters", len(d.Parameters), len(want.Parameters))
		}
		if d.Ready && want.Generation != got.Generation {
			t.Fatal("ready by a stale report")
		}
		if g := NewGraph(want.Parameters); g.Cycles != nil || g.Unknown != nil || len(g.Order) != len(want.Parameters) {
			t.Fatalf("%+v", g)
		}
		if text, err := json.Marshal(d.Document()); err != nil || strings.Contains(string(text), "null,") &&
			!strings.Contains(desired+reported, "null,") {
			t.Fatal(string(text), err)
		}
	})
}
