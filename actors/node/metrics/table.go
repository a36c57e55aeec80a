package metrics

import "edgespan/config/httpapi/metrics"

// Table has the metrics of a node, besides those of the Go runtime and of the process.
var Table metrics.Table

var (
	nodeInfo = Table.Gauge("edgespan_node_info", "1, with the version of the daemon.", "version")
	ready    = Table.Gauge("edgespan_node_ready", "Whether the daemon is ready, as /readyz answers.")
	genera   = Table.Gauge("edgespan_config_generation",
		"Number of the running config in the node's journal, 0 for a base config.")
	configFault = Table.Gauge("edgespan_config_rejected",
		"Whether the config file, or an apply, is not what runs, because of an error.")
)

// Networks.
var (
	networks = Table.Gauge("edgespan_node_networks", "Networks, by state.", "state")
	netInfo  = Table.Gauge("edgespan_network_info", "1, with the name, the type and the bridge of a network.",
		"network", "name", "type", "bridge")
	netPresent = Table.Gauge("edgespan_network_present", "Whether the network is as the config says.", "network")
	netUplink  = Table.Gauge("edgespan_network_uplink_info",
		"1, with the port that a network uses for a port of its config.", "network", "selector", "port")
	netSwitches = Table.Counter("edgespan_network_uplink_switches_total",
		"Moves of the network from one port to another since the start of the daemon.", "network")
	dnsQueries = Table.Counter("edgespan_network_dns_queries_total",
		"DNS queries of the network's apps that were read.", "network")
	dnsAnswers = Table.Counter("edgespan_network_dns_answers_total",
		"DNS answers to the network's apps that were read, by response code.", "network", "rcode")
	dhcpMessages = Table.Counter("edgespan_network_dhcp_messages_total",
		"DHCP messages (IPv4) of the network's apps and to them that were read, by type.", "network", "type")
	malformed = Table.Counter("edgespan_network_watched_malformed_total",
		"Packets to or from the ports of DNS and DHCP that do not have their form.", "network")
	unread = Table.Counter("edgespan_network_watched_unread_total",
		"Packets of DNS or DHCP that were not read: too many, or parts of a longer TCP message.", "network", "protocol")
	netTraffic = newTraffic("network", "the node", "the bridge of the network", "network")
)

// Adapters. An adapter is named "<app>/<index>".
var (
	adapterInfo = Table.Gauge("edgespan_adapter_info",
		"1, with the network, the name of the app, and the interface on the host's side.",
		"adapter", "network", "app", "interface")
	adapterActive = Table.Gauge("edgespan_adapter_active",
		"Whether the adapter of an activated app is as the config says.", "adapter")
	adapterTraffic = newTraffic("adapter", "the app", "the adapter", "adapter")
	limitDrops     = Table.Counter("edgespan_adapter_limit_dropped_packets_total",
		"Packets that a limit of the adapter dropped, as of the last minute; gone after 10 minutes without any.",
		"adapter", "limit")
	denied = Table.Counter("edgespan_adapter_denied_packets_total",
		"Packets that no access rule of the adapter allows, as last read.", "adapter", "direction")
	rulePackets = Table.Counter("edgespan_rule_packets_total",
		"Packets that an access rule decided, as last read.", "adapter", "rule")
	ruleBytes = Table.Counter("edgespan_rule_bytes_total",
		"Bytes of the packets that an access rule decided, as last read; none for a rule without any.", "adapter", "rule")
	ruleExceeded = Table.Counter("edgespan_rule_exceeded_packets_total",
		"Packets above the rate of an access rule with a limit, as last read.", "adapter", "rule")
	rulesRead = Table.Gauge("edgespan_rule_read_timestamp_seconds",
		"Time of the oldest reading among the counters of access rules, in seconds since 1970.")
)

