package metadata

import (
	"slices"
	"strings"
	"testing"

	"edgespan/config"
)

// acts are the actions of a full difference: NAME:[keys], in the order of execution.
func acts(m *Metadata, diff string, t testing.TB) string {
	t.Helper()
	return told(m.Actions(parse(t, diff)))
}

func told(actions []Action) string {
	var out []string
	for _, x := range actions {
		var keys []string
		for _, k := range x.Keys {
			keys = append(keys, config.FormatPath(k))
		}
		out = append(out, x.Name+":["+strings.Join(keys, " ")+"]")
	}
	return strings.Join(out, " ")
}

// The worked examples of the reference (§1.21), on the real file.
func TestActionsOfTheReference(t *testing.T) {
	m := terragraph(t)
	for _, c := range []struct{ diff, want string }{
		{`{"linkParamsBase":{"fwParams":{"mcs":35}}}`, "SET_FW_PARAMS:[linkParamsBase.fwParams.mcs]"},
		{`{"radioParamsBase":{"fwParams":{"mcs":35}}}`, ""},
		{
			`{"radioParamsOverride":{"M":{"fwParams":{"polarity":1,"channel":2}}}}`,
			"SET_FW_PARAMS_SYNC_OR_RELOAD_FIRMWARE:[radioParamsOverride.M.fwParams.polarity] " +
				"RELOAD_FIRMWARE:[radioParamsOverride.M.fwParams.channel]",
		},
		{`{"cpeConfig":{"X":{"policers":{"0":{"cir":1}}}}}`,
			"RELOAD_VPP_CONFIG_AND_MONITOR:[cpeConfig.X.policers] REBOOT:[cpeConfig]"},
		{`{"kvstoreParams":{"a":"b"}}`, "INJECT_KVSTORE_KEYS:[kvstoreParams]"},
		{`{"sysParams":{"managedConfig":true}}`, ""},
		{
			`{"popParams":{"POP_IFACE":"nic1"},"envParams":{"MINION_VERBOSE":"1","TIMEZONE":"UTC"}}`,
			"UPDATE_GLOG_LEVEL:[envParams.MINION_VERBOSE] SYMLINK_TIMEZONE:[envParams.TIMEZONE] " +
				"REDO_POP_CONFIG:[popParams.POP_IFACE]",
		},
		{`{"linkParamsBase":{"openrLinkParams":{"softDisable":true}}}`,
			"SYNC_LINK_MONITOR:[linkParamsBase.openrLinkParams.softDisable]"},
		{`{"tunnelConfig":{"t":{"dstIp":"::1"}}}`, "RELOAD_TUNNEL_CONFIG:[tunnelConfig tunnelConfig.t.dstIp]"},
		{`{"topologyInfo":{"nodeName":"n","zoneNodes":""}}`,
			"UPDATE_ZONE:[topologyInfo.zoneNodes] RELOAD_TOPOLOGY_NAMES:[topologyInfo.nodeName]"},
		{`{"nobody":{"knows":1},"envParams":{"what":2}}`, ""},
		{`{}`, ""},
	} {
		if got := acts(m, c.diff, t); got != c.want {
			t.Errorf("%s: %s, want %s", c.diff, got, c.want)
		}
	}
	removed := config.FullDiff(parse(t, `{"kvstoreParams":{"a":"b","c":"d"}}`), parse(t, `{"kvstoreParams":{"c":"d"}}`))
	if got, want := told(m.Actions(removed)), "INJECT_KVSTORE_KEYS:[kvstoreParams]"; got != want {
		t.Errorf("removing kvstoreParams.a: %s, want %s", got, want)
	}
	diff := config.FullDiff(read(t, "base_versions/RELEASE_M80.json"), read(t, "base_versions/RELEASE_M81.json"))
	if got, want := told(m.Actions(diff)), "REBOOT:[envParams.SERIAL_CONSOLE_DISABLE]"; got != want {
		t.Errorf("from M80 to M81: %s, want %s", got, want)
	}
}

// "The object property action does not simply replace the root entry action"; RESTART_MINION
// after the others; REBOOT in its place, and last; NO_ACTION never.
func TestOrderOfActions(t *testing.T) {
	m := of(t, `{
		"minion":{"desc":"d","action":"RESTART_MINION","type":"STRING"},"boot":{"desc":"d","action":"REBOOT","type":"STRING"},
		"fw":{"desc":"d","action":"RELOAD_FIRMWARE","type":"STRING"},"stats":{"desc":"d","action":"RESTART_STATS_AGENT","type":"STRING"},
		"no":{`+entry+`,"type":"STRING"},"map":{`+entry+`,"type":"MAP","mapVal":{"type":"OBJECT","action":"REBOOT",
			"objVal":{"properties":{"p":{"desc":"d","action":"RESTART_KEA","type":"STRING"}}}}},
		"both":{"desc":"d","action":"RESTART_KEA","type":"OBJECT","objVal":{"properties":{
			"p":{"desc":"d","action":"RESTART_SNMP","type":"OBJECT","objVal":{"properties":{"q":{"desc":"d","action":"RESTART_KEA","type":"STRING"}}}},
			"none":{"desc":"d","action":"NO_ACTION","type":"STRING"}}}}}`)
	for _, c := range []struct{ diff, want string }{
		{`{"minion":"","fw":"","stats":"","no":""}`,
			"RESTART_STATS_AGENT:[stats] RELOAD_FIRMWARE:[fw] RESTART_MINION:[minion]"},
		{`{"minion":"","boot":"","fw":""}`, "RELOAD_FIRMWARE:[fw] REBOOT:[boot]"},
		{`{"both":{"p":{"q":""}}}`, "RESTART_KEA:[both both.p.q] RESTART_SNMP:[both.p]"},
		{`{"both":{"none":""}}`, "RESTART_KEA:[both]"},
		{`{"both":5}`, "RESTART_KEA:[both]"},
		{`{"no":""}`, ""},
		{
			`{"map":{"f":{"p":""},"b":{"p":""},"e":{"p":""},"a":{"p":""},"d":{"p":""},"c":{"p":""}}}`,
			"RESTART_KEA:[map.a.p map.b.p map.c.p map.d.p map.e.p map.f.p]",
		},
	} {
		if got := acts(m, c.diff, t); got != c.want {
			t.Errorf("%s: %s, want %s", c.diff, got, c.want)
		}
	}
	if n := len(order); order[n-2] != restartMinion || order[n-1] != reboot || slices.Contains(order, noAction) {
		t.Errorf("%v", order)
	}
}
