package model

import (
	"strings"
	"testing"
)

// TestWritesOfTheModelAreRefused holds every refusal of the rows of the seed's reference §1.1 and §1.3.
func TestWritesOfTheModelAreRefused(t *testing.T) {
	d := fuel(t, "lvl1", "lvl2")
	d.must(CreateComponent{Name: "other", Definitions: []Definition{{Name: "astute"}, {Name: "x"}}})
	d.must(CreateEnvironment{ID: id(4), Components: []Ref{{Name: "component1"}, {Name: "other"}},
		Levels: []string{"nodes"}})
	d.must(Put{Target: target("4/nodes=3/x"), Kind: Overrides, Value: doc(t, "{}")})
	d.must(PutNode{4, Node{ID: "1", FQDN: "node-1.example"}})
	d.must(EditEnvironment{ID: 4, StrictNodes: new(true)})
	long := strings.Repeat("ä", MaxName+1)
	name, empty := "component1", ""
	none := (*int64)(nil)
	missing := int64(99)
	gone := &missing
	for what, c := range map[string]struct {
		w    Write
		want string
	}{
		"component without a name": {CreateComponent{}, "1 name of a component: required"},
		"component of a long name": {CreateComponent{Name: long},
			"1 name of a component: invalid length of 129 characters"},
		"component of a strange name": {CreateComponent{Name: "a\x00"}, "1 name of a component"},
		"component of a taken id": {CreateComponent{ID: id(7), Name: "new"},
			"3 component id 7: duplicate key value violates unique constraint"},
		"component of no id":     {CreateComponent{ID: id(0), Name: "new"}, "1 id of a component: invalid value 0"},
		"component of a huge id": {CreateComponent{ID: id(MaxID + 1), Name: "new"}, "1 id of a component"},
		"component of a taken name": {CreateComponent{Name: "component1"},
			`3 component name "component1": duplicate key value violates unique constraint: it is that of component 7`},
		"component with a bad resource": {CreateComponent{Name: "new", Definitions: []Definition{{}}},
			"1 name of a resource_definition: required"},
		"rename of no component": {EditComponent{ID: 99, Name: &name}, "2 component 99: is not there"},
		"rename to a taken name": {EditComponent{ID: 1, Name: &name}, "3 component name"},
		"rename to nothing":      {EditComponent{ID: 1, Name: &empty}, "1 name of a component: required"},
		"members that are not there": {EditComponent{ID: 1, Definitions: &[]int64{99}},
			"2 resource_definition 99: is not there"},
		"delete of no component":         {DeleteComponent{99}, "2 component 99"},
		"resource without a name":        {CreateDefinition{}, "1 name of a resource_definition"},
		"resource of a taken id":         {CreateDefinition{ID: id(1), Name: "new"}, "3 resource_definition id 1"},
		"resource of no component":       {CreateDefinition{Name: "new", Component: gone}, "2 component 99"},
		"resource moved to no component": {EditDefinition{ID: 1, Component: &gone}, "2 component 99"},
		"edit of no resource":            {EditDefinition{ID: 99, Component: &none}, "2 resource_definition 99"},
		"resource renamed to nothing":    {EditDefinition{ID: 1, Name: &empty}, "1 name of a resource_definition"},
		"content of no resource":         {EditContent{ID: 99}, "2 resource_definition 99"},
		"delete of no resource":          {DeleteDefinition{99}, "2 resource_definition 99"},
		"secrets of no resource":         {DeclareSecrets{ID: 99}, "2 resource_definition 99"},
		"environment of a taken id":      {CreateEnvironment{ID: id(9)}, "3 environment id 9"},
		"environment of no component":    {CreateEnvironment{Components: []Ref{{ID: 99}}}, "2 component 99"},
		"environment of no such name":    {CreateEnvironment{Components: []Ref{{Name: "7"}}}, `2 component "7"`},
		"environment of one twice": {CreateEnvironment{Components: []Ref{{Name: "component1"}, {ID: 7}}},
			"3 components of an environment: 7"},
		"environment of a level twice": {CreateEnvironment{Levels: []string{"a", "a"}},
			`3 hierarchy_levels: "a" is there twice`},
		"level resources": {CreateEnvironment{Levels: []string{"resources"}},
			`1 name of a level: "resources"`},
		"level with a slash":            {CreateEnvironment{Levels: []string{"a/b"}}, `1 name of a level: "a/b"`},
		"level without a name":          {EditEnvironment{ID: 9, Levels: &[]string{""}}, "1 name of a level: required"},
		"edit of no environment":        {EditEnvironment{ID: 99}, "2 environment 99: is not there"},
		"components that are not there": {EditEnvironment{ID: 9, Components: &[]Ref{{ID: 99}}}, "2 component 99"},
		"delete of no environment":      {DeleteEnvironment{99}, "2 environment 99"},
		"rename of no level":            {RenameLevel{9, Ref{Name: "x"}, "y"}, `2 level "x": is not one of environment 9`},
		"rename of no level's id":       {RenameLevel{9, Ref{ID: 99}, "y"}, "2 level 99"},
		"rename to another level":       {RenameLevel{9, Ref{Name: "lvl1"}, "lvl2"}, `3 level "lvl2"`},
		"rename to resources":           {RenameLevel{9, Ref{Name: "lvl1"}, "resources"}, "1 name of a level"},
		"node of no environment":        {PutNode{99, Node{ID: "1"}}, "2 environment 99"},
		"node without an id":            {PutNode{9, Node{}}, `1 name of a node: ""`},
		"node of another's name": {PutNode{4, Node{ID: "2", Certname: "node-1.example"}},
			`3 node "2": "node-1.example" is a name of node "1" already`},
		"node whose id is an alias":   {PutNode{4, Node{ID: "node-1.example"}}, `3 node "node-1.example"`},
		"node of a name with records": {PutNode{4, Node{ID: "2", FQDN: "3"}}, `3 node "2": "3" has records of its own`},
		"delete of no node":           {DeleteNode{4, "2"}, `2 node "2": is not registered in environment 4`},
		"values of no environment":    {Put{Target: target("99/astute"), Kind: Values}, "2 environment 99"},
		"values of no resource": {Put{Target: target("9/x"), Kind: Values},
			"2 resource_definition not found by x in environment 9"},
		"values of another's resource": {Put{Target: target("9/3"), Kind: Values},
			"2 resource_definition not found by 3 in environment 9"},
		"values of two resources": {Put{Target: target("4/astute"), Kind: Values},
			`3 resource_definition "astute" in environment 4: is the name of 1 and of 3: must be an id`},
		"values that are a list": {Put{Target: target("9/astute"), Kind: Values, Value: doc(t, "[]")},
			"1 values: not a JSON object"},
		"overrides that are null": {Put{Target: target("9/astute"), Kind: Overrides, Value: doc(t, "null")},
			"1 overrides: not a JSON object"},
		"values that are nothing": {Put{Target: target("9/astute"), Kind: Values}, "1 values: not a JSON object"},
		"neither values nor overrides": {Put{Target: target("9/astute"), Kind: "x", Value: doc(t, "{}")},
			`1 kind: invalid value "x"`},
		"a level that is skipped": {Put{Target: target("9/lvl2=x/astute"), Kind: Values},
			"2 Unexpected level name 'lvl2'. Expected 'lvl1'."},
		"a level too many": {Put{Target: target("9/lvl1=1/lvl2=2/lvl3=3/astute"), Kind: Values},
			"2 Levels [u'lvl1', u'lvl2', u'lvl3'] can't be matched with environment 9 levels: [u'lvl1', u'lvl2']"},
		"a level without a value": {Put{Target: target("9/lvl1=/astute"), Kind: Values}, `1 value of level lvl1: ""`},
		"overrides of a strange node": {Put{Target: target("4/nodes=2/x"), Kind: Overrides, Value: doc(t, "{}"),
			Register: true}, `2 node "2": is not registered in environment 4`},
		"removal of nothing": {Remove{Target: target("9/astute"), Kind: Values},
			`2 values of "astute": are not there`},
		"keys of nothing": {EditKeys{Target: target("9/astute"), Kind: Values},
			`2 values of "astute": were never written`},
		"rollback to nothing": {Rollback{Target: target("9/astute"), Kind: Values},
			"1 rollback: must be a version or a revision"},
		"rollback to no version": {Rollback{Target: target("9/astute"), Kind: Values, Version: 1},
			`2 version 1 of the values of "astute": is not there`},
		"rollback to the future": {Rollback{Target: target("9/astute"), Kind: Values, Revision: 1000},
			"2 revision 1000: is not there"},
		"rollback of all to a version": {Rollback{Target: Target{Environment: 9}, Version: 1},
			"1 rollback: of all resources of a place"},
		"bulk with one that is wrong": {Bulk{[]Write{DeleteEnvironment{9}, DeleteEnvironment{9}}},
			"2 write 2 of 2: environment 9: is not there"},
		"bulk in a bulk":   {Bulk{[]Write{Bulk{}}}, "1 bulk: write 1: is a bulk"},
		"bulk of too many": {Bulk{make([]Write, MaxBulk+1)}, "5 bulk: too many writes (5001)"},
		"no write":         {nil, "1 write: unknown type <nil>"},
	} {
		if got := d.refused(c.w); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s…", what, got, c.want)
		}
	}
}
