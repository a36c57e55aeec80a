package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"edgespan/appnet"
	"edgespan/config/httpapi/metrics"
	"edgespan/netinst"
	"edgespan/netinst/hits"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/netinst/watched"
)

var (
	net1 = uuid.MustParse("10000000-0000-4000-8000-000000000001")
	app1 = uuid.MustParse("a0000000-0000-4000-8000-000000000001")
	key  = netinst.AdapterKey{AppUUID: app1}
	at   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// house is a node with a network, an adapter with rules, a port and a probe.
func house() Snapshot {
	wan := probe.ID{Port: "wan", Method: probe.HTTP, Target: "http://user:secret@example.org/x?token=secret"}
	return Snapshot{
		Version: "1.0", Ready: true, Generation: 7, Failing: 2,
		Networks: map[string]netinst.NetworkInstanceConfig{net1.String(): {UUID: net1, Type: netinst.Local}},
		NetworkStatuses: map[string]netinst.NetworkInstanceStatus{
			net1.String(): {UUID: net1, DisplayName: "blue", Bridge: "es1", State: netinst.Present}},
		Choices: map[string]map[string]probe.Choice{net1.String(): {"uplink": {Port: "wan"}, "lte": {}}},
		Apps: map[string]appnet.AppNetworkConfig{app1.String(): {UUID: app1, DisplayName: "shop", Activate: true,
			Adapters: map[int]netinst.AdapterSpec{0: {NetworkInstance: net1, ACL: []netinst.ACLRule{
				{Name: "web", Action: netinst.Allow}, {Name: "slow", Action: netinst.Limit}, {Name: "idle", Action: netinst.Drop},
			}}}}},
		Adapters: map[netinst.AdapterKey]netinst.AppAdapterStatus{key: {AppUUID: app1, Activated: true,
			Link: netinst.AdapterLink{HostIfName: "es1a1", Dropped: netinst.Drops{netinst.LimitedDNS: 5, netinst.LimitedNeighbours: 3}}}},
		Ports:        map[string]netinst.PortConfig{"wan": {Label: "wan", IfName: "eth0"}},
		PortStatuses: map[string]netinst.PortStatus{"wan": {Exists: true, Up: true}},
		Outcomes: []probe.Outcomes{
			{ID: wan, Count: 10, Failed: 1, Last: []probe.Outcome{{At: at, Took: 20 * time.Millisecond}}},
			{ID: wan, Count: 5, Failed: 2, Last: []probe.Outcome{{At: at.Add(time.Second), Error: "no answer"}}},
		},
		Hits: func(netinst.AdapterKey, uuid.UUID) (map[hits.Key]hits.Total, time.Time) {
			return map[hits.Key]hits.Total{
				{Rule: "web", Way: netinst.Sent}:                 {Packets: 3, Bytes: 300},
				{Rule: "web", Way: netinst.SentToNode}:           {Packets: 1, Bytes: 10},
				{Rule: "slow", Way: netinst.Received}:            {Packets: 9, Bytes: 90, Exceeded: 4},
				{Way: netinst.Received}:                          {Packets: 6},
				{Way: netinst.Received, Observed: true}:          {Packets: 100},
				{Rule: "gone", Way: netinst.Sent}:                {Packets: 8},
				{Rule: "web", Way: netinst.Sent, Observed: true}: {Packets: 2, Bytes: 20},
			}, at
		},
		Watched: map[string]watched.Counts{net1.String(): {UnreadDNS: 3, Malformed: 2, Asked: watched.Asked{Queries: 8,
			Answers: [5]uint64{watched.NoError: 5, watched.NXDomain: 1}}, DHCP: map[netstate.DHCPType]uint64{"ack": 4, "": 7}}},
		Links: map[string]netstate.LinkCounters{
			"es1":   {Received: netstate.LinkTraffic{Bytes: 1, Packets: 2, Errors: 3, Drops: 4}},
			"es1a1": {Received: netstate.LinkTraffic{Bytes: 11}, Sent: netstate.LinkTraffic{Bytes: 22}},
			"eth0":  {Sent: netstate.LinkTraffic{Drops: 33}}, "other": {},
		},
		Helpers: []netstate.HelperUsage{{Program: "dnsmasq", Processes: 1, Memory: 2 << 20}},
		Actors: []Actor{{ID: "router", State: "running"}, {ID: "router/ni/" + net1.String(), State: "running", Waiting: 2},
			{ID: "router/ni/" + net1.String() + "/applier", State: "restarting"},
			{ID: "router/app/" + app1.String(), State: "running", Waiting: 1}},
		FlowLog: FlowLog{Recorded: map[string]uint64{"end": 8}, Lost: map[string]uint64{"disk": 2},
			Exports: map[string]FlowExport{"socket": {Exported: 5, Dropped: 3, Failures: 1, Failing: true}}},
		Counts: Counts{Switches: map[string]uint64{net1.String(): 4, "gone": 9}, Restarts: map[string]uint64{"applier": 3},
			Failed: map[string]uint64{"link": 1}, Repaired: map[string]uint64{"rule": 6}},
	}
}

// scrape returns the lines of a snapshot, without comments and what the process itself has.
func scrape(t *testing.T, s Snapshot) []string {
	t.Helper()
	got, err := metrics.NewPage(&Table, s.Collect).Text(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if faults, err := promlint.New(strings.NewReader(string(got))).Lint(); err != nil || len(faults) > 0 {
		t.Errorf("promlint: %v, %v", faults, err)
	}
	return slices.DeleteFunc(strings.Split(string(got), "\n"), func(l string) bool { return !strings.HasPrefix(l, "edgespan_") })
}

func TestWhatAScrapeSays(t *testing.T) {
	id := app1.String() + "/0"
	for _, c := range []struct {
		says   string
		change func(*Snapshot)
		want   []string // lines; one that begins with ! is absent, as a prefix
	}{
		{"a network that is as desired", nil, []string{
			`edgespan_network_present{network="` + net1.String() + `"} 1`, `edgespan_node_networks{state="Present"} 1`,
			`edgespan_node_networks{state="CreatingFailed"} 0`,
			`edgespan_network_uplink_info{network="` + net1.String() + `",port="wan",selector="uplink"} 1`,
			`edgespan_network_uplink_switches_total{network="` + net1.String() + `"} 4`,
			`edgespan_network_receive_drops_total{network="` + net1.String() + `"} 4`}},
		{"no port is no uplink", nil, []string{`!edgespan_network_uplink_info{network="` + net1.String() + `",port=""`}},
		{"a deleted network", nil, []string{`!edgespan_network_uplink_switches_total{network="gone"}`}},
		{"a network without a status", func(s *Snapshot) { s.NetworkStatuses = nil }, []string{
			`edgespan_network_present{network="` + net1.String() + `"} 0`,
			`edgespan_node_networks{state="WaitingForDependencies"} 1`, "!edgespan_network_receive"}},
		{"the app receives what its link on the host sends", nil, []string{
			`edgespan_adapter_receive_bytes_total{adapter="` + id + `"} 22`,
			`edgespan_adapter_transmit_bytes_total{adapter="` + id + `"} 11`}},
		{"drops by a limit", nil, []string{
			`edgespan_adapter_limit_dropped_packets_total{adapter="` + id + `",limit="dns"} 5`,
			`edgespan_adapter_limit_dropped_packets_total{adapter="` + id + `",limit="neighbours"} 3`,
			`!edgespan_adapter_limit_dropped_packets_total{adapter="` + id + `",limit="flows"}`}},
		{"hits of rules, also of one without any, and not of one that is gone", nil, []string{
			`edgespan_rule_packets_total{adapter="` + id + `",rule="web"} 6`,
			`edgespan_rule_bytes_total{adapter="` + id + `",rule="web"} 330`,
			`edgespan_rule_packets_total{adapter="` + id + `",rule="idle"} 0`,
			`edgespan_rule_exceeded_packets_total{adapter="` + id + `",rule="slow"} 4`,
			`!edgespan_rule_packets_total{adapter="` + id + `",rule="gone"`, `!edgespan_rule_bytes_total{adapter="` + id + `",rule="idle"`, "edgespan_rule_read_timestamp_seconds 1.7672256e+09"}},
		{"what no rule allows, without what only would be denied", nil, []string{
			`edgespan_adapter_denied_packets_total{adapter="` + id + `",direction="ingress"} 6`,
			`edgespan_adapter_denied_packets_total{adapter="` + id + `",direction="egress"} 0`}},
		{"an app that is not activated", func(s *Snapshot) {
			a := s.Apps[app1.String()]
			a.Activate = false
			s.Apps = map[string]appnet.AppNetworkConfig{app1.String(): a}
		}, []string{"!edgespan_adapter_active", `edgespan_port_up{port="wan"} 1`}},
		{"DNS and DHCP", nil, []string{
			`edgespan_network_dns_queries_total{network="` + net1.String() + `"} 8`,
			`edgespan_network_dns_answers_total{network="` + net1.String() + `",rcode="nxdomain"} 1`,
			`edgespan_network_dns_answers_total{network="` + net1.String() + `",rcode="servfail"} 0`,
			`edgespan_network_dhcp_messages_total{network="` + net1.String() + `",type="ack"} 4`,
			`!edgespan_network_dhcp_messages_total{network="` + net1.String() + `",type=""`,
			`edgespan_network_watched_malformed_total{network="` + net1.String() + `"} 2`,
			`edgespan_network_watched_unread_total{network="` + net1.String() + `",protocol="dns"} 3`}},
		{"an app that was deleted", func(s *Snapshot) { s.Apps = nil }, []string{"!edgespan_adapter", "!edgespan_rule"}},
		{"counters of links that could not be read", func(s *Snapshot) { s.Links = nil }, []string{
			"!edgespan_adapter_receive", `edgespan_adapter_active{adapter="` + id + `"} 1`}},
		{"a port", nil, []string{`edgespan_port_up{port="wan"} 1`, `edgespan_port_transmit_drops_total{port="wan"} 33`}},
		{"a port without a status", func(s *Snapshot) { s.PortStatuses = nil }, []string{`edgespan_port_up{port="wan"} 0`}},
		{"probes of two networks, without the secrets of the URL", nil, []string{
			`edgespan_probe_shots_total{method="http",port="wan",target="http://example.org/x"} 15`,
			`edgespan_probe_failures_total{method="http",port="wan",target="http://example.org/x"} 3`,
			`edgespan_probe_up{method="http",port="wan",target="http://example.org/x"} 0`,
			`edgespan_probe_answer_seconds{method="http",port="wan",target="http://example.org/x"} 0.02`}},
		{"the flow log, of which a destination fails", nil, []string{
			`edgespan_flowlog_records_total{kind="end"} 8`, `edgespan_flowlog_lost_records_total{reason="disk"} 2`,
			`edgespan_flowlog_exported_records_total{destination="socket"} 5`,
			`edgespan_flowlog_export_dropped_records_total{destination="socket"} 3`,
			`edgespan_flowlog_export_failures_total{destination="socket"} 1`,
			`edgespan_flowlog_export_failing{destination="socket"} 1`, `!edgespan_flowlog_export_failing{destination="c`}},
		{"actors by kind", nil, []string{
			`edgespan_node_actors{actor="applier",state="restarting"} 1`, `edgespan_actor_mailbox_messages{actor="network"} 2`,
			`edgespan_actor_mailbox_messages{actor="app"} 1`, `edgespan_actor_restarts_total{actor="applier"} 3`}},
		{"the daemon's work", nil, []string{
			`edgespan_reconcile_drift_repairs_total{kind="rule"} 6`, `edgespan_reconcile_failures_total{kind="link"} 1`,
			"edgespan_reconcile_failing_ops 2", `edgespan_reconcile_duration_seconds_count{result="changed"} 0`,
			`edgespan_helper_resident_memory_bytes{program="dnsmasq"} 2.097152e+06`, "edgespan_node_ready 1",
			"edgespan_config_generation 7", "edgespan_config_rejected 0"}},
		{"a config that does not run", func(s *Snapshot) { s.Fault = "ports.wan: required" },
			[]string{"edgespan_config_rejected 1"}},
		{"a hostile name", func(s *Snapshot) {
			a := s.Apps[app1.String()]
			a.DisplayName = "x\"} 1\nedgespan_node_ready 0"
			s.Apps = map[string]appnet.AppNetworkConfig{app1.String(): a}
		}, []string{`!edgespan_node_ready 0`, `edgespan_adapter_info{adapter="` + id +
			`",app="x\"} 1\nedgespan_node_ready 0",interface="es1a1",network="` + net1.String() + `"} 1`}},
	} {
		s := house()
		if c.change != nil {
			c.change(&s)
		}
		got := scrape(t, s)
		for _, want := range c.want {
			prefix, absent := strings.CutPrefix(want, "!")
			if absent == slices.ContainsFunc(got, func(l string) bool { return l == want || absent && strings.HasPrefix(l, prefix) }) {
				t.Errorf("%s: %s\nin %s", c.says, want, strings.Join(got, "\n   "))
			}
		}
	}
}

func TestWhatTheDaemonDidIsCountedByKind(t *testing.T) {
	var w Work
	for _, op := range []string{"add link es1a1", "add file x", "delete conntrack entries of denied flows", "", "replace chain " +
		"ipv4/filter/ES1-1E, ipv4/filter/ES1-1I"} {
		w.OpFailed(op)
		w.Repaired(op)
	}
	for _, id := range []string{"router", "router/monitor", "router/ni/x", "router/ni/x/applier", "router/exec/a/b"} {
		w.Crashed(id)
	}
	w.Switched("a")
	w.Switched("b")
	w.ForgetNetwork("b")
	w.Reconciled(time.Millisecond, true, true)
	w.Reconciled(time.Millisecond, true, false)
	w.Reconciled(time.Millisecond, false, false)
	got := w.Snapshot()
	kinds := map[string]uint64{"link": 1, "file": 1, "other": 2, "chain": 1}
	for what, c := range map[string][2]any{
		"failed": {got.Failed, kinds}, "repaired": {got.Repaired, kinds}, "switches": {got.Switches, map[string]uint64{"a": 1}},
		"restarts":   {got.Restarts, map[string]uint64{"router": 1, "monitor": 1, "network": 1, "applier": 1, "exec": 1}},
		"reconciles": {len(got.Reconciles), 3},
	} {
		if fmt.Sprint(c[0]) != fmt.Sprint(c[1]) {
			t.Errorf("%s: %v, want %v", what, c[0], c[1])
		}
	}
}

// town is a node with n networks, and with three adapters on each.
func town(n int) Snapshot {
	s := house()
	h := s.Hits
	s.Hits = func(k netinst.AdapterKey, ni uuid.UUID) (map[hits.Key]hits.Total, time.Time) { return h(key, ni) }
	spec := s.Apps[app1.String()].Adapters[0]
	for i := range n {
		ni, bridge := uuid.New(), netinst.IfName(fmt.Sprintf("es%d", i))
		s.Networks[ni.String()] = netinst.NetworkInstanceConfig{UUID: ni, Type: netinst.Local}
		s.NetworkStatuses[ni.String()] = netinst.NetworkInstanceStatus{UUID: ni, Bridge: bridge, State: netinst.Present}
		s.Links[string(bridge)] = netstate.LinkCounters{Received: netstate.LinkTraffic{Bytes: 1e9}}
		for j := range 3 {
			app, link := uuid.New(), netinst.IfName(fmt.Sprintf("es%da%d", i, j))
			spec.NetworkInstance = ni
			s.Apps[app.String()] = appnet.AppNetworkConfig{UUID: app, Adapters: map[int]netinst.AdapterSpec{0: spec}}
			s.Adapters[netinst.AdapterKey{AppUUID: app}] = netinst.AppAdapterStatus{AppUUID: app, Activated: true,
				Link: netinst.AdapterLink{HostIfName: link}}
			s.Links[string(link)] = netstate.LinkCounters{Received: netstate.LinkTraffic{Bytes: 1e9, Packets: 1e7}}
			s.Actors = append(s.Actors, Actor{ID: "router/app/" + app.String()})
		}
	}
	return s
}

// TestAScrapeOfABigNodeIsSmall holds the bar: 100 networks with 300 adapters are at most 1 MB.
func TestAScrapeOfABigNodeIsSmall(t *testing.T) {
	n := 0
	for _, line := range scrape(t, town(100)) {
		n += len(line) + 1
	}
	if t.Logf("%d bytes", n); n > 1e6 || n < 1e5 {
		t.Errorf("%d bytes", n)
	}
}

func BenchmarkScrapeOf100NetworksWith300Adapters(b *testing.B) {
	s := town(100)
	for b.Loop() {
		if _, err := metrics.NewPage(&Table, s.Collect).Text(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
