package fleetapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/rest"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func decodeInto(t *testing.T, text []byte, out any) {
	t.Helper()
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// routeCases have a request for each row, with all its parameters, and the backend's record of it.
var routeCases = []struct{ ask, body, heard string }{
	{`GET nodes?limit=2&after=n`, ``, `Nodes`},
	{`GET nodes/ulm%2F1`, ``, `Node ulm/1`},
	{`GET nodes/n1/config?paths=a.b,%22c.d%22.e&paths=x.*&sw=RELEASE_M1&fw=1.2.3.4&board=B1&reveal=1`, ``,
		`Config {Node:n1 Paths:[[a b] [c.d e] [x *]] Versions:{Software:RELEASE_M1 Firmware:1.2.3.4 Board:B1} Reveal:true}`},
	{`GET nodes/n1/explain?path=a.%22b.c%22`, ``, `Explain n1 ["a" "b.c"]`},
	{`GET config?nodes=n1,n2&nodes=%22a,b%22&paths=a.b&reveal=1&limit=7&after=n`, ``,
		`Paths {Nodes:[n1 n2 a,b] Paths:[[a b]] Reveal:true After:n Limit:7}`},
	{`POST nodes/n1/invite?life=90m&replace=1`, ``, `Invite n1 1h30m0s true by=admin-1`},
	{`POST nodes/n1/adopt?mode=import`, ``, `Command n1 adopt-import by=admin-1`},
	{`POST nodes/n1/adopt?mode=replace`, ``, `Command n1 adopt-replace by=admin-1`},
	{`POST nodes/n1/retry`, ``, `Command n1 retry by=admin-1`},
	{`POST nodes/n1/release`, ``, `Command n1 release by=admin-1`},
	{`POST nodes/n1/confirm`, ``, `Command n1 confirm by=admin-1`},
	{`POST nodes/n1/renew`, ``, `Command n1 renew by=admin-1`},
	{`POST nodes/n1/support?since=2h`, ``,
		`Support n1 {Since:2h0m0s NoLogs:false Flows:false By:admin-1}; Support closed`},
	{`POST nodes/n1/shell`, `{"op": "restart", "args": ["a"], "write": true}`,
		`Shell n1 {Op:restart Args:[a] Write:true By:admin-1}; Shell closed`},
	{`POST nodes/n1/forget`, ``, `Command n1 forget by=admin-1`},
	{`GET events?node=n1&object=ni%2Fa&kind=state&since=2026-01-31T10:00:00Z&last=7&why=1`, ``,
		`Events n1 ni/a state 2026-01-31T10:00:00Z 7 true`},
	{`GET events`, ``, `Events    0001-01-01T00:00:00Z 100 false`},
	{`GET events?last=99999`, ``, `Events    0001-01-01T00:00:00Z 1000 false`},
	{`GET boards`, ``, `Hardware`},
	{`GET boards/B%2F1?node=n1&reveal=1`, ``, `HardwareConfig B/1 n1 true`},
	{`POST boards/B1/accept?node=n1&digest=d1`, ``, `AcceptHardware B1 n1 d1 by=admin-1`},
	{`POST boards/B1/reject`, ``, `RejectHardware B1  by=admin-1`},
	{`POST history/prune?before=2020-01-02T03:04:05%2B01:00`, ``,
		`PruneHistory 2020-01-02T02:04:05Z dry=false by=admin-1`},
	{`POST history/prune?before=2020-01-02T02:04:05Z&dryRun=1`, ``,
		`PruneHistory 2020-01-02T02:04:05Z dry=true by=admin-1`},
	{`GET bisects`, ``, `Bisects`},
	{`POST bisects`, `{"nodes":["n1"],"good":3,"bad":9,"health":"port/wan","timeoutS":60}`,
		`StartBisect {Nodes:[n1] Canary: Good:3 Bad:9 Health:port/wan TimeoutS:60 SettleS:0} by=admin-1`},
	{`POST bisects/n1/abort`, ``, `AbortBisect n1 by=admin-1`},
	{`DELETE boards/B1`, ``, `ForgetHardware B1 by=admin-1`},
	{`GET layers/base?versions=A,B&reveal=1`, ``, `Layer {Layer:base Nodes:[] Versions:[A B] Boards:[] Reveal:true}`},
	{`GET layers/firmware?versions=A`, ``, `Layer {Layer:firmware Nodes:[] Versions:[A] Boards:[] Reveal:false}`},
	{`GET layers/hardware?versions=A&boards=x`, ``,
		`Layer {Layer:hardware Nodes:[] Versions:[A] Boards:[x] Reveal:false}`},
	{`GET layers/auto?nodes=n1`, ``, `Layer {Layer:auto Nodes:[n1] Versions:[] Boards:[] Reveal:false}`},
	{`GET layers/network?reveal=1`, ``, `Layer {Layer:network Nodes:[] Versions:[] Boards:[] Reveal:true}`},
	{`GET layers/node?nodes=n1,n2`, ``, `Layer {Layer:node Nodes:[n1 n2] Versions:[] Boards:[] Reveal:false}`},
	{`DELETE layers/auto?nodes=n1&paths=a.b&message=why&dryRun=1`, ``,
		`Write ops.ClearAuto{Nodes:[n1] Paths:[[a b]]} by=admin-1 message="why" if=map[] dry=true`},
	{`GET layers/node/n1?reveal=1`, ``, `Layer {Layer:node Nodes:[n1] Versions:[] Boards:[] Reveal:true}`},
	{`DELETE layers/node/n1`, ``, `Write ops.Unset{Layer:node Keys:[[n1]]} by=admin-1 message="" if=map[] dry=false`},
	{`DELETE layers/node/n1?paths=a.b,c`, ``,
		`Write ops.Unset{Layer:node Keys:[[n1 a b] [n1 c]]} by=admin-1 message="" if=map[] dry=false`},
	{`PUT layers/network?message=because`, `{"a":{"b":1152921504606846977}}`,
		`Write ops.SetNetwork{Overrides:map[a:map[b:1152921504606846977]] Modify:false} by=admin-1 message="because" ` +
			`if=map[] dry=false`},
	{`PATCH layers/network?dryRun=1`, `{"a":{"b":1152921504606846977}}`,
		`Write ops.SetNetwork{Overrides:map[a:map[b:1152921504606846977]] Modify:true} by=admin-1 message="" if=map[] ` +
			`dry=true`},
	{`POST layers/network/actions`, `{"a":{"b":1152921504606846977}}`,
		`Preview ops.SetNetwork{Overrides:map[a:map[b:1152921504606846977]] Modify:false} by=admin-1`},
	{`POST layers/network/actions?modify=1`, `{"a":{"b":1152921504606846977}}`,
		`Preview ops.SetNetwork{Overrides:map[a:map[b:1152921504606846977]] Modify:true} by=admin-1`},
	{`PUT layers/node?message=because`, `{"n1":{"a":1.0}}`,
		`Write ops.SetNodes{Overrides:map[n1:map[a:1]] Modify:false} by=admin-1 message="because" if=map[] dry=false`},
	{`PATCH layers/node?dryRun=1`, `{"n1":{"a":1.0}}`,
		`Write ops.SetNodes{Overrides:map[n1:map[a:1]] Modify:true} by=admin-1 message="" if=map[] dry=true`},
	{`POST layers/node/actions`, `{"n1":{"a":1.0}}`,
		`Preview ops.SetNodes{Overrides:map[n1:map[a:1]] Modify:false} by=admin-1`},
	{`POST layers/node/actions?modify=1`, `{"n1":{"a":1.0}}`,
		`Preview ops.SetNodes{Overrides:map[n1:map[a:1]] Modify:true} by=admin-1`},
	{`PUT layers/node/n1?message=because`, `{"a":{"b":1152921504606846977}}`,
		`Write ops.SetNodes{Overrides:map[n1:map[a:map[b:1152921504606846977]]] Modify:false} by=admin-1 ` +
			`message="because" if=map[] dry=false`},
	{`PATCH layers/node/n1?dryRun=1`, `{"a":{"b":1152921504606846977}}`,
		`Write ops.SetNodes{Overrides:map[n1:map[a:map[b:1152921504606846977]]] Modify:true} by=admin-1 message="" ` +
			`if=map[] dry=true`},
	{`POST layers/node/n1/actions`, `{"a":{"b":1152921504606846977}}`,
		`Preview ops.SetNodes{Overrides:map[n1:map[a:map[b:1152921504606846977]]] Modify:false} by=admin-1`},
	{`POST layers/node/n1/actions?modify=1`, `{"a":{"b":1152921504606846977}}`,
		`Preview ops.SetNodes{Overrides:map[n1:map[a:map[b:1152921504606846977]]] Modify:true} by=admin-1`},
	{`DELETE layers/network?paths=a`, ``,
		`Write ops.Unset{Layer:network Keys:[[a]]} by=admin-1 message="" if=map[] dry=false`},
	{`DELETE layers/node?paths=n1.a`, ``,
		`Write ops.Unset{Layer:node Keys:[[n1 a]]} by=admin-1 message="" if=map[] dry=false`},
	{`POST optimize/polarity?clearUser=1`, ``,
		`Write ops.Optimize{Kinds:[polarity] ClearUser:true} by=admin-1 message="" if=map[] dry=false`},
	{`POST optimize/golay?clearUser=1`, ``,
		`Write ops.Optimize{Kinds:[golay] ClearUser:true} by=admin-1 message="" if=map[] dry=false`},
	{`POST optimize/channel?clearUser=1`, ``,
		`Write ops.Optimize{Kinds:[channel] ClearUser:true} by=admin-1 message="" if=map[] dry=false`},
	{`POST optimize/control-superframe?clearUser=1`, ``,
		`Write ops.Optimize{Kinds:[superframe] ClearUser:true} by=admin-1 message="" if=map[] dry=false`},
	{`GET peers?limit=2&after=n`, ``, `Peers`},
	{`GET peers/p1`, ``, `Peer p1`},
	{`GET peers/p1/watch`, ``, `Peer p1`},
	{`PUT peers/p1`, `{"kind":"PeerDescriptor","metadata":{"name":"p1"},"spec":{"executors":{"x":{"command":["/bin/x"]}}}}`, `Write ops.Describe{Documents:[map[kind:PeerDescriptor metadata:map[name:p1] spec:map[executors:map[x:map[command:[/bin/x]]]]]]} by=admin-1 message="" if=map[] dry=false`},
	{`DELETE peers/p1?message=gone`, ``,
		`Write ops.Undescribe{Kind:PeerDescriptor Names:[p1]} by=admin-1 message="gone" if=map[] dry=false`},
	{`GET clusters?limit=2&after=n`, ``, `Clusters`},
	{`GET clusters/lab`, ``, `Cluster lab`},
	{`GET clusters/lab/watch`, ``, `Cluster lab`},
	{`PUT clusters/lab?dryRun=1`, `{"kind":"ClusterDescriptor","metadata":{"name":"lab"},"spec":{}}`,
		`Write ops.Describe{Documents:[map[kind:ClusterDescriptor metadata:map[name:lab] spec:map[]]]} by=admin-1 ` +
			`message="" if=map[] dry=true`},
	{`DELETE clusters/lab`, ``,
		`Write ops.Undescribe{Kind:ClusterDescriptor Names:[lab]} by=admin-1 message="" if=map[] dry=false`},
	{`POST clusters/lab/deploy`, ``, `Write ops.Deploy{Clusters:[lab]} by=admin-1 message="" if=map[] dry=false`},
	{`POST clusters/lab/undeploy`, ``, `Write ops.Undeploy{Clusters:[lab]} by=admin-1 message="" if=map[] dry=false`},
	{`POST documents`, `{"documents":[{"kind":"PeerDescriptor","metadata":{"name":"p1"},"spec":{"executors":{"x":{"command":["/bin/x"]}}}},{"kind":"ClusterDescriptor","metadata":{"name":"lab"},"spec":{}}]}`, `Write ops.Describe{Documents:[map[kind:PeerDescriptor metadata:map[name:p1] spec:map[executors:map[x:map[command:[/bin/x]]]]] map[kind:ClusterDescriptor metadata:map[name:lab] spec:map[]]]} by=admin-1 message="" if=map[] dry=false`},
	{`GET topology`, ``, `Topology`},
	{`PUT topology`, `{"nodes":[]}`,
		`Write ops.SetTopology{Document:map[nodes:[]]} by=admin-1 message="" if=map[] dry=false`},
	{`GET topology/nodes`, ``, `Topology`},
	{`POST topology/nodes`, `{"name":"x"}`,
		`Write ops.EditTopology{Object:node Op:add Name: To: Document:map[name:x]} by=admin-1 message="" if=map[] dry=false`},
	{`GET topology/nodes/n1`, ``, `Topology`},
	{`PATCH topology/nodes/n1`, `{"pop_node":true}`,
		`Write ops.EditTopology{Object:node Op:edit Name:n1 To: Document:map[pop_node:true]} by=admin-1 message="" ` +
			`if=map[] dry=false`},
	{`DELETE topology/nodes/n1`, ``,
		`Write ops.EditTopology{Object:node Op:delete Name:n1 To: Document:map[]} by=admin-1 message="" if=map[] dry=false`},
	{`POST topology/nodes/n1/rename`, `{"to":"new"}`,
		`Write ops.EditTopology{Object:node Op:rename Name:n1 To:new Document:map[]} by=admin-1 message="" if=map[] ` +
			`dry=false`},
	{`GET topology/links`, ``, `Topology`},
	{`POST topology/links`, `{"name":"x"}`,
		`Write ops.EditTopology{Object:link Op:add Name: To: Document:map[name:x]} by=admin-1 message="" if=map[] dry=false`},
	{`GET topology/links/link-n1-n2`, ``, `Topology`},
	{`PATCH topology/links/link-n1-n2`, `{"pop_node":true}`,
		`Write ops.EditTopology{Object:link Op:edit Name:link-n1-n2 To: Document:map[pop_node:true]} by=admin-1 ` +
			`message="" if=map[] dry=false`},
	{`DELETE topology/links/link-n1-n2`, ``,
		`Write ops.EditTopology{Object:link Op:delete Name:link-n1-n2 To: Document:map[]} by=admin-1 message="" ` +
			`if=map[] dry=false`},
	{`GET topology/sites`, ``, `Topology`},
	{`POST topology/sites`, `{"name":"x"}`,
		`Write ops.EditTopology{Object:site Op:add Name: To: Document:map[name:x]} by=admin-1 message="" if=map[] dry=false`},
	{`GET topology/sites/roof`, ``, `Topology`},
	{`PATCH topology/sites/roof`, `{"pop_node":true}`,
		`Write ops.EditTopology{Object:site Op:edit Name:roof To: Document:map[pop_node:true]} by=admin-1 message="" ` +
			`if=map[] dry=false`},
	{`DELETE topology/sites/roof`, ``,
		`Write ops.EditTopology{Object:site Op:delete Name:roof To: Document:map[]} by=admin-1 message="" if=map[] ` +
			`dry=false`},
	{`POST topology/sites/roof/rename`, `{"to":"new"}`,
		`Write ops.EditTopology{Object:site Op:rename Name:roof To:new Document:map[]} by=admin-1 message="" if=map[] ` +
			`dry=false`},
	{`GET e2e/controller?reveal=1`, ``, `E2E controller true`},
	{`PUT e2e/controller?replica=r1`, `{"a":1}`,
		`Write ops.SetE2E{File:controller Config:map[a:1] Modify:false Replica:r1} by=admin-1 message="" if=map[] dry=false`},
	{`PATCH e2e/controller`, `{"a":1}`,
		`Write ops.SetE2E{File:controller Config:map[a:1] Modify:true Replica:} by=admin-1 message="" if=map[] dry=false`},
	{`GET e2e/controller/metadata`, ``, `Metadata controller`},
	{`POST e2e/controller/actions?modify=1`, `{"a":1}`,
		`Write ops.SetE2E{File:controller Config:map[a:1] Modify:true Replica:} by=admin-1 message="" if=map[] dry=true`},
	{`GET e2e/aggregator?reveal=1`, ``, `E2E aggregator true`},
	{`PUT e2e/aggregator?replica=r1`, `{"a":1}`,
		`Write ops.SetE2E{File:aggregator Config:map[a:1] Modify:false Replica:r1} by=admin-1 message="" if=map[] dry=false`},
	{`PATCH e2e/aggregator`, `{"a":1}`,
		`Write ops.SetE2E{File:aggregator Config:map[a:1] Modify:true Replica:} by=admin-1 message="" if=map[] dry=false`},
	{`GET e2e/aggregator/metadata`, ``, `Metadata aggregator`},
	{`POST e2e/aggregator/actions?modify=1`, `{"a":1}`,
		`Write ops.SetE2E{File:aggregator Config:map[a:1] Modify:true Replica:} by=admin-1 message="" if=map[] dry=true`},
	{`GET history?layer=node/n1&before=5&limit=7`, ``, `History node/n1 before=5 limit=7`},
	{`GET history/diff?from=1&to=4`, ``, `Diff 1 4`},
	{`GET history/diff?from=0`, ``, `History any before=0 limit=1; Diff 0 9`},
	{`GET history/4`, ``, `History any before=5 limit=1; Diff 3 4`},
	{`POST history/4/restore?layers=network,node/n1`, ``,
		`Write ops.Restore{Revision:4 Layers:[network node/n1]} by=admin-1 message="" if=map[] dry=false`},
	{`POST history/4/revert?message=oops`, ``,
		`Write ops.Revert{Revision:4} by=admin-1 message="oops" if=map[] dry=false`},
	{`GET rollouts`, ``, `Rollouts`},
	{`GET rollouts/3`, ``, `Rollouts`},
	{`GET rollouts/3/explain`, ``, `ExplainRollout 3`},
	{`POST rollouts/3/pause`, ``, `CommandRollout 3 pause by=admin-1`},
	{`POST rollouts/3/resume`, ``, `CommandRollout 3 resume by=admin-1`},
	{`POST rollouts/3/abort`, ``, `CommandRollout 3 abort by=admin-1`},
	{`POST rollouts/3/revert`, ``, `CommandRollout 3 revert by=admin-1`},
	{`GET metadata`, ``, `Metadata node`},
	{`GET actions/p7`, ``, `PreviewResult p7`},
	{`GET operators`, ``, `Operators`},
	{`POST operators`, `{"name":"bob","role":"viewer","expires":"2027-01-01T00:00:00Z"}`,
		`AddOperator bob viewer 2027-01-01 00:00:00 +0000 UTC by=admin-1`},
	{`DELETE operators/bob`, ``, `RemoveOperator bob by=admin-1`},
	{`POST import`, `{"network":{"a":1152921504606846977},"e2e":{"controller":{"b":2}}}`,
		`Write ops.Import{Files:{Network:map[a:1152921504606846977] Nodes:map[] Auto:map[] Topology:map[] ` +
			`Metadata:map[] E2E:map[controller:map[b:2]]}} by=admin-1 message="" if=map[] dry=false`},
	{`GET export?reveal=1`, ``, `Export true`},
	{`GET backup`, ``, `Backup unknown`},
	{`GET /api/v1/openapi.json`, ``, ``},
	{`GET /livez`, ``, ``},
	{`GET /readyz`, ``, `Ready`},
	{`GET /readyz?verbose`, ``, ``},
	{`GET /metrics`, ``, ``},
	{`GET loglevel`, ``, ``},
	{`POST loglevel?subsystem=all&level=debug&for=1h`, ``, ``},
	{`POST loglevel?subsystem=all&level=reset`, ``, ``},
}