// Ports and probes.
var (
	portInfo    = Table.Gauge("edgespan_port_info", "1, with the interface of a port.", "port", "interface")
	portUp      = Table.Gauge("edgespan_port_up", "Whether the interface of the port exists and has a carrier.", "port")
	portTraffic = newTraffic("port", "the node", "the port", "port")
	shots       = Table.Counter("edgespan_probe_shots_total", "Probes that ended.", "port", "method", "target")
	shotsFailed = Table.Counter("edgespan_probe_failures_total", "Probes that failed.", "port", "method", "target")
	shotOK      = Table.Gauge("edgespan_probe_up", "Whether the last probe was answered.", "port", "method", "target")
	shotTook    = Table.Gauge("edgespan_probe_answer_seconds",
		"Seconds until the answer to the last probe that was answered.", "port", "method", "target")
)

// The flow log.
var (
	flowRecords = Table.Counter("edgespan_flowlog_records_total",
		"Lines of the flow log that were written, by kind.", "kind")
	flowLost = Table.Counter("edgespan_flowlog_lost_records_total",
		"Lines that are missing in the flow log, by reason: the kernel's events were not read in time, a network's part of "+
			"the queue was full, or the disk.", "reason")
	flowExported = Table.Counter("edgespan_flowlog_exported_records_total",
		"Records of the flow log that were sent to a destination.", "destination")
	flowDropped = Table.Counter("edgespan_flowlog_export_dropped_records_total",
		"Records of the flow log that were not sent to a destination, because too many waited.", "destination")
	flowFailures = Table.Counter("edgespan_flowlog_export_failures_total",
		"Connections to a destination of the flow log that failed.", "destination")
	flowFailing = Table.Gauge("edgespan_flowlog_export_failing",
		"Whether the flow log can't be sent to a destination now.", "destination")
)

// The work of the daemon.
var (
	reconciles = Table.Histogram("edgespan_reconcile_duration_seconds",
		"Seconds that it took to make one network, or the host, as desired.", "result")
	opsFailed = Table.Counter("edgespan_reconcile_failures_total",
		"Ops that began to fail, by the kind of object.", "kind")
	opsFailing = Table.Gauge("edgespan_reconcile_failing_ops", "Ops that fail now and are retried.")
	repairs    = Table.Counter("edgespan_reconcile_drift_repairs_total",
		"Objects that other programs had changed and the daemon repaired, by kind.", "kind")
	actors   = Table.Gauge("edgespan_node_actors", "Actors, by kind and state.", "actor", "state")
	mailbox  = Table.Gauge("edgespan_actor_mailbox_messages", "Messages that wait in mailboxes.", "actor")
	restarts = Table.Counter("edgespan_actor_restarts_total", "Restarts of actors that had crashed.", "actor")
	helpers  = Table.Gauge("edgespan_helper_processes", "Processes of the networks, by program.", "program")
	spans    = Table.Counter("edgespan_trace_spans_total",
		"Spans that were sent to the collector of traces, dropped, or left out of a trace that is too long.", "result")
	memory = Table.Gauge("edgespan_helper_resident_memory_bytes",
		"Bytes of memory of the networks' processes, by program, with what they share.", "program")
)

// traffic are the metrics of what a link carries.
type traffic [8]*metrics.Metric

// newTraffic adds the metrics of one subsystem; party receives and sends what they count, on a link.
func newTraffic(subsystem, party, link string, labels ...string) (t traffic) {
	i := 0
	for _, way := range []struct{ word, verb string }{{"receive", "received"}, {"transmit", "sent"}} {
		for _, what := range []struct{ word, help string }{
			{"bytes", "Bytes that " + party + " " + way.verb + " by " + link},
			{"packets", "Packets that " + party + " " + way.verb + " by " + link},
			{"errors", "Packets lost by errors of those that " + party + " " + way.verb + " by " + link},
			{"drops", "Packets that the kernel dropped of those that " + party + " " + way.verb + " by " + link},
		} {
			t[i] = Table.Counter("edgespan_"+subsystem+"_"+way.word+"_"+what.word+"_total",
				what.help+", since the link exists.", labels...)
			i++
		}
	}
	return t
}
