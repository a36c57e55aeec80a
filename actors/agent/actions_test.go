package agent

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf/action"
)

// mapped has a command for each action that a table may name.
func mapped(t *testing.T) action.ActionTable {
	t.Helper()
	table := action.ActionTable{}
	for _, name := range metadata.ActionNames() {
		if (action.ActionTable{}).Find(name).Kind == action.Unsupported {
			table[name] = action.Do{Kind: action.Command, Argv: []string{"/do", name}, Timeout: time.Second}
		}
	}
	return table
}

// seed terragraph-configuration-management "Post-config actions": each by its name.
func TestEachActionIsDoneByABuiltInOrByItsMapping(t *testing.T) {
	for _, name := range metadata.ActionNames() {
		t.Run(name, func(t *testing.T) {
			for _, table := range []action.ActionTable{{}, mapped(t)} {
				onRig(t, func(r *rig) {
					r.stop()
					r.facts.Actions = table
					r.start()
					r.connect()
					r.push(`{"a":1}`)
					r.settle(time.Second)
					r.push(`{"a":1,"x":{"` + name + `":1}}`)
					r.settle(200 * time.Millisecond)
					do := table.Find(name)
					var did, restarted []string
					want := action.Done
					switch do.Kind {
					case action.RestartAgent, action.Reboot:
						restarted = []string{name}
					case action.Unsupported:
						want = action.NoMapping
					default:
						did = []string{do.String()}
					}
					if !slices.Equal(r.runner.did, did) || !slices.Equal(r.runner.restarted, restarted) {
						t.Errorf("it did %q and restarted %q, want %q and %q", r.runner.did, r.runner.restarted, did, restarted)
					}
					if restarted != nil {
						if r.status().Echo.Generation.Counter != 1 {
							t.Error("it is in force before the restart")
						}
						r.reboot()
						r.connect()
						r.ctl.wants(config.Generation{Authority: "c", Counter: 2})
					}
					r.settle(time.Second)
					reports := said[nodeproto.Report](r.ctl)
					got := reports[len(reports)-1]
					if len(got.Actions) != 1 || got.Actions[0].Name != name || got.Actions[0].State != string(want) ||
						got.Generation.Counter != 2 || got.Pending != nil {
						t.Errorf("reported is %+v, pending %+v", got.Actions, got.Pending)
					}
				})
			}
		})
	}
}

func TestActionsThatFailOrHangAreReportedAndTheRestIsDone(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		r.facts.Actions = mapped(t)
		r.start()
		r.connect()
		r.runner.fail["/do RESTART_SNMP"] = errors.New("exit status 1")
		r.runner.noRestart = errors.New("not allowed")
		r.push(`{"a":1,"x":{"REBOOT":1,"RESTART_SNMP":1,"UPDATE_FIREWALL":1}}`)
		r.settle(time.Second)
		reports := said[nodeproto.Report](r.ctl)
		text, _ := json.Marshal(reports[len(reports)-1].Actions)
		for _, want := range []string{`"UPDATE_FIREWALL","State":"done"`,
			`"RESTART_SNMP","State":"failed","Detail":"exit status 1"`, `"REBOOT","State":"failed","Detail":"not allowed"`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("reported is %s, want %s in it", text, want)
			}
		}
		r.runner.takes = time.Hour // each is ended at its own time
		r.push(`{"a":2,"x":{"REBOOT":1,"RESTART_SNMP":2,"UPDATE_FIREWALL":1}}`)
		r.settle(5 * time.Second)
		reports = said[nodeproto.Report](r.ctl)
		if got := reports[len(reports)-1].Actions; len(got) != 1 || got[0].State != "failed" ||
			!strings.Contains(got[0].Detail, "deadline") {
			t.Errorf("one that hangs is reported as %+v", got)
		}
	})
}

func TestAnUndoRunsTheActionsOfTheDifferenceBack(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		r.facts.Actions = mapped(t)
		r.start()
		if err := r.apply(`{"x":{"RESTART_SNMP":1}}`); err != nil {
			t.Fatal(err)
		}
		r.settle(time.Second)
		r.runner.did = nil
		if err := r.apply(`{"x":{"RESTART_SNMP":2}}`, func(w *Request) { w.Confirm = time.Minute }); err != nil {
			t.Fatal(err)
		}
		r.settle(2 * time.Minute)
		if want := []string{"/do RESTART_SNMP", "/do RESTART_SNMP"}; !slices.Equal(r.runner.did, want) {
			t.Errorf("there and back it did %q, want %q", r.runner.did, want)
		}
	})
}

// answerTo asks the node as a controller does.
func (r *rig) answerTo(kind, data string) nodeproto.Answer {
	r.Helper()
	r.agent.Received(nodeproto.Request{ID: 5, Kind: kind, Data: []byte(data)})
	r.settle(0)
	all := said[nodeproto.Answer](r.ctl)
	if len(all) == 0 || all[len(all)-1].ID != 5 {
		r.Fatalf("%s: the answers are %+v", kind, all)
	}
	return all[len(all)-1]
}

func TestWhatTheControllerAsksIsAnswered(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		r.facts.Actions = action.ActionTable{"RESTART_SNMP": {Kind: action.Command, Argv: []string{"/do"}}}
		r.start()
		if err := r.apply(`{"a":1}`); err != nil {
			t.Fatal(err)
		}
		r.connect()
		if got := r.answerTo(nodeproto.RequestConfig, ""); string(got.Data) != "{\n  \"a\": 1\n}" || got.Error != "" {
			t.Errorf("the config is %s, %s", got.Data, got.Error)
		}
		got := r.answerTo(nodeproto.RequestPreview, `{"a":1,"x":{"REBOOT":1,"RESTART_SNMP":1,"RESTART_KEA":1}}`)
		const want = `{"actions":[{"name":"RESTART_KEA","keys":["x.RESTART_KEA"],"supported":false},` +
			`{"name":"RESTART_SNMP","keys":["x.RESTART_SNMP"],"supported":true},{"name":"REBOOT","keys":["x.REBOOT"],"supported":true}]}`
		var a, b nodeproto.PreviewAnswer
		if json.Unmarshal(got.Data, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || len(a.Actions) != 3 {
			t.Fatalf("the preview is %s", got.Data)
		}
		for _, w := range b.Actions {
			if !slices.ContainsFunc(a.Actions, func(x nodeproto.PreviewAction) bool {
				return x.Name == w.Name && x.Supported == w.Supported && slices.Equal(x.Keys, w.Keys)
			}) {
				t.Errorf("the preview is %s, want %+v in it", got.Data, w)
			}
		}
		if a.Actions[2].Name != "REBOOT" || len(r.runner.did)+len(r.runner.restarted) > 0 {
			t.Errorf("the preview is %s, and it did %q", got.Data, r.runner.did)
		}
		var base nodeproto.BaseConfig
		if err := json.Unmarshal(r.answerTo(nodeproto.RequestBaseConfig, "").Data, &base); err != nil ||
			len(base.Base) != 1 ||
			base.Base["BASE_10"] == nil ||
			base.Hardware != nil || base.Metadata["x"] == nil {
			t.Errorf("the base config is %+v, %v", base, err)
		}
		if got := r.answerTo("else", ""); !strings.Contains(got.Error, "preview") {
			t.Errorf("an unknown question: %+v", got)
		}
	})
}
