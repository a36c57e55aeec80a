package history

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/kv"
)

const line = `topology={"name":"t","nodes":[{"name":"n1","mac_addr":"02:00:00:00:00:01","site_name":"s","extra":1},{"name":"n2","mac_addr":"02:00:00:00:00:02","site_name":"s"}],` +
	`"links":[{"name":"link-n1-n2","a_node_name":"n1","z_node_name":"n2"}],"sites":[{"name":"s"}]}`

// join puts a joined node, and join tokens for names.
func (s *store) join(t tester, id, name string, tokens ...string) {
	t.Helper()
	var txn kv.Txn
	if id != "" {
		txn.Then = append(txn.Then,
			kv.Put(NodeKey(id), fmt.Appendf(nil, `{"id":%q,"name":%q,"board":"b"}`, id, name)),
			kv.Put(NameKey(name), []byte(id)))
	}
	for _, token := range tokens {
		txn.Then = append(txn.Then, kv.Put(TokenKey(token), fmt.Appendf(nil, `{"name":%q,"hash":"h-%s"}`, token, token)))
	}
	ok(s.Commit(txn))(t)
}

// members returns the keys of joined nodes and tokens, in one line.
func (s *store) members(t tester) string {
	t.Helper()
	var got []string
	for _, folder := range []kv.Prefix{folderNames, folderNodes, folderTokens} {
		for _, e := range ok(s.List(folder, kv.ListOptions{}))(t).Entries {
			got = append(got, string(e.Key)+"="+string(e.Value))
		}
	}
	return strings.Join(got, " ")
}

func TestARenameIsOneTransactionOverAllThatHasTheName(t *testing.T) {
	s := told(t, "ann: "+line+`; node/n1={"a":1}; auto/n1={"b":1}; node/n2={}`)
	s.join(t, "id1", "n1", "n1")
	s.join(t, "id2", "n2")
	p := ok(s.head(t).Plan(signed(ok(s.head(t).Rename("n1", "n/3"))(t))))(t)
	equal(t, "transactions", len(p.Txns), 1)
	if err := s.runPlan(p, 1); err != nil {
		t.Fatal(err)
	}
	state := s.head(t)
	equal(t, "members", s.members(t), `names/n%2F3=id1 names/n2=id2 `+
		`nodes/id1={"board":"b","id":"id1","name":"n/3"} nodes/id2={"id":"id2","name":"n2","board":"b"} `+
		`tokens/n%2F3={"hash":"h-n1","name":"n/3"}`)
	got := tell(t, state)
	for _, want := range []string{`node/n%2F3={"a":1}`, `auto/n%2F3={"b":1}`, `"name":"n/3"`, `"a_node_name":"n/3"`,
		`link-n/3-n2`, `"extra":1`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "n1") {
		t.Errorf("n1 is still in %s", got)
	}
	equal(t, "record", fmt.Sprint(state.Number, ok(state.Log(1))(t)[0].Renamed), "2 [{n1 n/3}]")
}

func TestAPeerIsRenamedInItsClustersAndBack(t *testing.T) {
	s := told(t, `ann: peer/n1={"kind":"PeerDescriptor","metadata":{"name":"n1"}}; `+
		`cluster/c={"spec":{"leader":"n1","members":{"n1":{"underlay":"u"},"n2":{}}}}; deployment/c={"vnis":{"n1 n2":256}}`)
	before := tell(t, s.head(t))
	s.join(t, "id1", "n1")
	if err := s.runPlan(ok(s.head(t).Plan(signed(ok(s.head(t).Rename("n1", "n3"))(t))))(t), 1); err != nil {
		t.Fatal(err)
	}
	got := tell(t, s.head(t))
	for _, want := range []string{
		// tell leaves blanks out
		`peer/n3={"kind":"PeerDescriptor","metadata":{"name":"n3"}}`, `"leader":"n3"`, `"n3":{"underlay":"u"}`, `"n2n3":256`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "n1") {
		t.Errorf("n1 is still in %s", got)
	}
	if err := s.runPlan(ok(s.head(t).Plan(signed(ok(s.head(t).Revert(2))(t))))(t), 1); err != nil {
		t.Fatal(err)
	}
	equal(t, "taken back", tell(t, s.head(t)), before)
	if _, err := s.head(t).Rename("n1", "n 3"); err == nil || !strings.Contains(err.Error(), "without spaces") {
		t.Error(err)
	}
}

