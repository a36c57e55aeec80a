package layerscli

import (
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
)

const topologyFile = "../../../config/testdata/terragraph/topology_conf/topology_"

func TestLayersRolloutPlan(t *testing.T) {
	dead := "node-2: in no batch: its site has no path to a point of presence\n"
	for _, c := range []struct {
		name string
		args string
		want clitest.Said
	}{
		{"the links of the sample are dead", topologyFile + "1dn_1dn.conf",
			clitest.Said{Code: term.ExitPartial, Out: "BATCH  SITE  NODE\n1      A     node-1\n", Err: dead}},
		{"as if they were up", "--assume-alive " + topologyFile + "1dn_1dn.conf",
			clitest.Said{Code: term.ExitOK, Out: "BATCH  SITE  NODE\n1      A     node-1\n1      B     node-2\n", Err: ""}},
		{"json", "-o json " + topologyFile + "1dn_1dn.conf", clitest.Said{Code: term.ExitPartial, Out: `{
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
`, Err: dead}},
		{"the client nodes alone", "-o name --assume-alive --pending node-2,node-5 --pending node-3 " + topologyFile +
			"1dn_4cn.conf", clitest.Said{Code: term.ExitOK, Out: "node-2\nnode-3\nnode-5\n", Err: ""}},
		{"both ways around a ring", "--assume-alive --pending node-9,node-12,node-14,node-15 " + topologyFile +
			"figure0.conf", clitest.Said{Code: term.ExitOK, Out: `BATCH  SITE  NODE
1      A     node-12
1      A     node-9
2      C     node-14
2      C     node-15
`, Err: ""}},
		{"nothing pending", "--pending= -o json " + topologyFile + "1dn_1dn.conf",
			clitest.Said{Code: term.ExitOK, Out: "{\n  \"batches\": [],\n  \"unreachable\": []\n}\n", Err: ""}},
		{"pending names that are no nodes", "--pending node-9,node-1,node-8 -o json " + topologyFile + "1dn_1dn.conf",
			clitest.Said{Code: term.ExitRejected, Out: "", Err: topologyFile +
				"1dn_1dn.conf: pending: invalid value \"node-8\", which is not a node of the topology: must be names of its nodes\n" +
				topologyFile +
				"1dn_1dn.conf: pending: invalid value \"node-9\", which is not a node of the topology: must be names of its nodes\n"}},
		{"no file", topologyFile + "none.conf", clitest.Said{Code: term.ExitNotFound,
			Out: "", Err: "open " + topologyFile + "none.conf: no such file or directory\n"}},
		{"no argument", "", clitest.Said{Code: term.ExitUsage, Out: "",
			Err: "rollout-plan: got no arguments: must be one topology file: see 'edgespan layers rollout-plan --help'\n"}},
		{"no such form", "-o xml " + topologyFile + "1dn_1dn.conf",
			clitest.Said{Code: term.ExitUsage, Out: "",
				Err: "-o: invalid value \"xml\": must be table, wide, json, yaml or name\n"}},
	} {
		got := cli(t, nil, "", append([]string{"layers", "rollout-plan"}, strings.Fields(c.args)...)...)
		if got != c.want {
			t.Errorf("%s: exit %d\n%s%swant exit %d\n%s%s", c.name, got.Code, got.Out, got.Err, c.want.Code, c.want.Out,
				c.want.Err)
		}
	}
}

func TestLayersRolloutPlanReadsStdinAndTellsEveryFault(t *testing.T) {
	got := cli(t, nil, `{"nodes": [{"name": "a", "site_name": "x"}, {"name": "a"}], "sites": []}`, "layers",
		"rollout-plan", "-")
	want := clitest.Said{Code: term.ExitRejected, Out: "",
		Err: `-: nodes.0.site_name: invalid value "x", which is not a site: must be the name of a site
-: nodes.1.name: duplicate value "a", also at nodes.0: must be unique
-: nodes.1.site_name: required: must be a string
`}
	if got != want {
		t.Errorf("exit %d\n%s%s", got.Code, got.Out, got.Err)
	}
}
