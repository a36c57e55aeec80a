package ops

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
)

// tellCandidates formats candidates, one a line.
func tellCandidates(all []bisect.Candidate) string {
	var out []string
	for _, c := range all {
		line := fmt.Sprintf("%d %s %s", c.Revision, c.As, strings.Join(c.Keys, " "))
		for _, more := range []string{strings.Join(c.Others, " "), c.Invalid, c.Unfit} {
			if more != "" {
				line += "; " + more
			}
		}
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

// Only revisions that change the canary's config are candidates, under the name that the node had; what no node takes is
// known without one.
func TestTheCandidatesOfABisect(t *testing.T) {
	b := newBench(t, "n1", "n2", "n3")
	modify := func(text string) { b.do(SetNodes{Overrides: doc(t, text), Modify: true}) }
	network := func(text string) { b.do(SetNetwork{Overrides: doc(t, text), Modify: true}) }
	network(`{"sysParams":{"managedConfig":true}}`)                       // 1
	modify(`{"n1":{"envParams":{"A":"1"}}}`)                              // 2
	modify(`{"n2":{"envParams":{"A":"1"}}}`)                              // 3: another node
	network(`{"envParams":{"A":"0"}}`)                                    // 4: n1 and n2 have overrides
	network(`{"envParams":{"B":"1","C":"1","D":"1","E":"1"}}`)            // 5
	modify(`{"n1":{"sysParams":{"managedConfig":false}}}`)                // 6
	modify(`{"n1":{"sysParams":{"managedConfig":true}}}`)                 // 7
	modify(`{"n1":{"envParams":{"A":"2"}},"n2":{"envParams":{"A":"2"}}}`) // 8
	o, err := b.Validate(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"3"}}}`), Modify: true})
	if err != nil {
		t.Fatal(err)
	}
	for l := range o.Change.Layers { // as if an import had stored it
		o.Change.Layers[l] = doc(t, `{"sysParams":{"managedConfig":true},"envParams":"x"}`)
	}
	b.commit(o) // 9
	all, err := b.Candidates(bisect.Request{Nodes: []string{"n1", "n2"}, Canary: "n1", Good: 2, Bad: 9}.WithDefaults(), b.store)
	if err != nil {
		t.Fatal(err)
	}
	want := `2 n1
5 n1 envParams.B envParams.C envParams.D; n2
6 n1 sysParams.managedConfig; sysParams.managedConfig is not true: nothing is pushed
7 n1 sysParams.managedConfig
8 n1 envParams.A; n2
9 n1`
	if got := tellCandidates(all); !strings.HasPrefix(got, want) || !strings.Contains(got, "invalid type string in the node layer") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if all[1].More != 1 || all[1].MD5 != all[3].MD5 || all[0].MD5 == all[1].MD5 || all[0].MD5 == config.MD5(nil) {
		t.Errorf("%+v", all)
	}
	for name, c := range map[string]struct {
		good, bad uint64
		want      string
	}{
		"nothing changes": {2, 4, "no revision after 2, up to 4, changes the config of n1"},
		"it is pruned":    {0, 4, "good: invalid value 0"},
	} {
		_, err := b.Candidates(bisect.Request{Nodes: []string{"n1"}, Canary: "n1", Good: c.good, Bad: c.bad}, b.store)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// A node that was renamed has its layers of before under its earlier name.
func TestTheCandidatesOfARenamedNode(t *testing.T) {
	b := newBench(t, "n1")
	b.do(SetTopology{Document: doc(t, `{"sites":[{"name":"s","location":{"latitude":1,"longitude":1,"altitude":1,"accuracy":1}}],
		"nodes":[{"name":"n1","mac_addr":"02:00:00:00:00:01","node_type":2,"site_name":"s","pop_node":true}]}`)})
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"sysParams":{"managedConfig":true}}}`), Modify: true})
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"1"}}}`), Modify: true})
	good := b.State.Number - 1
	b.do(EditTopology{Object: "node", Op: "rename", Name: "n1", To: "n9"})
	b.Nodes["n9"] = b.Nodes["n1"]
	delete(b.Nodes, "n1")
	b.do(SetNodes{Overrides: doc(t, `{"n9":{"envParams":{"A":"2"}}}`), Modify: true})
	all, err := b.Candidates(bisect.Request{Nodes: []string{"n9"}, Canary: "n9", Good: good, Bad: b.State.Number}, b.store)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d n1\n%d n1 envParams.A\n%d n9 topologyInfo.nodeName\n", good, good+1, good+2)
	if got := tellCandidates(all); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "n9 envParams.A") {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The names of nodes are known for each of ten thousand revisions without a walk over the later ones for each: lists that
// are the same are one list. Two nodes can take each other's names in one revision.
func TestTheNamesOfNodesAsOfEachRevision(t *testing.T) {
	records := make([]history.RevisionRecord, 10000)
	records[7000].Renamed = []history.Rename{{From: "a", To: "b"}, {From: "b", To: "a"}}
	records[3000].Renamed = []history.Rename{{From: "x", To: "a"}, {From: "other", To: "y"}}
	names := namesAsOf([]string{"a", "b", "c", "a"}, records)
	before, lists := []string(nil), 0
	for i, now := range names {
		want := "a b c a"
		switch {
		case i < 3000:
			want = "b x c b"
		case i < 7000:
			want = "b a c b"
		}
		if got := strings.Join(now, " "); got != want {
			t.Fatalf("as of %d: %s, want %s", i, got, want)
		}
		if i == 0 || &before[0] != &now[0] {
			lists++
		}
		before = now
	}
	if lists != 3 {
		t.Errorf("%d lists", lists)
	}
}
