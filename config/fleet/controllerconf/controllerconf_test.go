package controllerconf

import (
	"reflect"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
)

func object(t testing.TB, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	return o
}

func parse(t testing.TB, doc config.Object) *metadata.Metadata {
	t.Helper()
	m, faults := metadata.Parse(doc, metadata.Options{E2E: true})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

func controller(t testing.TB) *metadata.Metadata { return parse(t, schema.ControllerMetadata()) }

// same compares documents; 1 and 1.0 differ.
func same(a, b config.Object) bool {
	return string(config.AppendCanonical(nil, a)) == string(config.AppendCanonical(nil, b))
}

// Reference §1.19: a flag's key is the part after its last '.', its value a string; a missing map of flags is created.
func TestNormalize(t *testing.T) {
	for _, c := range []struct{ in, want, faults string }{
		{`{}`, `{"flags": {}}`, ""},
		{`{"flags": {"v": "2"}, "x": [1]}`, `{"flags": {"v": "2"}, "x": [1]}`, ""},
		{`{"flags": {"e2e.ctrl.v": 2}}`, `{"flags": {"v": "2"}}`, ""},
		{`{"flags": {"a": true, "b": 1.5, "c": 1.0, "d": ""}}`, `{"flags": {"a": "true", "b": "1.5", "c": "1", "d": ""}}`,
			""},
		{`{"flags": null}`, "", "flags: invalid type null: must be an object of flags"},
		{
			`{"flags": {"bad-name": "1", "": "1", "a.": "1", "ä": "1"}}`, "",
			`flags."": invalid name of a flag: must be letters, digits and _ after a prefix that ends in a '.'` + "\n" +
				`flags."a.": invalid name of a flag: must be letters, digits and _ after a prefix that ends in a '.'` + "\n" +
				`flags.bad-name: invalid name of a flag: must be letters, digits and _ after a prefix that ends in a '.'` +
				"\n" +
				`flags.ä: invalid name of a flag: must be letters, digits and _ after a prefix that ends in a '.'`,
		},
		{
			`{"flags": {"v": "1", "x.v": "2", "y": {}, "z": null}}`, "",
			`flags."x.v": duplicate flag v, also at flags.v: must be unique` + "\n" +
				"flags.y: invalid type object: must be a string; a number or a boolean becomes one\n" +
				"flags.z: invalid type null: must be a string; a number or a boolean becomes one",
		},
	} {
		in := object(t, c.in)
		got, faults := Normalize(in)
		if faults.Error() != c.faults {
			t.Errorf("%s: faults\n%v\nwant\n%s", c.in, faults, c.faults)
		}
		if c.faults == "" && !same(got, object(t, c.want)) {
			t.Errorf("%s: %v, want %s", c.in, got, c.want)
		}
		if !same(in, object(t, c.in)) {
			t.Errorf("%s was changed to %v", c.in, in)
		}
	}
}

// Reference §1.19, [BUG in real data]: flags are always strings, but five are described as BOOLEAN or INTEGER and could
// never be set, among them the switch of staged rollouts.
func TestSeed_FlagsOfEveryTypeCanBeSet(t *testing.T) {
	entry := func(kind string) config.Object {
		return config.Object{"desc": "d", "type": kind, "action": "UPDATE_GFLAG"}
	}
	m := parse(t, config.Object{"flags": config.Object{
		"config_staged_rollout_enabled": entry("BOOLEAN"), "firmware_parameter_update_delay": entry("INTEGER"),
		"unknown_hw_config_req_delay_s": entry("INTEGER"), "bt_num_active_seeds": entry("INTEGER"),
		"bt_peer_tos": entry("INTEGER"), "ratio": entry("FLOAT"),
	}})
	for flag, values := range map[string]struct{ good, bad []any }{
		"config_staged_rollout_enabled":   {[]any{"true", "false", "1", true}, []any{"", "on", "2", nil}},
		"firmware_parameter_update_delay": {[]any{"200", "-1", int64(200)}, []any{"", "1.5", "x", true}},
		"unknown_hw_config_req_delay_s":   {[]any{"15"}, []any{"15 s"}},
		"bt_num_active_seeds":             {[]any{"10"}, []any{"9223372036854775808"}},
		"bt_peer_tos":                     {[]any{"192"}, []any{config.Object{}}},
		"ratio":                           {[]any{"0.5", "1", 0.5}, []any{"half"}},
	} {
		for _, v := range values.good {
			if _, _, faults := Check(m, config.Object{"flags": config.Object{flag: v}}); faults != nil {
				t.Errorf("%s = %v: %v", flag, v, faults)
			}
		}
		for _, v := range values.bad {
			_, _, faults := Check(m, config.Object{"flags": config.Object{flag: v}})
			if faults == nil || !strings.HasPrefix(faults.Error(), "flags."+flag+": ") {
				t.Errorf("must be %s = %v: %v", flag, v, faults)
			}
		}
	}
}

func TestCheckTellsAllFaultsAtOnce(t *testing.T) {
	_, _, faults := Check(controller(t),
		object(t, `{"flags": {"bad-name": "1"}, "topologyParams": {"enabledChannels": "9"}, "scanParams": 1}`))
	if len(faults) != 3 {
		t.Errorf("%d faults:\n%v", len(faults), faults)
	}
	_, _, faults = Check(controller(t),
		object(t, `{"flags": {"v": "11", "status_reports_interval": "0"}, "statsAgentParams": {"sources": {"a": `+
			`{"enabled": true}}}}`))
	if len(faults) != 3 {
		t.Errorf("%d faults:\n%v", len(faults), faults)
	}
	normal, unknown, faults := Check(controller(t),
		object(t, `{"flags": {"x.v": 1, "vendor_flag": "1"}, "vendorParams": {"a": {}}}`))
	if faults != nil || len(unknown) != 2 ||
		!same(normal, object(t, `{"flags": {"v": "1", "vendor_flag": "1"}, "vendorParams": {"a": {}}}`)) {
		t.Errorf("%v, unknown %v, faults %v", normal, unknown, faults)
	}
}

// The project's own metadata permits its own defaults, and none of them is unknown.
func TestDefaultsAreValid(t *testing.T) {
	for _, c := range []struct{ meta, doc config.Object }{
		{schema.ControllerMetadata(), schema.ControllerDefault()},
		{schema.AggregatorMetadata(), schema.AggregatorDefault()},
	} {
		normal, unknown, faults := Check(parse(t, c.meta), c.doc)
		if faults != nil || unknown != nil || !same(normal, c.doc) {
			t.Errorf("normal %v, unknown %v, faults %v", normal, unknown, faults)
		}
	}
}

// The seed's second table of actions, and UPDATE_PREFIX_ALLOC_PARAMS and UPDATE_CHANNEL_ASSIGNMENT, by the entries of
// the project's own metadata that request them.
func TestSeed_ActionsOfTheE2EConfigurationFiles(t *testing.T) {
	m := controller(t)
	for _, c := range []struct{ before, after, actions, flags, next string }{
		{`{}`, `{}`, "", "", ""},
		{`{"flags": {}}`, `{"flags": {"v": "3"}}`, "UPDATE_GLOG_LEVEL", "v=3", ""},
		{`{"flags": {"v": "3", "status_reports_interval": "2"}}`, `{}`, "UPDATE_GLOG_LEVEL UPDATE_GFLAG",
			"status_reports_interval default v default", ""},
		{`{"flags": {"listen": "a:1"}}`, `{"flags": {"listen": "a:2"}}`, "REBOOT", "", ""},
		{`{"flags": {}}`, `{"flags": {"config_staged_rollout_enabled": "true"}}`, "UPDATE_GFLAG",
			"config_staged_rollout_enabled=true", ""},
		{`{"flags": {"config_batch_timeout_s": "9", "status_reports_interval": "1"}}`,
			`{"flags": {"status_reports_interval": "2"}}`, "UPDATE_GFLAG",
			"config_batch_timeout_s default status_reports_interval=2", ""},
		{`{}`, `{"scanParams": {"a": 1}}`, "UPDATE_SCAN_CONFIG", "", ""},
		{`{}`, `{"prefixAllocParams": {"seedPrefix": "2001::/56"}}`, "UPDATE_PREFIX_ALLOC_PARAMS", "", ""},
		{`{}`, `{"topologyParams": {"enabledChannels": "1,2"}}`, "UPDATE_CHANNEL_ASSIGNMENT", "", ""},
		{`{}`, `{"statsAgentParams": {"sources": {"a": {"enabled": true, "zmq_url": "ipc://x"}}}}`, "RESTART_STATS_AGENT", "",
			""},
		{`{}`, `{"upgradeParams": {"goldenImage": {"version": "1"}}}`, "", "", "upgradeParams.goldenImage.version"},
		{`{"flags": {"vendor_flag": "1"}}`, `{"flags": {}, "vendorParams": {}}`, "", "", "flags.vendor_flag vendorParams"},
	} {
		got := Changes(m, object(t, c.before), object(t, c.after))
		var actions, flags, next []string
		for _, a := range got.Actions {
			actions = append(actions, a.Name)
		}
		for _, f := range got.Flags {
			s := f.Name + "=" + f.Value
			if f.Default {
				s = f.Name + " default"
			}
			flags = append(flags, s)
		}
		for _, p := range got.NextStart {
			next = append(next, config.FormatPath(p))
		}
		if s := strings.Join(actions, " "); s != c.actions {
			t.Errorf("%s to %s: actions %q, want %q", c.before, c.after, s, c.actions)
		}
		if s := strings.Join(flags, " "); s != c.flags {
			t.Errorf("%s to %s: flags %q, want %q", c.before, c.after, s, c.flags)
		}
		if s := strings.Join(next, " "); s != c.next {
			t.Errorf("%s to %s: from the next start %q, want %q", c.before, c.after, s, c.next)
		}
	}
}

func TestFlagsAreInTheOrderOfTheirNames(t *testing.T) {
	got, faults := Flags(object(t, `{"flags": {"a.z": 1, "b": "2", "c.a": true}}`))
	if want := []Flag{{"a", "true"}, {"b", "2"}, {"z", "1"}}; faults != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, faults %v; want %v", got, faults, want)
	}
}