func TestEveryRowReachesTheBackend(t *testing.T) {
	f := &fake{}
	h := Handler(f, WithTokens(fakeHash),
		WithMetrics(func(context.Context) ([]byte, error) { return []byte("edgespan_a 1\n"), nil }))
	hit := map[string]bool{}
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		if !strings.HasPrefix(target, "/") {
			target = Prefix + target
		}
		w := ask(h, asked{method: method, target: target, body: c.body, token: "t-admin"})
		heard := f.taken()
		path, _, _ := strings.Cut(target, "?")
		m := match(table, method, path)
		if m.row == nil {
			t.Errorf("%s: has no row", c.ask)
			continue
		}
		hit[m.row.Method+m.row.Path] = true
		if w.Code != m.row.Status || heard != c.heard {
			t.Errorf("%s\n status %d, wanted %d: %s\n heard  %s\n wanted %s", c.ask, w.Code, m.row.Status, w.Body, heard,
				c.heard)
			continue
		}
		if got := w.Header().Get("Content-Type"); got != m.row.Kind() {
			t.Errorf("%s: Content-Type %q", c.ask, got)
		}
		if m.row.Text || m.row.Zipped {
			continue
		}
		o, faults := config.Parse(firstLine(m.row, w.Body.Bytes()))
		faults = append(faults, checkSchema(schemaOf(m.row.Answer), o, nil)...)
		if len(faults) > 0 {
			t.Errorf("%s: %v in %s", c.ask, faults, w.Body)
		}
	}
	for _, r := range table {
		if !hit[r.Method+r.Path] {
			t.Errorf("%s %s: no case asks it", r.Method, r.Path)
		}
	}
}

