package main

import (
	"strings"
	"testing"

	"edgespan/cmd/term"
)

const topologyFile = "../../config/testdata/terragraph/topology_conf/topology_"

func TestLayersRolloutPlan(t *testing.T) {
	dead := "node-2 is in no batch: its site has no path to a point of presence\n"
	for _, c := range []struct {
		name string
		args string
		want said
	}{
		{"the links of the sample are dead", topologyFile + "1dn_1dn.conf", said{term.ExitPartial, "BATCH  SITE  NODE\n1      A     node-1\n", dead}},
		{"as if they were up", "--assume-alive " + topologyFile + "1dn_1dn.conf", said{term.ExitOK, "BATCH  SITE  NODE\n1      A     node-1\n1      B     node-2\n", ""}},
		{"json", "-o json " + topologyFile + "1dn_1dn.conf", said{term.ExitPartial, `{
  "batches": [
    [
      "node-1"
    ]
  ],
  "unreachable": [
    {
      "node": "node-2",
      "reason": "its site has no path to a point of presence"
    }
  ]
}
`, dead}},
		{"the client nodes alone", "-o name --assume-alive --pending node-2,node-5 --pending node-3 " + topologyFile + "1dn_4cn.conf", said{term.ExitOK, "node-2\nnode-3\nnode-5\n", ""}},
		{"both ways around a ring", "--assume-alive --pending node-9,node-12,node-14,node-15 " + topologyFile + "figure0.conf", said{term.ExitOK, `BATCH  SITE  NODE
1      A     node-12
1      A     node-9
2      C     node-14
2      C     node-15
`, ""}},
		{"nothing pending", "--pending= -o json " + topologyFile + "1dn_1dn.conf", said{term.ExitOK, "{\n  \"batches\": [],\n  \"unreachable\": []\n}\n", ""}},
		{"pending names that are no nodes", "--pending node-9,node-1,node-8 -o json " + topologyFile + "1dn_1dn.conf", said{term.ExitRejected, "", topologyFile +
			"1dn_1dn.conf: pending: is \"node-8\", which is no node of the topology: names of its nodes are allowed\n" + topologyFile +
			"1dn_1dn.conf: pending: is \"node-9\", which is no node of the topology: names of its nodes are allowed\n"}},
		{"no file", topologyFile + "none.conf", said{term.ExitNotFound, "", "open " + topologyFile + "none.conf: no such file or directory\n"}},
		{"no argument", "", said{term.ExitUsage, "", "rollout-plan: has 0 arguments: one topology file is allowed\n"}},
		{"no such form", "-o xml " + topologyFile + "1dn_1dn.conf", said{term.ExitUsage, "", "-o: is \"xml\": table wide json yaml name are allowed\n"}},
	} {
		got := cli(t, nil, "", append([]string{"layers", "rollout-plan"}, strings.Fields(c.args)...)...)
		if got != c.want {
			t.Errorf("%s: exit %d\n%s%swant exit %d\n%s%s", c.name, got.code, got.out, got.err, c.want.code, c.want.out, c.want.err)
		}
	}
}

func TestLayersRolloutPlanReadsStdinAndTellsEveryFault(t *testing.T) {
	got := cli(t, nil, `{"nodes": [{"name": "a", "site_name": "x"}, {"name": "a"}], "sites": []}`, "layers", "rollout-plan", "-")
	want := said{term.ExitRejected, "", `-: nodes.0.site_name: is "x", which is no site: the name of a site is allowed
-: nodes.1.name: is "a", as nodes.0 has it: each name once is allowed
-: nodes.1.site_name: is missing: a string is required
`}
	if got != want {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}
