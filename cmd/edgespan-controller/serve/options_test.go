package serve

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"edgespan/config"
	"edgespan/config/layers/schema"
)

// parsed are the options of a command line and an environment.
func parsed(t *testing.T, env map[string]string, args ...string) (*Options, error) {
	t.Helper()
	o := NewOptions()
	cmd := &cobra.Command{Use: "x"}
	o.bindAll(cmd)
	args = seedForm(args, func(name string) bool { return knows(cmd, name) })
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	return o, o.Resolve(cmd, func(name string) string { return env[name] })
}

// TestEachFlagOfTheConfigIsOneOfTheCommandLine holds the two lists of flags together: what
// the metadata describes is a flag, with the same default.
func TestEachFlagOfTheConfigIsOneOfTheCommandLine(t *testing.T) {
	o := NewOptions()
	defaults := fileFlags(schema.ControllerDefault())
	flags, _ := schema.ControllerMetadata()["flags"].(config.Object)
	if len(flags) < 10 {
		t.Fatalf("the metadata describes %d flags", len(flags))
	}
	for name := range flags {
		s, known := o.find(name)
		if !known {
			t.Errorf("--%s: is described, and no flag", name)
			continue
		}
		if got := s.value.String(); got != defaults[name] {
			t.Errorf("--%s: default %q, the config's is %q", name, got, defaults[name])
		}
	}
}

func TestFlagEnvironmentConfigDefault(t *testing.T) {
	doc := config.Object{"flags": config.Object{
		"v": "2", "consecutive_reconfig_delay_s": "30", "unknown_hw_queries_enabled": "no", "listen": "127.0.0.1:1",
		"base_dir":    "/file",
		"vendor_flag": "1", "status_reports_interval": "0x10",
	}}
	env := map[string]string{"EDGESPAN_CONTROLLER_LISTEN": "127.0.0.1:2", "EDGESPAN_CONTROLLER_BASE_DIR": "/env",
		"EDGESPAN_CONTROLLER_V": "1"}
	o, err := parsed(t, env, "--v=3", "--base_dir", "/flag", "--metadata", "a,b", "--metadata=c")
	if err != nil {
		t.Fatal(err)
	}
	if left := o.fromConfig(doc); len(left) != 0 {
		t.Fatal(left)
	}
	for name, want := range map[string]string{
		"v":                             "3",                            // flag over environment and config
		"base-dir":                      "/flag",                        //
		"listen":                        "127.0.0.1:2",                  // environment over config
		"consecutive-reconfig-delay-s":  "30",                           // config over default
		"unknown-hw-queries-enabled":    "false",                        //
		"status-reports-interval":       "16",                           //
		"node-listen":                   "127.0.0.1:8444",               // default
		"data-dir":                      "/var/lib/edgespan-controller", // it says where the config is
		"metadata":                      "a,b,c",
		"unknown-hw-config-req-delay-s": "15",
	} {
		if s, _ := o.find(name); s.value.String() != want {
			t.Errorf("--%s: is %q, want %q", name, s.value, want)
		}
	}
}

// toldOf are the flags that were left out, sorted.
func toldOf(left []leftOut) string {
	var names []string
	for _, l := range left {
		names = append(names, l.name)
	}
	return strings.Join(names, " ")
}