// rolesTable reads config/httpapi/rest/testdata/roles.txt: the lowest role by "METHOD PATH".
func rolesTable(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../rest/testdata/roles.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "#") && len(words) >= 3 && strings.HasPrefix(words[2], "/") {
			out[words[1]+" "+words[2]] = words[0]
		}
	}
	return out
}

// TestRolesOfEveryRow requests each route with every role, and checks the result against the table of roles.
func TestRolesOfEveryRow(t *testing.T) {
	roles := rolesTable(t)
	if len(roles) != len(table) {
		t.Errorf("the table of roles has %d routes, there are %d", len(roles), len(table))
	}
	words := []string{"everybody", "viewer", "operator", "admin"}
	f := &fake{}
	h := Handler(f, WithTokens(fakeHash),
		rest.WithLimits(Limits{Rate: 1, Burst: 10000, InFlight: 9, Deadline: DefaultLimits.Deadline}))
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		if !strings.HasPrefix(target, "/") {
			target = strings.ReplaceAll(Prefix+target, "reveal=1", "reveal=0")
		}
		path, _, _ := strings.Cut(target, "?")
		row := match(table, method, path).row
		least := slices.Index(words, roles[row.Method+" "+row.Path])
		if least < 0 {
			t.Errorf("%s %s: is not in the table of roles", row.Method, row.Path)
			continue
		}
		for i, token := range []string{"", "t-viewer", "t-operator", "t-admin"} {
			door, denied := h, http.StatusForbidden
			if token == "" { // a handler of its own: a caller that fails to authenticate has to wait
				door, denied = Handler(f, WithTokens(fakeHash)), http.StatusUnauthorized
			}
			w := ask(door, asked{method: method, target: target, body: c.body, token: token})
			heard := f.taken()
			if may := i >= least; may != (w.Code/100 == 2) || !may && (w.Code != denied || heard != "") {
				t.Errorf("%s as %q: status %d, the backend heard %q", c.ask, token, w.Code, heard)
			}
			if w.Code/100 != 2 {
				problemIn(t, w)
			}
		}
	}
}

