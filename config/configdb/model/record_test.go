package model

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

func edit(t tester, op configdb.KeysOp, body string) configdb.KeysEdit {
	t.Helper()
	v, err := configdb.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	e, err := configdb.KeysEditOf(op, v)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestVersions(t *testing.T) {
	d := fuel(t, "nodes")
	at := target("9/nodes=1/astute")
	put := func(text string) Written { t.Helper(); return d.put("9/nodes=1/astute", text) }
	first := put(`{"a":1}`)
	same := put(` { "a" : 1 }`)
	equal(t, "an identical upload", same.Changed, false)
	equal(t, "its revision", same.Revision, first.Revision)
	equal(t, "its ETag", same.ETag, first.ETag)
	equal(t, "its version", same.Version, 1)
	d.put("9/astute", `{"root":"early"}`)
	second := put(`{"a":1.0}`)
	equal(t, "1.0 is not 1", second.Version, 2)
	d.override("9/nodes=1/astute", `{"o":1}`)
	d.put("9/astute", `{"root":"late"}`)
	keys := d.must(EditKeys{Target: at, Kind: Values, Edit: edit(t, configdb.KeysSet, `[["b",2],["c",3]]`)})
	equal(t, "a keys operation is one version", keys.Version, 3)
	d.must(Remove{Target: at, Kind: Values})

	equal(t, "now", d.ask(Query{Target: at, Effective: true}), `{"o":1,"root":"late"}`)
	for version, want := range map[uint64]string{1: `{"a":1}`, 2: `{"a":1.0}`, 3: `{"a":1.0,"b":2,"c":3}`,
		4: `2 version 4 of the values of "astute": is not there: 3 is the newest`} {
		equal(t, "version", d.ask(Query{Target: at, Version: version}), want)
	}
	equal(t, "effective of version 1", d.ask(Query{Target: at, Effective: true, Version: 1}), `{"a":1}`)
	equal(t, "effective of version 2", d.ask(Query{Target: at, Effective: true, Version: 2}), `{"a":1.0,"root":"early"}`)
	equal(t, "effective of version 3", d.ask(Query{Target: at, Effective: true, Version: 3}),
		`{"a":1.0,"b":2,"c":3,"o":1,"root":"late"}`)
	equal(t, "as of a revision", d.ask(Query{Target: at, Effective: true, Revision: second.Revision}),
		`{"a":1.0,"root":"early"}`)
	equal(t, "of the future", d.ask(Query{Target: at, Revision: 99}), "2 revision 99: is not reached: 1 to 9 are there")
	equal(t, "a version as of a revision", d.ask(Query{Target: at, Revision: 1, Version: 1}),
		"1 version and revision together: must be only one of them")

	back := d.must(Rollback{Target: at, Kind: Values, Version: 1})
	equal(t, "a rollback is a version, the removal before it was none", back.Version, 4)
	equal(t, "what it brings", d.ask(Query{Target: at}), `{"a":1}`)
	d.must(Rollback{Target: Target{Environment: 9, Levels: at.Levels}, Revision: second.Revision})
	equal(t, "all of a place", d.ask(Query{Target: at, Effective: true}), `{"a":1.0,"root":"late"}`)
	equal(t, "overrides were none", d.ask(Query{Target: at, Kind: Overrides}), `{}`)

	vs, err := d.state.Versions(VersionsQuery{Target: at, Kind: Values, Before: 5, Limit: 2}, d.store)
	if err != nil || len(vs) != 3 {
		t.Fatal(vs, err)
	}
	equal(t, "newest first", vs[0].Number, 4)
	equal(t, "removal", vs[1].Removed, true)
	equal(t, "it has no number", vs[1].Number, 0)
	equal(t, "the version that it removed", vs[2].Number, 3)
	equal(t, "who", vs[2].Author+" "+vs[2].Message, "alice why")
	equal(t, "what", vs[2].SHA256, shaOf([]byte(`{"a":1.0,"b":2,"c":3}`)))
	rs, err := d.state.Records(RecordsQuery{Environment: 9, Limit: 2}, d.store)
	if err != nil || len(rs) != 2 {
		t.Fatal(rs, err)
	}
	equal(t, "changes of the rollback", len(rs[0].Changes), 2)
	equal(t, "of overrides", rs[0].Changes[1].What+" "+rs[0].Changes[1].Did, "overrides deleted")
}

// TestRemovalsAreNoVersions is the contract on version=N: it counts uploads.
func TestRemovalsAreNoVersions(t *testing.T) {
	for _, k := range []Kind{Values, Overrides} {
		d := fuel(t, "nodes")
		at := target("9/astute")
		put := func(text string) Written { return d.must(Put{Target: at, Kind: k, Value: doc(t, text)}) }
		a := put(`{"at":"A"}`)
		gone := d.must(Remove{Target: at, Kind: k})
		equal(t, "the change", fmt.Sprint(gone.Changes[0].Did, gone.Changes[0].Version), "deleted0")
		b := put(`{"at":"B"}`)
		equal(t, "the version of the second upload", b.Changes[0].Version, 2)
		equal(t, "what it did", b.Changes[0].Did, "changed")
		again := d.must(Remove{Target: at, Kind: k})
		back := put(`{"at":"B"}`)
		equal(t, "the third", back.Changes[0].Version, 3)
		if a.ETag == gone.ETag || gone.ETag == again.ETag || back.ETag == b.ETag {
			t.Errorf("ETags are there twice: %s %s %s %s %s", a.ETag, gone.ETag, b.ETag, again.ETag, back.ETag)
		}
		for n, want := range map[uint64]string{1: `{"at":"A"}`, 2: `{"at":"B"}`, 3: `{"at":"B"}`, 4: "2 version 4 of the " +
			string(k) + ` of "astute": is not there: 3 is the newest`} {
			equal(t, "version", d.ask(Query{Target: at, Kind: k, Version: n}), want)
		}
		equal(t, "as of the removal", d.ask(Query{Target: at, Kind: k, Revision: gone.Revision}), `{}`)
		equal(t, "rollback", d.must(Rollback{Target: at, Kind: k, Version: 1}).Changes[0].Version, 4)
		equal(t, "to nothing", d.must(Rollback{Target: at, Kind: k, Revision: gone.Revision}).Changes[0].Version, 0)
		d.must(Put{Target: at, Kind: k, Value: doc(t, `{"at":"C"}`)})
		// Of two versions that are kept, the removal between them is, too.
		d.store.sweepAll(t, d.state, Keep{Versions: 2}, nil)
		d.state = ok(Load(d.store))(t)
		vs := ok(d.state.Versions(VersionsQuery{Target: at, Kind: k}, d.store))(t)
		got := ""
		for _, v := range vs {
			got += fmt.Sprint(v.Number, v.Removed, " ")
		}
		equal(t, "kept", got, "5 false 0 true 4 false ")
		equal(t, "not kept", d.ask(Query{Target: at, Kind: k, Version: 3}), "2 version 3 of the "+string(k)+
			` of "astute": is no longer kept`)
		equal(t, "kept by its number", d.ask(Query{Target: at, Kind: k, Version: 4}), `{"at":"A"}`)
	}
}

func TestIfMatch(t *testing.T) {
	d := fuel(t, "nodes")
	at := target("9/astute")
	d.must(DeclareSecrets{ID: 1, Keys: []string{"password"}})
	put := func(text string, etags ...string) (Written, *RequestError) {
		return d.write(Put{Target: at, Kind: Values, Value: doc(t, text), IfMatch: etags})
	}
	etag := func(reveal bool) string {
		c, err := d.state.Chain(Query{Target: at, Kind: Values, Reveal: reveal}, d.store)
		if err != nil {
			t.Fatal(err)
		}
		return c.ETag()
	}
	empty := etag(true)
	if _, f := put(`{}`, "*"); f == nil || f.Kind != Stale {
		t.Error("nothing is there: ", f)
	}
	if _, f := put(`{"a":1,"password":"x"}`, empty); f != nil {
		t.Error(f)
	}
	_, f := put(`{"a":2}`, empty)
	if f == nil || f.Kind != Stale ||
		!strings.Contains(f.Text, `were written by alice at 2026-03-01T12:00:00Z (revision 4, version 1)`) {
		t.Error(f)
	}
	if etag(true) == etag(false) {
		t.Error("the masked answer has the ETag of the other")
	}
	equal(t, "masked", d.ask(Query{Target: at}), `{"a":1,"password":{"$masked":true}}`)
	w, f := put(`{"a":2,"password":{"$masked":true}}`, `"other"`, etag(false))
	if f != nil {
		t.Fatal(f)
	}
	equal(t, "what was masked stays", d.ask(Query{Target: at, Reveal: true}), `{"a":2,"password":"x"}`)
	equal(t, "the ETag of the answer", w.ETag, etag(true))
	if _, f = put(`{"a":3}`, "*"); f != nil {
		t.Error(f)
	}
}

func TestNodes(t *testing.T) {
	d := fuel(t, "role", "nodes")
	d.must(CreateEnvironment{ID: id(5), Components: []Ref{{ID: 7}}, Levels: []string{"nodes"}})
	equal(t, "nobody is registered", d.ask(Query{Target: target("5/nodes=1/astute")}), `{}`)
	register := func(at string) Written {
		return d.must(Put{Target: target(at), Kind: Values, Value: doc(d, `{"at":"`+at+`"}`), Register: true})
	}
	equal(t, "who is registered", register("9/role=a/nodes=1/astute").Registered, "1")
	equal(t, "once", register("9/role=b/nodes=1/astute").Registered, "")
	d.put("9/role=a/astute", `{"of":"a"}`)
	equal(t, "who is not registered has what it inherits",
		d.ask(Query{Target: target("9/role=a/nodes=2/astute"), Effective: true}), `{"of":"a"}`)
	equal(t, "elsewhere too", d.ask(Query{Target: target("5/nodes=1/astute"), Effective: true}), `{}`)
	for _, environment := range []int64{5, 9} {
		d.must(EditEnvironment{ID: environment, StrictNodes: new(true)})
	}
	equal(t, "elsewhere", d.ask(Query{Target: target("5/nodes=1/astute")}),
		`2 node "1": is not assigned to environment 5 but to 9`)
	equal(t, "never registered", d.ask(Query{Target: target("9/role=a/nodes=2/astute"), Effective: true}),
		`2 node "2": is not registered in environment 9`)
	equal(t, "an upload",
		d.refused(Put{Target: target("9/role=a/nodes=2/astute"), Kind: Values, Value: doc(d, `{}`), Register: true}),
		`2 node "2": is not registered in environment 9`)
	for _, environment := range []int64{5, 9} {
		d.must(EditEnvironment{ID: environment, StrictNodes: new(false)})
	}
	d.must(PutNode{9, Node{ID: "1", FQDN: "node-1.example", Certname: "cert-1"}})
	for _, name := range []string{"1", "node-1.example", "cert-1"} {
		equal(t, "any name", d.ask(Query{Target: target("9/role=c/nodes=" + name + "/astute")}),
			`{"at":"9/role=b/nodes=1/astute"}`)
		n, err := d.state.Node(9, name)
		equal(t, name, fmt.Sprint(n), "{1 node-1.example cert-1 map[] false false}")
		equal(t, name, err, nil)
	}
	levels, err := d.state.Levels(9, nil)
	if err != nil || len(levels) != 2 {
		t.Fatal(levels, err)
	}
	equal(t, "values", strings.Join(levels[1].Values, " ")+" of "+*levels[1].Parent, "1 of role")
	register("5/nodes=1/astute")
	equal(t, "a node of two environments", d.ask(Query{Target: target("5/nodes=1/astute")}), `{"at":"5/nodes=1/astute"}`)
	d.must(DeleteNode{9, "cert-1"})
	_, err = d.state.Node(9, "1")
	equal(t, "forgotten", err.Error(), `node "1": is not registered in environment 9`)
	equal(t, "its alias too", d.ask(Query{Target: target("9/role=c/nodes=cert-1/astute")}), `{}`)
}

// What is declared of a node belongs to levels, whatever they are called, and to one registration of it.
func TestLevelsOfNodes(t *testing.T) {
	d := fuel(t, "release", "role", "nodes")
	shown := func(want string) {
		t.Helper()
		loaded := ok(Load(d.store))(t) // as after a restart
		n, err := loaded.Node(9, "1")
		equal(t, "levels", fmt.Sprint(n.Levels, err), want)
		all, err := d.state.Nodes(9, nil)
		equal(t, "in the list", fmt.Sprint(all[0].Levels, err), want)
	}
	put := func(n Node) Written { n.ID = "1"; return d.must(PutNode{9, n}) }
	d.must(Put{Target: target("9/release=9/role=compute/nodes=1/astute"), Kind: Values, Value: doc(d, `{}`),
		Register: true})
	shown("map[] <nil>") // whatever the path was
	equal(t, "declared", put(Node{Levels: map[string]string{"role": "compute", "release": "9.0"}}).Changes[0].Did,
		"changed")
	shown("map[release:9.0 role:compute] <nil>")
	equal(t, "twice", put(Node{Levels: map[string]string{"role": "compute", "release": "9.0"}}).Changed, false)
	put(Node{FQDN: "node-1.example"}) // who gives it names leaves them
	shown("map[release:9.0 role:compute] <nil>")
	d.must(RenameLevel{9, Ref{Name: "role"}, "group"})
	shown("map[group:compute release:9.0] <nil>")
	d.must(EditEnvironment{ID: 9, Levels: &[]string{"group", "nodes", "rack"}})
	shown("map[group:compute] <nil>")
	d.must(EditEnvironment{ID: 9, Levels: &[]string{"release", "role", "group", "nodes"}})
	shown("map[group:compute] <nil>") // those of these names are others
	put(Node{Levels: map[string]string{}})
	shown("map[] <nil>")
	put(Node{Levels: map[string]string{"role": "compute"}})
	d.must(DeleteNode{9, "1"})
	put(Node{})
	shown("map[] <nil>")
	for levels, want := range map[string]string{
		"rack=1":     `1 levels of a node: "rack" is not a level of environment 9: must be release, role, group, nodes`,
		"=1":         `1 levels of a node: "" is not a level of environment 9: must be release, role, group, nodes`,
		"nodes=1":    `1 levels of a node: "nodes" is that of the nodes themselves: must be another of environment 9`,
		"release=":   `1 value of level release: ""`,
		"group=a\tb": `1 value of level group: `,
	} {
		name, value, _ := strings.Cut(levels, "=")
		if got := d.refused(PutNode{9, Node{ID: "1", Levels: map[string]string{name: value}}}); !strings.HasPrefix(got,
			want) {
			t.Errorf("%s: %s", levels, got)
		}
	}
}

// TestKeysOnNothing is the row of the seed's reference §1.9 on keys operations where nothing is stored.
func TestKeysOnNothing(t *testing.T) {
	d := fuel(t)
	at := target("9/astute")
	d.refused(EditKeys{Target: at, Kind: Values, Edit: edit(t, configdb.KeysSet, `[]`)})
	equal(t, "delete", d.refused(EditKeys{Target: at, Kind: Values, Edit: edit(t, configdb.KeysDelete, `[["a"]]`)})[:1],
		"2")
	d.must(EditKeys{Target: at, Kind: Overrides, Edit: edit(t, configdb.KeysSet, `[["a",{"b":1}]]`)})
	equal(t, "it creates", d.ask(Query{Target: at, Kind: Overrides}), `{"a":{"b":1}}`)
	equal(t, "the other half",
		d.refused(EditKeys{Target: at, Kind: Values, Edit: edit(t, configdb.KeysDelete, `[["a"]]`)})[:1], "3")
	equal(t, "an operation that changes nothing",
		d.must(EditKeys{Target: at, Kind: Values, Edit: edit(t, configdb.KeysSet, `[]`)}).Changed, false)
}

func TestTemplates(t *testing.T) {
	d := fuel(t, "nodes")
	content := doc(t, `{"$template":{"name":"%{globals:net.name}","text":"is %{globals:net.name}!","own":1}}`)
	first := d.must(EditDefinition{ID: 1, Content: &content})
	at := target("9/nodes=1/astute")
	equal(t, "not raw", d.ask(Query{Target: at}), `{}`)
	if got := d.ask(Query{Target: at, Effective: true}); !strings.HasPrefix(got, "3 ") ||
		!strings.Contains(got, "globals") {
		t.Error(got)
	}
	etag := func() string {
		c, err := d.state.Chain(Query{Target: at, Kind: Values, Effective: true}, d.store)
		if err != nil {
			t.Fatal(err)
		}
		return c.ETag()
	}
	before := etag()
	d.put("9/globals", `{"net":{"name":"br-%{no}"}}`)
	if etag() == before {
		t.Error("the ETag does not know the other resource")
	}
	d.put("9/nodes=1/astute", `{"own":"%{globals:net}"}`)
	equal(t, "effective", d.ask(Query{Target: at, Effective: true, Lookup: true}),
		`{"name":["br-%{no}","/"],"own":["%{globals:net}","/nodes/1/"],"text":["is br-%{no}!","/"]}`)
	content = doc(t, `{"$template":{"name":"new"}}`)
	d.must(EditDefinition{ID: 1, Content: &content})
	equal(t, "the content of now", d.ask(Query{Target: at, Effective: true, Key: []string{"name"}}), `"new"`)
	equal(t, "the content of then", d.ask(Query{Target: at, Effective: true, Version: 1, Key: []string{"name"}}),
		`"br-%{no}"`)
	equal(t, "before it", d.ask(Query{Target: at, Effective: true, Revision: first.Revision - 1}), `{}`)
	d.must(DeclareSecrets{ID: 2, Keys: []string{"net.name"}})
	content = doc(t, `{"$template":{"name":"%{globals:net.name}"}}`)
	d.must(EditDefinition{ID: 1, Content: &content})
	equal(t, "a secret of another resource", d.ask(Query{Target: at, Effective: true, Key: []string{"name"}}),
		`{"$masked":true}`)
	content = doc(t, `{"$template":{"name":"%{globals:}"}}`)
	equal(t, "a misspelt reference", d.refused(EditDefinition{ID: 1, Content: &content})[:1], "1")
	defs, err := d.state.Definitions(nil, d.store, true)
	if err != nil || len(defs) != 2 {
		t.Fatal(defs, err)
	}
	equal(t, "content", defs[0].Content.String(), `{"$template":{"name":"%{globals:net.name}"}}`)
	equal(t, "no content", defs[1].Content.String(), `null`)
}

// The content of a definition is the client's own unless it is marked (the original stores it and never reads it).
// What an earlier release wrote counts as it did then, also after keys of it were edited, until it is replaced.
func TestWhatContentCounts(t *testing.T) {
	d := fuel(t, "nodes")
	at := target("9/nodes=1/astute")
	effective := func(want string) {
		t.Helper()
		equal(t, "effective", d.ask(Query{Target: at, Effective: true}), want)
	}
	put := func(text string) {
		t.Helper()
		v := doc(t, text)
		d.must(EditDefinition{ID: 1, Content: &v})
	}
	for _, opaque := range []string{`{"key":"nsname.key"}`, `{"key":"%{globals:}"}`, `{"$template":{"a":1},"b":2}`,
		`{"$template":[1]}`, `["$template"]`, `"%{x:"`, `{}`} {
		put(opaque)
		effective(`{}`)
	}
	put(`{"$template":{"key":1}}`)
	effective(`{"key":1}`)
	d.must(EditContent{ID: 1, Edit: edit(t, configdb.KeysSet, `[["$template","more",2]]`)})
	effective(`{"key":1,"more":2}`)
	d.must(DeclareSecrets{ID: 1, Keys: []string{"key"}})
	for reveal, want := range map[bool]string{false: `{"$template":{"key":{"$masked":true},"more":2}}`,
		true: `{"$template":{"key":1,"more":2}}`} {
		shown := ok(d.state.Definition(1, d.store, reveal))(t)
		equal(t, "shown", shown.Content.String(), want)
	}
	d.must(DeclareSecrets{ID: 1})
	put(`{"old":1}`)
	// As an earlier release left it: no form is written beside it.
	own := d.state.draft()
	was := *d.state.definitions[d.state.byID.definitions[1]]
	was.Contents = []content{{Revision: 1, SHA: was.content(0).SHA}}
	if err := own.apply(serialKey(folderDefinitions, was.serial), encode(was)); err != nil {
		t.Fatal(err)
	}
	ok(d.store.Commit(kv.Txn{Then: []kv.Op{kv.Put(serialKey(folderDefinitions, was.serial), encode(was))}}))(t)
	d.state = own.s
	effective(`{"old":1}`)
	d.must(EditContent{ID: 1, Edit: edit(t, configdb.KeysSet, `[["more",2]]`)})
	effective(`{"more":2,"old":1}`)
	put(`{"new":1}`)
	effective(`{}`)
}
