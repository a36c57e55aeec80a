package controllerconf

import (
	"reflect"
	"testing"

	"edgespan/config"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
)

// The seed, sentence by sentence: each sub-test is a row of docs/seeds.md.

// changed returns the actions of a change, and the flags that change while the process runs.
func changed(t *testing.T, before, after string) ([]string, []FlagChange) {
	t.Helper()
	got := Changes(controller(t), object(t, before), object(t, after))
	var names []string
	for _, a := range got.Actions {
		names = append(names, a.Name)
	}
	return names, got.Flags
}

func TestSeed_E2EConfiguration(t *testing.T) {
	// "The controller and aggregator are configured using separate configuration files"
	t.Run("TCM-E1", func(t *testing.T) {
		for name, c := range map[string]struct{ meta, doc config.Object }{
			"controller": {schema.ControllerMetadata(), schema.ControllerDefault()},
			"aggregator": {schema.AggregatorMetadata(), schema.AggregatorDefault()},
		} {
			m := parse(t, c.meta)
			if _, _, faults := Check(m, c.doc); faults != nil {
				t.Errorf("%s: %v", name, faults)
			}
			if _, _, faults := Check(m, config.Set(c.doc, []string{"flags", "v"}, "loud")); len(faults) != 1 {
				t.Errorf("%s: a wrong value: %v", name, faults)
			}
		}
	})
	t.Run("TCM-E2", func(t *testing.T) { // "The following actions are supported in the E2E configuration files"
		for action, c := range map[string]struct{ before, after string }{
			"NO_ACTION":           {`{}`, `{"ignitionParams":{"a":1}}`},
			"REBOOT":              {`{"flags":{"data_dir":"/a"}}`, `{"flags":{"data_dir":"/b"}}`},
			"RESTART_STATS_AGENT": {`{}`, `{"statsAgentParams":{"sources":{"a":{"enabled":true,"zmq_url":"ipc://x"}}}}`},
			"UPDATE_GLOG_LEVEL":   {`{"flags":{"v":"1"}}`, `{"flags":{"v":"2"}}`},
			"UPDATE_GFLAG":        {`{"flags":{"status_reports_interval":"5"}}`, `{"flags":{"status_reports_interval":"6"}}`},
			"UPDATE_SCAN_CONFIG":  {`{}`, `{"scanParams":{"a":1}}`},
		} {
			want := []string{action}
			if action == "NO_ACTION" {
				want = nil // do nothing
			}
			if got, _ := changed(t, c.before, c.after); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v", action, got)
			}
		}
	})
	t.Run("TCM-E8", func(t *testing.T) { // UPDATE_GFLAG: "Reload associated gflag value"
		_, flags := changed(t, `{"flags":{"status_reports_interval":"5"}}`, `{"flags":{"status_reports_interval":"6"}}`)
		if want := []FlagChange{{Flag: Flag{"status_reports_interval", "6"}}}; !reflect.DeepEqual(flags, want) {
			t.Errorf("%v, want %v", flags, want)
		}
	})
	t.Run("TCM-E3", func(t *testing.T) { // "a special "flags" map, which defines command-line flags"
		flags, faults := Flags(object(t, `{"flags":{"v":"2","listen":"a:1"},"scanParams":{"x":"no flag"}}`))
		if want := []Flag{{"listen", "a:1"}, {"v", "2"}}; faults != nil || !reflect.DeepEqual(flags, want) {
			t.Errorf("%v %v, want %v", flags, faults, want)
		}
	})
	t.Run("TCM-E4", func(t *testing.T) { // "returns the command-line flags as a formatted string"
		if got, faults := PrintFlags([]Flag{{"listen", "a b"}, {"v", "2"}}); faults != nil || got != "--listen='a b' --v=2" {
			t.Errorf("%s %v", got, faults)
		}
	})
}