// TestAnActThatCannotBeAuditedIsNotDone requests each route while the audit log can't be written.
func TestAnActThatCannotBeAuditedIsNotDone(t *testing.T) {
	roles := rolesTable(t)
	f := &fake{}
	var intents []bool
	caller := "admin-1"
	h := Handler(f, WithTokens(fakeHash), rest.WithIntents(func(e Entry, must bool) error {
		if e.Caller != caller || !e.Begun || e.Status != 0 {
			t.Errorf("%+v", e)
		}
		intents = append(intents, must)
		return errors.New("no space left on device")
	}))
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		if !strings.HasPrefix(target, "/") {
			target = Prefix + target
		}
		path, _, _ := strings.Cut(target, "?")
		row := match(table, method, path).row
		intents = nil
		w := ask(h, asked{method: method, target: target, body: c.body, token: "t-admin"})
		heard := f.taken()
		reveals := row.Reveals || strings.Contains(target, "reveal=1")
		if row.Effect == rest.Reads && !reveals {
			if w.Code/100 != 2 || intents != nil {
				t.Errorf("%s: a read is refused: %d", c.ask, w.Code)
			}
			continue
		}
		// An act may need an admin because of what it restores, whatever the route says.
		if w.Code != 503 || heard != "" || len(intents) != 1 || !intents[0] {
			t.Errorf("%s: %d, heard %q, intents %v", c.ask, w.Code, heard, intents)
		}
		if roles[row.Method+" "+row.Path] == "admin" || reveals {
			continue
		}
		intents, caller = nil, "operator-1"
		if w := ask(h, asked{method: method, target: target, body: c.body, token: "t-operator"}); w.Code != 503 ||
			len(intents) != 1 || intents[0] {
			t.Errorf("%s by an operator: %d, intents %v", c.ask, w.Code, intents)
		}
		f.taken()
		caller = "admin-1"
	}
}

