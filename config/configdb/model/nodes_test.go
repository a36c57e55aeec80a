package model

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/config/kv"
)

// Who registered a node is known, also of those that an earlier release registered; what an admin has declared is not
// taken back.
func TestWhoDeclaredANode(t *testing.T) {
	d := fuel(t, "nodes")
	is := func(what string, want bool) {
		t.Helper()
		for _, s := range []*State{d.state, ok(Load(d.store))(t)} {
			n, err := s.Node(9, "1")
			equal(t, what, fmt.Sprint(n.Undeclared, err), fmt.Sprint(want, nil))
		}
	}
	d.must(Put{Target: target("9/nodes=1/astute"), Kind: Values, Value: doc(d, `{}`), Register: true})
	is("by an upload", true)
	d.must(PutNode{9, Node{ID: "1", Certname: "1", Undeclared: true}})
	is("by itself", true)
	equal(t, "declared", d.must(PutNode{9, Node{ID: "1", Certname: "1"}}).Changed, true)
	is("by an admin", false)
	equal(t, "and itself again", d.must(PutNode{9, Node{ID: "1", Certname: "1", Undeclared: true}}).Changed, false)
	is("by an admin", false)
	for _, old := range []struct {
		n    nodeValue
		want bool
	}{{nodeValue{}, false}, {nodeValue{Certname: "1"}, false}, {nodeValue{Certname: "c"}, true},
		{nodeValue{FQDN: "f"}, true}, {nodeValue{Levels: map[uint64]string{3: "a"}}, true}} {
		equal(t, fmt.Sprint("of an earlier release: ", old.n), old.n.declared("1"), old.want)
	}
}

// Names that a node may have given itself in an earlier release are told apart until an admin has
// decided on them: the node's own word does not settle it.
func TestNodesOfAnEarlierRelease(t *testing.T) {
	d := fuel(t, "nodes")
	d.must(PutNode{9, Node{ID: "1", FQDN: "db-1.example.org"}})
	e, _ := d.state.environment(9)
	key := nodeKey(e.serial, "1")
	if _, err := d.store.Commit(kv.Txn{Then: []kv.Op{kv.Put(key, []byte(`{"fqdn":"db-1.example.org"}`))}}); err != nil {
		t.Fatal(err)
	}
	d.state = ok(Load(d.store))(t)
	is := func(what, want string) {
		t.Helper()
		n, err := d.state.Node(9, "db-1.example.org")
		equal(t, what, fmt.Sprint(n.Former, n.Undeclared, err), want)
	}
	is("of an earlier release", "true false <nil>")
	d.must(PutNode{9, Node{ID: "1", FQDN: "db-1.example.org", Undeclared: true}})
	is("it says so again", "true false <nil>")
	d.must(PutNode{9, Node{ID: "1", FQDN: "db-1.example.org"}})
	is("an admin says so", "false false <nil>")
	d.must(DeleteNode{9, "1"})
	d.must(Put{Target: target("9/nodes=1/astute"), Kind: Values, Value: doc(d, `{}`), Register: true})
	if n, err := d.state.Node(9, "1"); err != nil || !n.Undeclared || n.FQDN != "" {
		t.Errorf("disowned, and back by an upload: %+v, %v", n, err)
	}
}

// What is written below a value of a level makes the value known, as in the original.
func TestValuesOfTheLevelsAbove(t *testing.T) {
	d := fuel(t, "release", "role", "nodes")
	values := func(want string) {
		t.Helper()
		for _, s := range []*State{d.state, ok(Load(d.store))(t)} {
			var got []string
			for _, l := range ok(s.Levels(9, nil))(t) {
				got = append(got, strings.Join(l.Values, ","))
			}
			equal(t, "values", strings.Join(got, " "), want)
		}
	}
	d.put("9/release=r/role=a/nodes=1/astute", `{}`)
	values("r a 1")
	d.override("9/release=r/role=b/astute", `{}`)
	d.must(Bulk{Writes: []Write{
		Put{Target: target("9/release=q/role=c/nodes=2/astute"), Kind: Values, Value: doc(d, `{}`), Register: true},
		Put{Target: target("9/release=q/role=c/nodes=2/globals"), Kind: Values, Value: doc(d, `{}`), Register: true},
	}})
	values("q,r a,b,c 1,2")
	levels := []string{"role", "nodes"}
	d.must(EditEnvironment{ID: 9, Levels: &levels})
	values("a,b,c 1,2")
	levels = []string{"release", "role", "nodes"}
	d.must(EditEnvironment{ID: 9, Levels: &levels})
	values(" a,b,c 1,2")
}
