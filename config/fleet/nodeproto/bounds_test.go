package nodeproto

import (
	"encoding/json"
	"strings"
	"testing"
)

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What a node says in its Hello, its reports and its answers to probes is bounded in the words that
// its memory, its standing and its row are made of.
func TestWordsOfANodeAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	r := Report{
		MD5: long, Peer: long, Generation: Generation{Authority: long},
		Restores: Generation{Authority: long}, Software: long, Firmware: long, Board: long, Source: long,
		Held: &Held{By: long}, Pending: &PendingReport{Generation: Generation{Authority: long},
			Worse: strings.Split(strings.Repeat("w,", 1000)+long, ",")},
		Parameters: []ParameterReport{{ID: "a", Generation: Generation{Authority: long}},
			{ID: "b", Detail: "y"}},
	}.Bounded()
	if n := len(encoded(t, r)); n > 8<<10 || len(r.Parameters) != 1 {
		t.Errorf("a report of %d bytes, %d parameters", n, len(r.Parameters))
	}
	p := Probed{MD5: long, Peer: long, Generation: Generation{Authority: long},
		Worse: []string{long}}.Bounded()
	h := Hello{Software: long, Firmware: long, Board: long}.Bounded()
	if n := len(encoded(t, p)) + len(encoded(t, h)); n > 4<<10 {
		t.Errorf("a Hello and an answer to a probe of %d bytes", n)
	}
	held, worse := Held{By: "eva"}, []string{"uplink"}
	owned := Report{
		MD5: strings.Repeat("a", 32), Peer: strings.Repeat("b", 64),
		Generation: Generation{Authority: "6b1e0c1a-0000-4000-8000-000000000001", Counter: 3},
		Software:   "RELEASE_M20",
		Held:       &held, Pending: &PendingReport{Worse: worse}, Parameters: []ParameterReport{{ID: "a"}},
	}
	if string(encoded(t, owned.Bounded())) != string(encoded(t, owned)) {
		t.Errorf("an honest report became %s", encoded(t, owned.Bounded()))
	}
	for text, want := range map[string]bool{strings.Repeat("0", 32): true, "d41d8cd98f00b204e9800998ecf8427e": true,
		"": false, strings.Repeat("A", 32): false, strings.Repeat("a", 33): false} {
		if ok := (Result{MD5: text}).Pushed() == text; isMD5(text) != want || ok != (want || text == "") {
			t.Errorf("%q is an MD5: %v", text, !want)
		}
	}
}

// A node tells of as much as the largest one has, and of no more.
func TestAReportHasAsMuchAsANodeHas(t *testing.T) {
	t.Parallel()
	reported := Report{Parameters: make([]ParameterReport, 80_000), Health: make([]HealthReport, 80_000),
		Actions: make([]Action, 10)}
	if got := reported.Bounded(); len(got.Parameters) != MaxListed || len(got.Health) != MaxListed ||
		len(got.Actions) != 10 {
		t.Errorf("%d parameters, %d of health, %d actions", len(got.Parameters), len(got.Health), len(got.Actions))
	}
}