// TestWhatARestoreNeeds: the role depends on the layers that a change writes, whichever route made it.
func TestWhatARestoreNeeds(t *testing.T) {
	for layer, need := range map[string]Role{
		"network": Operator, "node/n1": Operator, "auto/n1": Operator, "topology": Operator, "peer/p": Operator,
		"cluster/c": Operator, "deployment/c": Operator,
		"metadata": Admin, "e2e/controller": Admin, "e2e/controller%2Fr1": Admin, "e2e/aggregator": Admin,
	} {
		l, err := history.ParseLayer(layer)
		if err != nil {
			t.Fatal(err)
		}
		c := history.Change{Layers: map[history.Layer]config.Object{l: nil, {Kind: history.Network}: {}}}
		for _, role := range []Role{"", "wizard", Viewer, Operator, Admin} {
			err := WriteRequest{Caller: Caller{Role: role}}.CheckPermitted(c)
			if role.Includes(need) != (err == nil) || err != nil && !errors.Is(err, ErrRole) {
				t.Errorf("%s by %q: %v", layer, role, err)
			}
			if err != nil && need == Admin && strings.Contains(err.Error(), "network") {
				t.Errorf("%s: names what it may: %v", layer, err)
			}
		}
	}
}

func TestWithoutAValidTokenNothingIsHeard(t *testing.T) {
	f := &fake{}
	for name, h := range map[string]http.Handler{"with tokens": Handler(f, WithTokens(fakeHash)),
		"without anything": Handler(f)} {
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer t-nobody", "Basic t-admin", "t-admin", "Bearer bad",
			"Bearer t-admin t-admin"} {
			w := ask(h, asked{method: "GET", target: Prefix + "nodes", header: map[string]string{"Authorization": header}})
			p := problemIn(t, w)
			if w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" || f.taken() != "" {
				t.Errorf("%s: %q: status %d", name, header, w.Code)
			}
			if strings.Contains(p.Detail, "nobody") || strings.Contains(p.Detail, "bad") {
				t.Errorf("%q: the token is told: %s", header, p.Detail)
			}
		}
	}
	h := Handler(f, WithTokens(fakeHash))
	two := httptest.NewRequest("GET", Prefix+"nodes", nil)
	two.Header["Authorization"] = []string{"Bearer t-admin", "Bearer t-viewer"}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, two); w.Code != 401 || f.taken() != "" {
		t.Errorf("two tokens: status %d", w.Code)
	}
	if w := ask(h, asked{method: "GET", target: Prefix + "nodes", token: "t-wizard"}); w.Code != 403 || f.taken() != "" {
		t.Errorf("a role that there is not: status %d", w.Code)
	}
	w = ask(h, asked{method: "GET", target: Prefix + "nodes", token: "t-broken"})
	if p := problemIn(t, w); w.Code != 500 || strings.Contains(p.Detail, "secret") {
		t.Errorf("a store that fails: %+v", p)
	}
	if w := ask(h, asked{method: "GET", target: Prefix + "nodes",
		header: map[string]string{"Authorization": "bearer t-viewer"}}); w.Code != 200 {
		t.Errorf("a scheme is the same in any case: %d", w.Code)
	}
}