func TestWhatCantBeRenamed(t *testing.T) {
	s := told(t, "ann: "+line+`; node/n1={"a":1}; node/n3={}; auto/n4={}`)
	s.join(t, "id5", "n5", "n6")
	for _, c := range []struct{ from, to, want string }{
		{"n1", "n2", `nodes.0.name: invalid value "n2", the name of a node on site "s"`},
		{"n3", "n2", `topology.nodes: has "n2" already`},
		{"n1", "n3", `node/n3: exists already`},
		{"n4", "n1", `topology.nodes: has "n1" already`},
		{"n1", "n4", `auto/n4: exists already`},
		{"n1", "n5", `names/n5: exists already`},
		{"n1", "n6", `tokens/n6: exists already`},
		{"n5", "n6", `tokens/n6: exists already`},
		{"n9", "n8", `name: has no "n9": must be a known node`},
		{"n1", "", `name: invalid value "": must be another name`},
		{"n1", "n1", `name: invalid value "n1": must be another name`},
		{"n1", strings.Repeat("x", 1100), `1106 bytes`},
	} {
		_, err := s.head(t).Rename(c.from, c.to)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %.9s: %v", c.from, c.to, err)
		}
	}
}

func TestANodeThatJoinsMeanwhileIsNotLeftBehind(t *testing.T) {
	s := told(t, "ann: "+line)
	c := signed(ok(s.head(t).Rename("n1", "n3"))(t))
	p := ok(s.head(t).Plan(c))(t)
	s.join(t, "id1", "n1")
	equal(t, "refused", errors.Is(s.runPlan(p, 1), errMoved), true)
	equal(t, "state", s.head(t).Number, 1)
	s.write(t, ok(s.head(t).Rename("n1", "n3"))(t))
	equal(t, "members", s.members(t), `names/n3=id1 nodes/id1={"board":"b","id":"id1","name":"n3"}`)
}

func TestATokenIsBoundToOneNameAndGoesWithIt(t *testing.T) {
	s := newStore()
	s.join(t, "", "", "n1")
	s.write(t, ok(s.head(t).Rename("n1", "n2"))(t))
	equal(t, "members", s.members(t), `tokens/n2={"hash":"h-n1","name":"n2"}`)
}

func TestRestore(t *testing.T) {
	lines := []string{
		`ann: network={"a":1}; node/n1={"a":1}`,
		`bob: network={"a":2}; node/n2={}`,
		`cat: node/n1={"a":3}; auto/n1={}`,
	}
	for _, c := range []struct {
		to     uint64
		layers string
		want   string
	}{
		{0, "", ""},
		{1, "", `network={"a":1}; node/n1={"a":1}`},
		{1, "network", `auto/n1={}; network={"a":1}; node/n1={"a":3}; node/n2={}`},
		{1, "node/n2 auto/n1", `network={"a":2}; node/n1={"a":3}`},
		{2, "", `network={"a":2}; node/n1={"a":1}; node/n2={}`},
		{3, "", `auto/n1={}; network={"a":2}; node/n1={"a":3}; node/n2={}`},
	} {
		s := told(t, lines...)
		var desired []Layer
		for _, l := range strings.Fields(c.layers) {
			desired = append(desired, layer(t, l))
		}
		s.write(t, ok(s.head(t).Restore(c.to, desired...))(t))
		equal(t, fmt.Sprint("restored to ", c.to, " ", c.layers), tell(t, s.head(t)), c.want)
		equal(t, "what was is kept", tell(t, ok(At(s, 3))(t)), `auto/n1={}; network={"a":2}; node/n1={"a":3}; node/n2={}`)
	}
	s := told(t, lines...)
	if _, err := s.head(t).Restore(4); err == nil {
		t.Error("a revision to come is restored")
	}
}

