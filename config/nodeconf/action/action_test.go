package action

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

func table(t testing.TB, text string) ActionTable {
	t.Helper()
	got, faults := Parse([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	return got
}

// said are steps in one line each: what is done, why not, for which actions.
func said(steps []Step) string {
	var out []string
	for _, s := range steps {
		line := s.Do.String()
		if s.Skip != "" {
			line = "skip " + line
		}
		for _, a := range s.Actions {
			line += " " + a.Name
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

// Each action of the seed by name: what a node has for it by itself. What it has nothing
// for is unsupported, never done.
func TestSeed_EachActionIsBuiltInOrUnsupported(t *testing.T) {
	want := map[string]Kind{
		"REBOOT": Reboot, "RESTART_MINION": RestartAgent, "RESTART_STATS_AGENT": Unsupported, "RESTART_LOGTAIL": Unsupported,
		"RESTART_ROUTING": Unsupported, "RESTART_SQUIRE": Unsupported, "REDO_POP_CONFIG": Unsupported,
		"RESTART_FLUENTD_AGENT": Unsupported,
		"RELOAD_DNS_SERVERS":    Nameservers, "RELOAD_NTP_CONFIG": Unsupported, "RELOAD_RSYSLOG_CONFIG": Unsupported,
		"RELOAD_SSHD_CA_KEYS": Unsupported,
		"RESTART_KEA":         Unsupported, "SYNC_LINK_MONITOR": Unsupported, "INJECT_KVSTORE_KEYS": Unsupported,
		"UPDATE_FIREWALL":     Reconcile,
		"UPDATE_LINK_METRICS": Unsupported, "UPDATE_GLOG_LEVEL": LogLevel, "RELOAD_FIRMWARE": Unsupported,
		"SET_FW_PARAMS":                         Unsupported,
		"SET_FW_PARAMS_SYNC_OR_RELOAD_FIRMWARE": Unsupported, "SET_FW_STATS_CONFIG": Unsupported,
		"SET_AIRTIME_PARAMS":      Unsupported,
		"RESTART_UDP_PING_SERVER": Unsupported, "RELOAD_SSHD": Unsupported, "UPDATE_CHANNEL_ASSIGNMENT": Unsupported,
		"RESTART_SNMP":  Unsupported,
		"RESTART_WEBUI": Unsupported, "RELOAD_TUNNEL_CONFIG": Tunnel, "RELOAD_VPP_CONFIG_AND_MONITOR": Unsupported,
		"UPDATE_ZONE":           Unsupported,
		"RELOAD_TOPOLOGY_NAMES": Unsupported, "RESTART_SLIP": Unsupported,
		"SYMLINK_TIMEZONE": Unsupported, // in the original beside the table
	}
	for name, kind := range want {
		steps := ActionTable{}.Steps([]metadata.Action{{Name: name}})
		if len(steps) != 1 || steps[0].Do.Kind != kind {
			t.Errorf("%s: %s, want %s", name, said(steps), kind)
			continue
		}
		state := Done
		if kind == Unsupported {
			state = NoMapping
		}
		if got := steps[0].Results(""); len(got) != 1 || got[0].Action != name || got[0].State != state {
			t.Errorf("%s: %v, want %s", name, got, state)
		}
		mapped, faults := Parse([]byte(name + ": {command: [/bin/x]}"))
		switch got := mapped.Find(name); {
		case kind == Unsupported && (faults != nil || got.String() != "/bin/x"):
			t.Errorf("%s mapped: %v %v", name, got, faults)
		case kind != Unsupported && (len(faults) != 1 || faults[0].Problem != "reserved action"):
			t.Errorf("%s is built in: %v", name, faults)
		}
	}
	for _, name := range metadata.ActionNames() {
		if want[name] == "" {
			t.Errorf("%s is missing here", name)
		}
	}
	if got := (ActionTable{}).Steps(nil); got != nil {
		t.Errorf("nothing: %v", got)
	}
}

// "The minion is responsible for applying actions in a sensible order, e.g. rebooting or
// restarting minion last.".
func TestSeed_RebootOrRestartMinionIsLast(t *testing.T) {
	tab := table(t, `
RESTART_KEA: {unit: kea, do: reload}
RESTART_SNMP: {unit: kea, do: reload}
RESTART_WEBUI: {command: [/sbin/web, --now], timeout: 5s}
`)
	all := func(names ...string) (out []metadata.Action) {
		for _, n := range names {
			out = append(out, metadata.Action{Name: n})
		}
		return out
	}
	for _, c := range []struct {
		names []string
		want  string
		stops bool
	}{
		{[]string{"RESTART_MINION", "UPDATE_FIREWALL"}, "reconcile UPDATE_FIREWALL; restart-agent RESTART_MINION", true},
		{[]string{"REBOOT", "RESTART_WEBUI", "RESTART_KEA"},
			"systemctl reload kea.service RESTART_KEA; /sbin/web --now RESTART_WEBUI; reboot REBOOT", true},
		{[]string{"REBOOT", "RESTART_MINION"}, "skip restart-agent RESTART_MINION; reboot REBOOT", true},
		{[]string{"UPDATE_FIREWALL", "RELOAD_DNS_SERVERS"}, "nameservers RELOAD_DNS_SERVERS; reconcile UPDATE_FIREWALL",
			false},
		{[]string{"RESTART_SNMP", "RESTART_KEA"}, "systemctl reload kea.service RESTART_KEA RESTART_SNMP", false},
		{[]string{"RELOAD_SSHD", "RESTART_SLIP"}, "unsupported RELOAD_SSHD; unsupported RESTART_SLIP", false},
		{[]string{"VENDORS_OWN"}, "unsupported VENDORS_OWN", false},
	} {
		steps := tab.Steps(all(c.names...))
		if got := said(steps); got != c.want || stops(steps[len(steps)-1]) != c.stops {
			t.Errorf("%v: %s, want %s", c.names, got, c.want)
		}
		if slices.ContainsFunc(steps[:len(steps)-1], stops) {
			t.Errorf("%v: a step before the last stops: %s", c.names, said(steps))
		}
	}
	skipped := tab.Steps(all("REBOOT", "RESTART_MINION"))[0].Results("")[0].String()
	if skipped != "RESTART_MINION: skipped: REBOOT comes" {
		t.Error(skipped)
	}
	failed := tab.Steps(all("RESTART_SNMP", "RESTART_KEA"))[0].Results("exit status 1")
	if len(failed) != 2 || failed[1].String() != "RESTART_SNMP: failed: exit status 1" {
		t.Error(failed)
	}
}

// stops says whether a step ends the agent. Such a step is the last.
func stops(s Step) bool { return s.Skip == "" && (s.Do.Kind == RestartAgent || s.Do.Kind == Reboot) }

// The actions of a difference, with the seed's own metadata.
func TestPlanOfADifference(t *testing.T) {
	text, err := os.ReadFile("../../testdata/terragraph/config_metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := config.ParseObject(text)
	m, faults := metadata.Parse(doc, metadata.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	tab := table(t, "RELOAD_VPP_CONFIG_AND_MONITOR: {unit: vpp.service}")
	for _, c := range []struct{ a, b, want string }{
		{`{"cpeConfig":{"X":{"policers":{"0":{"cir":1}}}}}`, `{}`,
			"systemctl restart vpp.service RELOAD_VPP_CONFIG_AND_MONITOR; reboot REBOOT"},
		{`{"tunnelConfig":{"t":{"dstIp":"::1"}}}`, `{"tunnelConfig":{"t":{"dstIp":"::2"}}}`, "tunnel RELOAD_TUNNEL_CONFIG"},
		{`{"sysParams":{"managedConfig":true}}`, `{}`, ""},
		{`{"kvstoreParams":{"a":"b"}}`, `{}`, "unsupported INJECT_KVSTORE_KEYS"},
	} {
		a, _ := config.ParseObject([]byte(c.a))
		b, _ := config.ParseObject([]byte(c.b))
		there, back := said(Plan(m, config.FullDiff(a, b), tab)), said(Plan(m, config.FullDiff(b, a), tab))
		if there != c.want || back != c.want {
			t.Errorf("%s to %s: %s, and back %s, want %s", c.a, c.b, there, back, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	got := table(t, `
# what this node has
RESTART_KEA:  {unit: kea-dhcp6, do: reload}
RELOAD_SSHD:  {unit: "sshd@main.socket"}
RESTART_SNMP: {unit: snmpd, timeout: 2m}
RESTART_WEBUI:
  command:
  - /usr/bin/env
  - ""
  - "--x; rm -rf $HOME"
  timeout: 1500ms
`)
	for name, want := range map[string]Do{
		"RESTART_KEA":  {Kind: Unit, Unit: "kea-dhcp6.service", Verb: "reload", Timeout: DefaultTimeout},
		"RELOAD_SSHD":  {Kind: Unit, Unit: "sshd@main.socket", Verb: "restart", Timeout: DefaultTimeout},
		"RESTART_SNMP": {Kind: Unit, Unit: "snmpd.service", Verb: "restart", Timeout: 2 * time.Minute},
		"RESTART_WEBUI": {Kind: Command, Argv: []string{"/usr/bin/env", "", "--x; rm -rf $HOME"},
			Timeout: 1500 * time.Millisecond},
	} {
		if !got.Find(name).equal(want) {
			t.Errorf("%s: %+v, want %+v", name, got.Find(name), want)
		}
	}
	for _, empty := range []string{"", "\n", "# nothing yet\n\n  # RESTART_KEA: {unit: kea}\n", "{}"} {
		if got := table(t, empty); len(got) != 0 {
			t.Errorf("%q: %v", empty, got)
		}
	}
}

// Every fault with its path, all of them at once.
func TestFaultsOfATable(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"RESTART_KEA: {unit: kea, do: stop}", `RESTART_KEA.do: invalid value "stop": must be restart or reload`},
		{"RESTART_KEA: {unit: kea, do: 1}", `RESTART_KEA.do: invalid type number: must be restart or reload`},
		{"RESTART_KEA: kea", `RESTART_KEA: invalid type string: ` + wholeEntry},
		{"RESTART_KEA:", `RESTART_KEA: invalid type null: ` + wholeEntry},
		{"RESTART_KEA: {}", `RESTART_KEA: has neither a unit nor a command: ` + oneOfBoth},
		{"RESTART_KEA: {unit: kea, command: [/x]}", `RESTART_KEA: has a unit and a command: ` + oneOfBoth},
		{"RESTART_KEA: {command: [/x], do: restart}", `RESTART_KEA.do: invalid without a unit: only a unit has it`},
		{"RESTART_KEA: {command: /x y}",
			`RESTART_KEA.command: invalid type string: must be a list of words, the first an absolute path: no shell reads it`},
		{"RESTART_KEA: {command: []}", `RESTART_KEA.command: invalid number of words 0: must be 1 to 64`},
		{"RESTART_KEA: {command: [x]}",
			`RESTART_KEA.command.0: invalid value "x": must be an absolute path without . and ..`},
		{"RESTART_KEA: {command: [/a/../x]}",
			`RESTART_KEA.command.0: invalid value "/a/../x": must be an absolute path without . and ..`},
		{"RESTART_KEA: {command: [/x, 5]}", `RESTART_KEA.command.1: invalid type number: must be a string: put it in ""`},
		{`RESTART_KEA: {command: [/x, "a\0b"]}`, `RESTART_KEA.command.1: zero byte in the text: must be without zero bytes`},
		{"RESTART_KEA: {command: [/x, [y]]}", `RESTART_KEA.command.1: invalid type list: must be a scalar in a list`},
		{"RESTART_KEA: {command: [/x], timeout: 30}",
			`RESTART_KEA.timeout: invalid type number: must be a duration from 1ms to 10m, such as 30s`},
		{"RESTART_KEA: {command: [/x], timeout: 11m}",
			`RESTART_KEA.timeout: invalid value "11m": must be a duration from 1ms to 10m, such as 30s`},
		{"RESTART_KEA: {command: [/x], timeout: -1s}",
			`RESTART_KEA.timeout: invalid value "-1s": must be a duration from 1ms to 10m, such as 30s`},
		{"RESTART_KEA: {command: [/x], shell: true}",
			`RESTART_KEA.shell: unknown field: must be unit and do, or command, and timeout`},
		{"RESTART_KEA: {unit: --now}",
			`RESTART_KEA.unit: invalid value "--now.service": must be the name of a systemd unit: letters, digits and :_.@\-`},
		{"RESTART_KEA: {unit: 'a b'}",
			`RESTART_KEA.unit: invalid value "a b.service": must be the name of a systemd unit: letters, digits and :_.@\-`},
		{"RESTART_KEA: {unit: true}", `RESTART_KEA.unit: invalid type boolean: must be the name of a systemd unit`},
		{"RESTART_KEA: {unit: edgespan}",
			`RESTART_KEA.unit: invalid value "edgespan.service", the agent itself: RESTART_MINION restarts it`},
		{"REBOOT: {command: [/x]}", `REBOOT: reserved action: edgespan does it itself`},
		{"RESTART_KEA: {unit: a}\nRESTART_KEA: {unit: b}", `RESTART_KEA: duplicate key (2 times)`},
		{"- a", "invalid type list: must be an explicit mapping; {} removes everything"},
	} {
		if got, faults := Parse([]byte(c.text)); faults.Error() != c.want || got != nil {
			t.Errorf("%s\n got %s\nwant %s", c.text, faults, c.want)
		}
	}
	_, faults := Parse([]byte("NO_ACTION: {unit: x}\nUPDATE_GFLAG: {unit: x}\nRESTART_KEA: {unit: 1, x: 2}"))
	if len(faults) != 4 ||
		!strings.HasPrefix(faults[0].Error(), "NO_ACTION: unknown action: must be INJECT_KVSTORE_KEYS, ") ||
		strings.Contains(faults[0].Expectation, "REBOOT") {
		t.Error(faults)
	}
}

func TestTheTableOfAController(t *testing.T) {
	got, faults := ParseController([]byte("UPDATE_SCAN_CONFIG: {command: [/bin/scan]}\nRESTART_STATS_AGENT: {unit: stats}"))
	if faults != nil || got.Find("UPDATE_SCAN_CONFIG").String() != "/bin/scan" ||
		got.Find("RESTART_STATS_AGENT").String() != "systemctl restart stats.service" ||
		got.Find("UPDATE_PREFIX_ALLOC_PARAMS").Kind != Unsupported {
		t.Errorf("%v, %v", got, faults)
	}
	for text, want := range map[string]string{
		"RESTART_KEA: {unit: x}": "RESTART_KEA: unknown action: must be RESTART_STATS_AGENT, " +
			"UPDATE_PREFIX_ALLOC_PARAMS or UPDATE_SCAN_CONFIG",
		"UPDATE_GFLAG: {unit: x}":              "UPDATE_GFLAG: reserved action: edgespan does it itself",
		"UPDATE_CHANNEL_ASSIGNMENT: {unit: x}": "UPDATE_CHANNEL_ASSIGNMENT: reserved action: edgespan does it itself",
	} {
		if _, faults := ParseController([]byte(text)); faults.Error() != want {
			t.Errorf("%s\n got %s\nwant %s", text, faults, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"RESTART_KEA: {unit: kea, do: reload}", "RESTART_KEA: {command: [/bin/x, 'a'], timeout: 3s}",
		`{"RESTART_KEA":{"command":["/x"]}}`,
		"# none", "RESTART_KEA:\n  command:\n  - /x\n  -\n", "REBOOT: {}", "- a", "RESTART_KEA: {command: [[1]]}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, faults := Parse(text)
		if (got == nil) != (faults != nil) {
			t.Fatalf("%v %v", got, faults)
		}
		for name, d := range got {
			switch _, built := builtins[name]; {
			case built || !slices.Contains(metadata.ActionNames(), name):
				t.Errorf("%s is mapped", name)
			case d.Timeout < time.Millisecond || d.Timeout > maxTimeout:
				t.Errorf("%s: timeout %v", name, d.Timeout)
			case d.Kind == Unit &&
				(d.Unit == "" || d.Unit[0] == '-' || d.Verb != "restart" && d.Verb != "reload" || d.Argv != nil):
				t.Errorf("%s: %+v", name, d)
			case d.Kind == Command && (len(d.Argv) == 0 || d.Argv[0] == "" || d.Argv[0][0] != '/' || d.Unit != ""):
				t.Errorf("%s: %+v", name, d)
			case d.Kind != Unit && d.Kind != Command:
				t.Errorf("%s: %+v", name, d)
			}
		}
	})
}