func TestNoSuchRouteSaysWhichThereAre(t *testing.T) {
	h := Handler(&fake{}, WithNoAuth())
	for target, near := range map[string]string{
		"/":         "/api, /livez, /metrics, /readyz",
		"/api/v1/x": "/api/v1/fleet, /api/v1/openapi.json",
		Prefix + "layers/foo": "/api/v1/fleet/layers/auto, /api/v1/fleet/layers/base, " +
			"/api/v1/fleet/layers/firmware, /api/v1/fleet/layers/hardware, /api/v1/fleet/layers/network, " +
			"/api/v1/fleet/layers/node",
		Prefix + "optimize/luck": "/api/v1/fleet/optimize/channel, /api/v1/fleet/optimize/control-superframe, " +
			"/api/v1/fleet/optimize/golay, /api/v1/fleet/optimize/polarity",
		Prefix + "nodes/n1/": "/api/v1/fleet/nodes/{node}, /api/v1/fleet/nodes/{node}/adopt, " +
			"/api/v1/fleet/nodes/{node}/config",
		Prefix + "nodes/":                  "/api/v1/fleet/nodes, /api/v1/fleet/nodes/{node}",
		Prefix + "nodes/%2e%2e/x":          "/api/v1/fleet/nodes/{node}, /api/v1/fleet/nodes/{node}/adopt",
		Prefix + "e2e/controller/actions/": "/api/v1/fleet/e2e/controller/actions",
	} {
		w := ask(h, asked{method: "GET", target: "http://localhost" + target})
		if p := problemIn(t, w); w.Code != 404 || p.Type != rest.TypeNoRoute ||
			!strings.Contains(p.Detail, "no such route: must be one of "+near) {
			t.Errorf("%s: %d %s", target, w.Code, p.Detail)
		}
	}
}