// TestAStoredFlagNeverStopsAStart gives what an operator of a former release could store: each
// flag that can't work is left out and told, and all others count.
func TestAStoredFlagNeverStopsAStart(t *testing.T) {
	o, err := parsed(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := o.fromConfig(config.Object{"flags": config.Object{
		"consecutive_reconfig_delay_s": "soon", "config_confirm_timeout_s": "-1", "joins_per_second": "0",
		"facts_memory_mb": "0", "facts_versions": "5", "v": "1",
	}})
	if got, want := toldOf(left),
		"config_confirm_timeout_s consecutive_reconfig_delay_s facts_memory_mb joins_per_second"; got != want {
		t.Errorf("left out %s, want %s", got, want)
	}
	if o.ConfirmTime.number != 120 || o.Joins != 1 || o.FactsVersions != 5 || o.V != 1 {
		t.Errorf("taken: %v %v %v %v", o.ConfirmTime, o.Joins, o.FactsVersions, o.V)
	}
	if err := o.check(); err != nil {
		t.Error(err)
	}
}

// TestWhatDecidesOnAccessNeverComesFromTheStore stores every flag of the program: none counts
// that is not described as one that may.
func TestWhatDecidesOnAccessNeverComesFromTheStore(t *testing.T) {
	hostile := map[string]string{
		"keystone-window-s": "9", "facts-direct-names": "true", "facts-trusted-proxy": "true", "node-host": "evil",
		"keystone-roles": "member=admin",
	}
	o, err := parsed(t, nil, "--passwd-file=/etc/passwords")
	if err != nil {
		t.Fatal(err)
	}
	doc, before := config.Object{}, map[string]string{}
	for _, s := range o.table {
		before[s.name] = s.value.String()
		if !isStored(s.name) {
			v := hostile[s.name]
			if v == "" {
				v = "/evil"
			}
			doc[strings.ReplaceAll(s.name, "-", "_")] = v
		}
	}
	left := o.fromConfig(config.Object{"flags": doc})
	for _, s := range o.table {
		if got := s.value.String(); got != before[s.name] {
			t.Errorf("--%s: is %q by the stored config, was %q", s.name, got, before[s.name])
		}
	}
	if len(left) != len(doc)-1 { // the one of the command line is no news
		t.Errorf("%d of %d are told: %s", len(left), len(doc), toldOf(left))
	}
	for _, name := range []string{
		"auth", "passwd-file", "keystone-url", "keystone-password-file", "keystone-roles", "client-ca-file", "ca-cert",
		"ca-key", "actions", "base-dir", "metadata",
		"listen", "node-listen", "node-host", "data-dir", "etcd", "etcd-password-file", "fleet", "replica",
		"facts-trusted-proxy",
	} {
		if isStored(name) {
			t.Errorf("--%s: may come from the store", name)
		}
	}
	described, _ := schema.ControllerMetadata()["flags"].(config.Object)
	for _, name := range fromStore {
		if _, ok := described[strings.ReplaceAll(name, "-", "_")]; !ok {
			t.Errorf("--%s: may come from the store, and nothing describes it", name)
		}
	}
}

// TestAFlagThatCannotWorkIsNotStored judges writes as the program does.
func TestAFlagThatCannotWorkIsNotStored(t *testing.T) {
	o, err := parsed(t, nil, "--keystone-window-s=30")
	if err != nil {
		t.Fatal(err)
	}
	o.fromConfig(config.Object{"flags": config.Object{"facts_versions": "5"}})
	flags := func(pairs ...string) config.Object {
		out := config.Object{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return config.Object{"flags": out}
	}
	for name, c := range map[string]struct {
		before, after config.Object
		asked         bool
		fault, note   string
	}{
		"access": {nil, flags("keystone_url", "http://evil"), true,
			"flags.keystone_url: cannot be set in the stored config: must be set by --keystone-url or " +
				"EDGESPAN_CONTROLLER_KEYSTONE_URL", ""},
		"an address": {nil, flags("listen", "203.0.113.9:8443"), true, "flags.listen: cannot", ""},
		"a default":  {nil, flags("listen", "127.0.0.1:8443", "auth", "token"), true, "", ""},
		"what is there": {flags("listen", ":1", "joins_per_second", "0"),
			flags("listen", ":1", "joins_per_second", "0", "v", "1"), true, "", ""},
		"brought along":        {nil, flags("listen", ":1"), false, "", "flags.listen: cannot be set"},
		"can't be read":        {nil, flags("v", "much"), false, "flags.v: invalid value \"much\"", ""},
		"can't work":           {nil, flags("joins_per_second", "0"), false, "--joins-per-second: invalid value 0", ""},
		"another program's":    {nil, flags("vendor_flag", "x"), true, "", ""},
		"taken out of a file":  {flags("listen", ":1"), flags(), true, "", ""},
		"works":                {nil, flags("joins_per_second", "5", "facts_versions", "7"), true, "", ""},
		"on the command line ": {nil, flags("keystone_window_s", "40"), true, "flags.keystone_window_s", ""},
	} {
		faults, notes := o.validateChange(c.before, c.after, c.asked)
		got := ""
		if faults != nil {
			got = faults.Error()
		}
		if (got == "") != (c.fault == "") || !strings.Contains(got, c.fault) || (len(notes) == 0) != (c.note == "") ||
			!strings.Contains(strings.Join(notes, "\n"), c.note) {
			t.Errorf("%s: %q %q, want %q %q", name, got, notes, c.fault, c.note)
		}
	}
	if o.FactsVersions != 5 || o.Joins != 1 {
		t.Error("a judgement has changed what counts")
	}
}

func TestFlagsInTheSeedsForm(t *testing.T) {
	args := strings.Fields("--data_dir=/d --unknown_hw_queries_enabled=false --consecutive_reconfig_delay_s=9 " +
		"--config_actions_req_timeout_s=8" +
		" --unknown_hw_config_req_delay_s=7 --v 1 --auth=none --listen=[::1]:0 --undefok=bstar_primary,stats_addr " +
		"--bstar_primary=true --stats_addr=x")
	o, err := parsed(t, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, name := range slices.Sorted(maps.Keys(o.given)) {
		if s, _ := o.find(name); o.given[name] {
			got = append(got, name+"="+s.value.String())
		}
	}
	want := "auth=none config-actions-req-timeout-s=8 consecutive-reconfig-delay-s=9 data-dir=/d listen=[::1]:0 " +
		"unknown-hw-config-req-delay-s=7 unknown-hw-queries-enabled=false v=1"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	for _, c := range []struct{ args, want string }{
		{"--bstar_primary=true", "unknown flag: --bstar-primary"},
		{"--undefok listen,other --other --listen=127.0.0.1:0", ""}, // a known flag is not ignored
		{"--undefok=a --b", "unknown flag: --b"},
	} {
		_, err := parsed(t, nil, strings.Fields(c.args)...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	if got := seedForm([]string{"--a_b", "--", "--c_d"}, func(string) bool { return true }); !slices.Equal(got,
		[]string{"--a-b", "--", "--c_d"}) {
		t.Errorf("after --: %q", got)
	}
}

func TestOptionsThatCanNeverWork(t *testing.T) {
	for args, want := range map[string]string{
		"--auth none --listen 0.0.0.0:0":            "must be a loopback address",
		"--auth none --listen :8443":                "must be a loopback address",
		"--auth none --listen [::]:8443":            "must be a loopback address",
		"--auth none --listen 10.0.0.1:8443":        "must be a loopback address",
		"--auth none --listen controller.test:8443": "must be a loopback address",
		"--auth none --listen [::ffff:10.0.0.1]:1":  "must be a loopback address",

		"--auth basic":                         "must be token or none",
		"--listen 8443":                        "must be ADDRESS:PORT",
		"--node-listen x":                      "--node-listen: invalid value \"x\"",
		"--ca-key k":                           "both or neither",
		"--etcd-ca k":                          "--etcd: required",
		"--v=much":                             "must be a whole number",
		"--config-confirm-timeout-s=-3":        "must be 0 or more",
		"--unknown-hw-queries-enabled=perhaps": "must be true or false",
	} {
		if _, err := parsed(t, nil, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	for _, args := range []string{
		"--auth none --listen 127.0.0.1:0", "--auth none --listen 127.8.9.1:0", "--auth none --listen [::1]:0",
		"--auth none --listen localhost:0",
		"--auth none --listen [::ffff:127.0.0.1]:0", "--auth token --listen 0.0.0.0:0",
	} {
		if _, err := parsed(t, nil, strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	_, err := parsed(t, map[string]string{"EDGESPAN_CONTROLLER_V": "x",
		"EDGESPAN_CONTROLLER_STATUS_REPORTS_INTERVAL": "y"})
	if err == nil || !strings.Contains(err.Error(), "EDGESPAN_CONTROLLER_V: ") ||
		!strings.Contains(err.Error(), "EDGESPAN_CONTROLLER_STATUS_REPORTS_INTERVAL: ") {
		t.Errorf("all faults of the environment: %v", err)
	}
	_, err = parsed(t, nil, "--auth=x", "--listen=y")
	if err == nil || !strings.Contains(err.Error(), "--auth: ") || !strings.Contains(err.Error(), "--listen: ") {
		t.Errorf("all faults of the flags: %v", err)
	}
}

// byTheLeader are the flags that the leader of staged rollouts reads from the stored config.
var byTheLeader = []string{"config_staged_rollout_enabled", "config_batch_timeout_s", "config_rollout_"}

// TestEachFlagIsReadOrSaysThatItIsNot changes each flag that counts without a restart: either the
// settings follow, or its description and its help say that it is not used.
func TestEachFlagIsReadOrSaysThatItIsNot(t *testing.T) {
	const unread = "not used here"
	flags, _ := schema.ControllerMetadata()["flags"].(config.Object)
	for name, v := range flags {
		entry, _ := v.(config.Object)
		if entry["action"] != "UPDATE_GFLAG" ||
			slices.ContainsFunc(byTheLeader, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		o := NewOptions()
		s, known := o.find(name)
		if !known {
			t.Errorf("--%s: is described, and no flag", name)
			continue
		}
		other := map[string]string{"bool": "false", "int": "77"}[s.value.Type()]
		before := o.settings("r")
		if err := replace(s.value, other); err != nil {
			t.Fatalf("--%s=%s: %v", name, other, err)
		}
		desc, _ := entry["desc"].(string)
		follows, reported, helped := o.settings("r") != before, strings.Contains(desc, unread),
			strings.Contains(s.about, unread)
		if follows == reported || reported != helped {
			t.Errorf("--%s: the settings follow: %v, the metadata says that nothing does: %v, the help: %v", name, follows,
				reported,
				helped)
		}
	}
}