func TestPrintFlags(t *testing.T) {
	for _, c := range []struct {
		flags  []Flag
		want   string
		faults int
	}{
		{nil, "", 0},
		{[]Flag{{"v", "2"}, {"listen", "[::1]:8443"}}, `--v=2 --listen='[::1]:8443'`, 0},
		{[]Flag{{"etcd", "https://a:1,https://b:2"}}, `--etcd=https://a:1,https://b:2`, 0},
		{[]Flag{{"empty", ""}}, `--empty=`, 0},
		{[]Flag{{"a", "x y"}, {"b", "it's"}, {"c", "$(reboot)"}, {"d", "~"}},
			`--a='x y' --b='it'\''s' --c='$(reboot)' --d='~'`, 0},
		{[]Flag{{"a", "x\ny"}, {"b", "1"}, {"c", "\x00"}}, "", 2},
	} {
		got, faults := PrintFlags(c.flags)
		if got != c.want || len(faults) != c.faults {
			t.Errorf("%v: %s, faults %v; want %s and %d", c.flags, got, faults, c.want, c.faults)
		}
	}
}

// Whatever a file contains: no panic, the same result twice, and a normalized file is unchanged.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{`{}`, `{"flags": {"a.b": 1, "c": true}}`, `{"flags": {"a": {}, "x.a": null}}`,
		`{"flags": []}`, `{"flags": {"": "", "é": 1e400}}`} {
		f.Add([]byte(s))
	}
	m := controller(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, faults := config.ParseObject(text)
		if faults != nil {
			return
		}
		got, faults := Normalize(doc)
		again, wrong := Normalize(doc)
		if faults.Error() != wrong.Error() || !same(got, again) {
			t.Fatalf("%s: %v %v, then %v %v", text, got, faults, again, wrong)
		}
		if faults == nil {
			if twice, wrong := Normalize(got); wrong != nil || !same(got, twice) {
				t.Fatalf("%s: %v, normalized again %v %v", text, got, twice, wrong)
			}
			flags, _ := Flags(got)
			PrintFlags(flags)
		}
		Check(m, doc)
	})
}