func TestAnotherMethodIsTold(t *testing.T) {
	h := Handler(&fake{}, WithNoAuth())
	for call, allow := range map[string]string{
		"POST " + Prefix + "layers/network":       "DELETE, GET, HEAD, PATCH, PUT",
		"GET " + Prefix + "nodes/n1/retry":        "POST",
		"OPTIONS " + Prefix + "nodes":             "GET, HEAD",
		"PATCH " + Prefix + "layers/node/actions": "DELETE, GET, HEAD, PATCH, POST, PUT",
		"BREW /livez": "GET, HEAD",
	} {
		method, target, _ := strings.Cut(call, " ")
		w := ask(h, asked{method: method, target: "http://localhost" + target, body: "{}"})
		if method == "PATCH" { // the node with that name
			if w.Code != 200 {
				t.Errorf("%s: %d", call, w.Code)
			}
			w = ask(h, asked{method: "BREW", target: "http://localhost" + target})
		}
		if got := w.Header().Get("Allow"); w.Code != 405 || got != allow || problemIn(t, w).Type != rest.TypeMethod {
			t.Errorf("%s: %d, Allow: %s", call, w.Code, got)
		}
	}
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	h := Handler(&fake{}, WithTokens(fakeHash))
	get := ask(h, asked{method: "GET", target: Prefix + "layers/network", token: "t-viewer"})
	head := ask(h, asked{method: "HEAD", target: Prefix + "layers/network", token: "t-viewer"})
	if head.Code != 200 || head.Body.Len() != 0 || get.Body.Len() == 0 || !reflect.DeepEqual(get.Header(), head.Header()) {
		t.Errorf("HEAD: %d %v %q", head.Code, head.Header(), head.Body)
	}
}