func TestRevert(t *testing.T) {
	for _, c := range []struct {
		name   string
		lines  []string
		revert uint64
		want   string
		fault  string
	}{
		{"the newest", []string{`a: network={"a":1}`, `b: network={"a":2}; node/n1={}`}, 2, `network={"a":1}`, ""},
		{"what others wrote stays", []string{`a: network={"a":1,"b":{"x":1}}`, `b: network={"a":2,"b":{"x":1,"y":1}}`,
			`c: network={"a":2,"b":{"x":5,"y":1},"c":1}`}, 2, `network={"a":1,"b":{"x":5},"c":1}`, ""},
		{"the first", []string{`a: network={"a":1}`, `b: node/n1={}`}, 1, `node/n1={}`, ""},
		{"of several layers", []string{`a: node/n1={"a":1}; node/n2={"a":1}`, `b: node/n1={"a":2}; node/n2=; auto/n3={}`,
			`c: network={}`}, 2, `network={}; node/n1={"a":1}; node/n2={"a":1}`, ""},
		{"what stands again", []string{`a: network={"a":1}`, `b: network={"a":2}`, `c: network={"a":1}`}, 2,
			`network={"a":1}`, ""},
		{"an object that it made goes if nothing is left", []string{`a: network={}`,
			`b: network={"o":{"x":1,"y":1}}`, `c: network={"o":{"x":1}}`}, 2, `network={}`, ""},
		{"an object that it made stays for what is in it", []string{`a: network={}`,
			`b: network={"o":{"x":1}}`, `c: network={"o":{"x":1,"y":1}}`}, 2, `network={"o":{"y":1}}`, ""},
		{"changed again", []string{`a: network={"a":1}`, `b: network={"a":2}`, `c: network={"a":3}`}, 2, ``,
			`network.a: was changed again by revision 3 by c at`},
		{"deleted since", []string{`a: node/n1={"a":1}`, `b: node/n1={"a":2}`, `c: node/n1=`}, 2, ``,
			`node/n1: was changed again by revision 3 by c at`},
		{"written since it was deleted", []string{`a: node/n1={"a":1}`, `b: node/n1=`, `c: node/n1={"b":2}`}, 2, ``,
			`node/n1: was changed again by revision 3 by c at`},
		{"all faults at once", []string{`a: network={"a":1,"l":[1]}`,
			`b: network={"a":2,"l":[2]}`, `c: network={"a":3,"l":[3]}`}, 2, ``, "\nnetwork.l: was changed again"},
		{"a rename", []string{`a: node/n1={"a":1}; ` + line, `b: n1 -> n3`, `c: node/n3={"a":2}`}, 2,
			`node/n1={"a":2}; topology`, ""},
	} {
		s := told(t, c.lines...)
		change, err := s.head(t).Revert(c.revert)
		if c.fault != "" {
			var faults config.Faults
			if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		s.write(t, change)
		if got := tell(t, s.head(t)); got != c.want &&
			!(strings.HasSuffix(c.want, "topology") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	s := told(t, `a: node/n1={}`, `b: n1 -> n3`)
	s.write(t, ok(s.head(t).Restore(0))(t)) // which gives n3 its name back, and deletes it
	s.write(t, ok(s.head(t).Revert(3))(t))
	equal(t, "a restore across a rename, reverted", tell(t, s.head(t)), `node/n3={}`)
	early := told(t, `a: network={}`)
	before := early.head(t)
	early.write(t, Change{Layers: layersFrom(t, `network={"a":1}`)})
	if _, err := before.Revert(2); err == nil {
		t.Error("a state takes back what came after it")
	}
	for _, number := range []uint64{0, 2} {
		if _, err := told(t, `a: network={}`).head(t).Revert(number); err == nil {
			t.Errorf("revision %d is reverted", number)
		}
	}
}

func TestRollbackOverRenamesGivesNodesTheirNamesBack(t *testing.T) {
	lines := []string{
		"ann: " + line + `; node/n1={"is":1}; node/n2={"is":2}`,
		"ann: n1 -> n3", "ann: n2 -> n1", "ann: n3 -> n2", // they exchange names
	}
	first := ``
	for _, c := range []struct{ name, layers, want string }{
		{"all", "", `node/n1={"is":1}; node/n2={"is":2}`},
		{"the topology, and what hangs on it", "topology", `node/n1={"is":1}; node/n2={"is":2}`},
		{"a layer alone", "node/n1", `node/n1={"is":1}; node/n2={"is":1}`},
	} {
		s := newStore()
		for i, l := range lines {
			_, text, _ := strings.Cut(l, ": ")
			if from, to, is := strings.Cut(text, " -> "); is {
				s.write(t, ok(s.head(t).Rename(from, to))(t))
			} else {
				s.write(t, Change{Layers: layersFrom(t, text)})
			}
			if i == 0 {
				s.join(t, "id1", "n1", "n1")
				s.join(t, "id2", "n2")
				first = s.members(t)
			}
		}
		swapped := s.members(t)
		equal(t, "changed places", strings.Contains(swapped, "names/n1=id2 names/n2=id1") &&
			strings.Contains(swapped, "tokens/n2="), true)
		var desired []Layer
		if c.layers != "" {
			desired = append(desired, layer(t, c.layers))
		}
		s.write(t, ok(s.head(t).Restore(1, desired...))(t))
		got := tell(t, s.head(t))
		equal(t, c.name, strings.HasPrefix(got, c.want), true)
		back := strings.Contains(s.members(t), "names/n1=id1 names/n2=id2") && strings.Contains(s.members(t), "tokens/n1=")
		equal(t, c.name+": names", back, c.layers != "node/n1")
		if back {
			equal(t, c.name+": topology", strings.Contains(got, `"mac_addr":"02:00:00:00:00:01","name":"n1"`), true)
			equal(t, "as many keys", len(s.members(t)), len(first))
		}
	}
}

// If another write changed a renamed member, the change is kept when the name is reverted.
func TestARenameIsTakenBackUnderneathLaterChanges(t *testing.T) {
	s := told(t, `ann: peer/n1={"kind":"PeerDescriptor","metadata":{"name":"n1"}}; `+
		`cluster/c={"spec":{"leader":"n1","members":{"n1":{"underlay":"u"},"n2":{}}}}; deployment/c={"vnis":{"n1 n2":256}}`,
		"ann: n1 -> n3", `bob: cluster/c={"spec":{"leader":"n3","members":{"n3":{"underlay":"w"},"n2":{}}}}; `+
			`deployment/c={"vnis":{"n2 n3":300}}`)
	s.write(t, ok(s.head(t).Revert(2))(t))
	equal(t, "taken back", tell(t, s.head(t)),
		`cluster/c={"spec":{"leader":"n1","members":{"n1":{"underlay":"w"},"n2":{}}}}; `+
			`deployment/c={"vnis":{"n1n2":300}}; peer/n1={"kind":"PeerDescriptor","metadata":{"name":"n1"}}`)
}

func TestAMemberThatIsNoObjectIsNotRenamed(t *testing.T) {
	for value, want := range map[string]string{`null`: "is not an object", `[]`: "cannot unmarshal",
		`{`: "unexpected end"} {
		s := told(t, `ann: node/n1={}`)
		s.join(t, "id1", "n1")
		ok(s.Commit(kv.Txn{Then: []kv.Op{kv.Put(NodeKey("id1"), []byte(value))}}))(t)
		if _, err := s.head(t).Rename("n1", "n2"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestARollbackLeavesOlderRenamesAlone(t *testing.T) {
	s := told(t, `ann: node/n1={"a":1}`, "ann: n1 -> n2", `ann: node/n2={"a":2}`, `ann: node/n2={"a":3}`)
	s.join(t, "id2", "n2")
	s.write(t, ok(s.head(t).Restore(3))(t))
	equal(t, "restored", tell(t, s.head(t)), `node/n2={"a":2}`)
	equal(t, "members", s.members(t), `names/n2=id2 nodes/id2={"id":"id2","name":"n2","board":"b"}`)
}

func TestHistoryFollowsNodesThatSayTheSameAndChangePlaces(t *testing.T) {
	s := told(t, `ann: node/n1={"a":1}`, `bob: node/n2={"a":1}`, "ann: n1 -> n3", "ann: n2 -> n1", "ann: n3 -> n2")
	s.write(t, ok(s.head(t).Restore(2))(t))
	for l, want := range map[string]string{"node/n1": "1 ann", "node/n2": "2 bob"} {
		change, _, err := s.head(t).LastChange(layer(t, l), []string{"a"})
		equal(t, l, fmt.Sprint(change.By.Number, " ", change.By.Author, err), want+"<nil>")
	}
}

func TestATopologyThatIsRestoredAloneTakesLayersAlong(t *testing.T) {
	s := told(t, "ann: "+line+`; node/n1={"a":1}`, "bob: n1 -> n3", `cat: node/n3={"a":2}; auto/n3={}; network={}`)
	s.join(t, "id3", "n3")
	s.write(t, ok(s.head(t).Restore(1, Layer{Kind: Topology}))(t))
	got, _, _ := strings.Cut(tell(t, s.head(t)), "; topology=")
	equal(t, "layers", got, `auto/n1={}; network={}; node/n1={"a":2}`)
	equal(t, "members", s.members(t), `names/n1=id3 nodes/id3={"board":"b","id":"id3","name":"n1"}`)
	equal(t, "history", len(ok(s.head(t).History(Layer{Node, "n1"}, 0))(t)), 4)

	for name, meanwhile := range map[string]func(*store){
		"node/n1: exists already":  func(s *store) { s.write(t, Change{Layers: layersFrom(t, `node/n1={}`)}) },
		"names/n1: exists already": func(s *store) { s.join(t, "id1", "n1") },
	} {
		s := told(t, "ann: "+line+`; node/n1={"a":1}`, "bob: n1 -> n3")
		s.join(t, "id3", "n3")
		meanwhile(s)
		if _, err := s.head(t).Restore(1, Layer{Kind: Topology}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesBefore(t *testing.T) {
	for _, c := range []struct {
		name    string
		renames string // one revision each, the newest first; "!" is one without
		want    string
	}{
		{"none", "!", "map[]"},
		{"one", "a>b", "map[b:a]"},
		{"on and on", "b>c !  a>b", "map[c:a]"},
		{"there and back", "b>a a>b", "map[a:a]"},
		{"its name was taken over", "a>b b>c z>b", "map[b:a c:z]"},
		{"two at once", "a>b,b>a", "map[a:b b:a]"},
		{"a younger node took the name on", "a>c a>b", "map[b:a]"},
		{"and now has the name of one that is gone", "a>c a>b x>c", "map[b:a]"},
	} {
		var records []RevisionRecord
		for _, one := range strings.Fields(c.renames) {
			var record RevisionRecord
			for _, r := range strings.Split(one, ",") {
				if from, to, is := strings.Cut(r, ">"); is {
					record.Renamed = append(record.Renamed, Rename{from, to})
				}
			}
			records = append(records, record)
		}
		equal(t, c.name, fmt.Sprint(originalNames(records)), c.want)
	}
}