func TestSeed_E2EMetadata(t *testing.T) {
	t.Run("TCM-E5", func(t *testing.T) { // ""sync": true on any root or object-property metadata entry"
		got := Shared(parse(t, object(t, shares)),
			object(t, `{"flags":{"net":"1","host":"2","silent":"3"},"box":{"shared":"4","own":"5"}}`))
		if !same(got, object(t, `{"flags":{"net":"1"},"box":{"shared":"4"}}`)) {
			t.Errorf("%v", got)
		}
	})
	t.Run("TCM-E7", func(t *testing.T) { // "only network-level configuration is synced, and host-level … is not"
		got := Shared(controller(t),
			object(t, `{"flags":{"listen":"a:1","data_dir":"/x","v":"1","config_staged_rollout_enabled":"true"},"topologyParams":{"enabledChannels":"1"}}`))
		if !same(got, object(t,
			`{"flags":{"config_staged_rollout_enabled":"true"},"topologyParams":{"enabledChannels":"1"}}`)) {
			t.Errorf("%v", got)
		}
	})
	t.Run("TCM-E6", func(t *testing.T) { // "Descriptive tags can be set"
		if e, _ := controller(t).Entry([]string{"flags", "listen"}); e.Tag == "" {
			t.Errorf("%+v", e)
		}
	})
	// an entry "provides better visibility, enables input validation, and allows post-config actions"
	t.Run("TCM-N3", func(t *testing.T) {
		m := parse(t, object(t, `{"flags":{"acme_poll_s":{"desc":"How often.","type":"INTEGER","action":"UPDATE_GFLAG"}}}`))
		e, seen := m.Entry([]string{"flags", "acme_poll_s"})
		_, _, faults := Check(m, object(t, `{"flags":{"acme_poll_s":"often"}}`))
		got := Changes(m, object(t, `{}`), object(t, `{"flags":{"acme_poll_s":"7"}}`))
		if !seen || e.Desc != "How often." || len(faults) != 1 || len(got.Actions) != 1 ||
			got.Actions[0].Name != "UPDATE_GFLAG" {
			t.Errorf("%+v, %v, %v", e, faults, got)
		}
	})
	t.Run("TCM-N9", func(t *testing.T) { // "recommended (but not required)"
		doc := object(t, `{"flags":{"acme_poll_s":"7"}}`)
		if normal, unknown, faults := Check(controller(t), doc); faults != nil || len(unknown) != 1 || !same(normal, doc) {
			t.Errorf("%v, %v, %v", normal, unknown, faults)
		}
	})
}

func TestSeed_SwitchesOfTheController(t *testing.T) {
	flag := func(name string) (metadata.Entry, any) {
		e, _ := controller(t).Entry([]string{"flags", name})
		v, _ := config.Lookup(schema.ControllerDefault(), []string{"flags", name})
		return e, v
	}
	// "set the config_staged_rollout_enabled flag …; by default, all … simultaneously"
	t.Run("TCM-R3", func(t *testing.T) {
		if e, v := flag("config_staged_rollout_enabled"); v != "false" || e.Kind != metadata.Boolean ||
			e.Action != "UPDATE_GFLAG" {
			t.Errorf("%v: %+v", v, e)
		}
		if _, _, faults := Check(controller(t),
			object(t, `{"flags":{"config_staged_rollout_enabled":"true"}}`)); faults != nil {
			t.Error(faults)
		}
	})
	t.Run("TCM-H2", func(t *testing.T) { // "if the unknown_hw_queries_enabled flag is set (default on)"
		if e, v := flag("unknown_hw_queries_enabled"); v != "true" || e.Kind != metadata.Boolean {
			t.Errorf("%v: %+v", v, e)
		}
	})
	t.Run("TCM-S2", func(t *testing.T) { // "a fixed interval between consecutive pushes to the same node"
		if e, v := flag("consecutive_reconfig_delay_s"); v != "120" || e.Kind != metadata.Integer {
			t.Errorf("%v: %+v", v, e)
		}
	})
}
