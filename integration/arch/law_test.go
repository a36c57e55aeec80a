package arch

import (
	"fmt"
	"slices"
	"strings"
)

// module is the import path that every package of ours begins with.
const module = "edgespan"

// mayImport is law 1: what each package may import of this module. A package that is
// missing here fails the test, so that a new room is a decision.
var mayImport = map[string][]string{
	// Pure cores of a node.
	"appnet":                {"netinst", "pubsub/backoff"},
	"netinst":               {"netinst/netstate", "netinst/overlap", "netinst/probe"},
	"netinst/addressing":    {"netinst", "netinst/dhcpclient", "netinst/netstate", "pubsub/backoff"},
	"netinst/dhcpclient":    {"netinst/netstate", "pubsub/backoff"},
	"netinst/doctor":        {"netinst", "netinst/netstate", "netinst/overlap"},
	"netinst/flowlog":       {"netinst", "netinst/netstate", "netinst/verdict"},
	"netinst/flowlog/ipfix": {"netinst", "netinst/flowlog"},
	"netinst/hits":          {"netinst", "netinst/netstate"},
	"netinst/manager":       {"netinst", "netinst/netstate", "netinst/overlap", "netinst/watched", "pubsub/backoff"},
	"netinst/netstate":      {},
	"netinst/overlap":       {"netinst/netstate"},
	"netinst/probe":         {},
	"netinst/registry":      {"netinst", "netinst/netstate", "pubsub/backoff"},
	"netinst/verdict":       {"netinst", "netinst/probe"},
	"netinst/watched":       {"netinst", "netinst/netstate"},

	// Configuration: documents, and the groups in their order; a group imports only itself and those above it here.
	"config":                     {},
	"config/events":              {"config"},
	"config/layers":              {"config"},
	"config/layers/lint":         {"config", "config/layers", "config/layers/metadata"},
	"config/layers/metadata":     {"config"},
	"config/layers/migrate":      {"config", "config/layers"},
	"config/layers/override":     {"config", "config/layers", "config/layers/metadata"},
	"config/layers/schema":       {"config"},
	"config/kv":                  {},
	"config/layers/redact/plain": {"config/layers/redact"},
	"config/layers/redact":       {"config", "config/layers/metadata", "config/layers/override"},
	"config/nodeconf": {
		"appnet", "config", "config/layers/schema", "netinst", "netinst/addressing", "netinst/overlap", "netinst/probe",
	},
	"config/nodeconf/action":        {"config", "config/layers/metadata"},
	"config/nodeconf/commitconfirm": {"config", "config/layers", "config/nodeconf/action"},
	"config/stateloop":              {"config", "config/nodeconf"},
	"config/stateloop/nodestate": {
		"appnet", "config", "config/layers/metadata", "config/nodeconf", "config/nodeconf/commitconfirm",
		"config/stateloop", "config/stateloop/peer", "config/stateloop/peer/task", "netinst",
	},
	"config/stateloop/peer":      {"config", "config/stateloop", "netinst"},
	"config/stateloop/peer/task": {"config/stateloop", "pubsub/backoff"},
	"config/fleet": {
		"config", "config/fleet/nodeproto", "config/layers", "config/layers/metadata", "config/stateloop",
		"config/stateloop/peer", "pubsub/backoff",
	},
	"config/fleet/backup": {
		"config", "config/fleet", "config/fleet/bisect", "config/fleet/history", "config/kv",
	},
	"config/fleet/bisect":         {"config", "config/fleet", "config/fleet/nodeproto", "config/stateloop"},
	"config/fleet/controllerconf": {"config", "config/layers/metadata"},
	"config/fleet/history": {
		"config", "config/fleet/topology", "config/kv", "config/layers", "config/layers/override",
		"config/stateloop/peer",
	},
	"config/fleet/nodeproto": {"config"},
	"config/fleet/relayflow": {},
	"config/fleet/nodeside": {
		"config", "config/fleet/nodeproto", "config/layers", "config/layers/metadata", "config/nodeconf/action",
		"config/stateloop/peer", "netinst", "netinst/netstate",
	},
	"config/fleet/ops": {
		"config", "config/fleet", "config/fleet/bisect", "config/fleet/controllerconf", "config/fleet/history", "config/fleet/optimize",
		"config/fleet/topology", "config/kv", "config/layers", "config/layers/metadata", "config/layers/migrate",
		"config/layers/override", "config/nodeconf", "config/stateloop/peer",
	},
	"config/fleet/optimize": {"config", "config/fleet/topology"},
	"config/fleet/pace":     {"pubsub/backoff"},
	"config/fleet/rollout":  {"config", "config/fleet/topology"},
	"config/fleet/rollout/staged": {
		"config", "config/fleet", "config/fleet/controllerconf", "config/fleet/history", "config/fleet/rollout",
		"config/kv",
	},
	"config/fleet/topology":        {"config"},
	"config/fleet/topology/sketch": {"config/fleet/topology"},
	"config/fleet/underlay":        {"config/fleet/nodeproto", "config/fleet/pace", "config/stateloop/peer", "netinst"},
	"config/configdb":              {"config"},
	"config/configdb/hieratree":    {"config", "config/configdb", "config/configdb/model"},
	"config/configdb/model":        {"config", "config/configdb", "config/kv"},
	"config/httpapi/configdbapi": {
		"config", "config/configdb", "config/configdb/model", "config/httpapi/rest", "pubsub/ratelimit",
	},
	"config/httpapi/fleetapi": {
		"config", "config/events", "config/fleet/backup", "config/fleet/history", "config/fleet/nodeproto",
		"config/fleet/ops", "config/fleet/optimize", "config/httpapi/rest", "config/layers", "config/layers/override",
		"config/stateloop/peer", "pubsub/loglevel", "config/fleet/bisect",
	},
	"config/httpapi/metrics": {"config/httpapi/rest"},
	"config/httpapi/nodeapi": {"config", "config/events", "config/httpapi/rest", "pubsub/loglevel"},
	"config/httpapi/rest":    {"config", "pubsub/ratelimit", "pubsub/trace"},

	// Topics.
	"pubsub":            {},
	"pubsub/backoff":    {},
	"pubsub/ratelimit":  {},
	"pubsub/loglevel":   {},
	"pubsub/shellproto": {},
	"pubsub/tape":       {},
	"pubsub/trace":      {},

	// The shell: actors.
	"actors/agent": {
		"actors/relay", "actors/supervise", "config", "config/events", "config/fleet/nodeproto",
		"config/fleet/nodeside", "config/httpapi/rest", "config/layers/metadata", "config/nodeconf/action",
		"config/nodeconf/commitconfirm", "config/stateloop/peer", "pubsub/trace",
	},
	"actors/configdb": {
		"actors/supervise", "config/configdb", "config/configdb/model", "config/httpapi/configdbapi",
		"config/httpapi/rest", "config/kv",
	},
	"actors/controller": {
		"actors/controller/metrics",
		"actors/controller/nodes", "actors/controller/rollouts", "actors/controller/storage", "actors/relay",
		"actors/supervise", "config", "config/fleet", "config/fleet/bisect", "config/fleet/controllerconf",
		"config/fleet/history", "config/fleet/nodeproto", "config/fleet/ops", "config/fleet/pace",
		"config/fleet/relayflow", "config/fleet/rollout/staged", "config/fleet/topology", "config/fleet/underlay",
		"config/httpapi/fleetapi", "config/httpapi/rest", "config/kv", "config/layers",
		"config/layers/metadata", "config/layers/override", "config/stateloop", "config/stateloop/peer",
		"pubsub/backoff", "pubsub/ratelimit", "pubsub/trace",
	},
	"actors/controller/metrics": {
		"actors/supervise", "config/fleet", "config/fleet/nodeproto", "config/fleet/rollout/staged",
		"config/httpapi/metrics",
	},
	"actors/controller/nodes": {
		"actors/controller/metrics",
		"actors/controller/storage", "config", "config/events", "config/fleet", "config/fleet/bisect",
		"config/fleet/history",
		"config/fleet/nodeproto", "config/fleet/ops", "config/fleet/pace", "config/fleet/underlay",
		"config/httpapi/fleetapi", "config/kv", "config/layers", "config/stateloop", "config/stateloop/peer",
		"pubsub/trace",
	},
	"actors/controller/rollouts": {
		"actors/controller/storage", "config/fleet", "config/fleet/history", "config/fleet/rollout",
		"config/fleet/rollout/staged", "config/fleet/topology", "config/httpapi/fleetapi", "config/kv",
		"config/layers",
	},
	"actors/controller/storage": {
		"actors/supervise", "config", "config/fleet/backup", "config/fleet/history", "config/fleet/ops",
		"config/fleet/pace", "config/httpapi/fleetapi", "config/httpapi/rest", "config/kv", "config/layers/migrate",
		"pubsub/backoff", "pubsub/ratelimit", "pubsub/trace",
	},
	"actors/node": {
		"actors/agent", "actors/node/api", "actors/node/census", "actors/node/console", "actors/node/cores", "actors/node/flows", "actors/node/metrics",
		"actors/relay", "pubsub/shellproto", "actors/supervise", "appnet", "config", "config/events", "config/fleet/nodeproto", "config/fleet/nodeside",
		"config/httpapi/metrics",
		"config/httpapi/nodeapi", "config/httpapi/rest", "config/nodeconf",
		"config/nodeconf/action", "config/nodeconf/commitconfirm", "config/stateloop", "config/stateloop/nodestate",
		"config/stateloop/peer", "config/stateloop/peer/task", "netinst", "netinst/addressing", "netinst/dhcpclient",
		"netinst/flowlog", "netinst/hits", "netinst/manager", "netinst/netstate", "netinst/overlap", "netinst/probe",
		"netinst/registry", "netinst/verdict", "netinst/watched", "pubsub", "pubsub/loglevel", "pubsub/tape", "pubsub/trace",
	},
	"actors/node/cores": {
		"appnet", "config/layers/redact", "config/stateloop/peer/task", "netinst", "netinst/addressing",
		"netinst/dhcpclient", "netinst/manager", "netinst/netstate", "netinst/probe", "netinst/registry", "pubsub/tape",
	},
	"actors/node/fault": {"actors/node", "netinst/netstate", "netinst/probe", "pubsub"},
	"actors/node/flows": {
		"actors/node/metrics", "config/httpapi/nodeapi", "config/httpapi/rest", "netinst", "netinst/flowlog",
		"netinst/flowlog/ipfix", "netinst/netstate", "pubsub/backoff",
	},
	"actors/node/api": {
		"actors/node/metrics", "appnet", "config/events", "config/httpapi/nodeapi", "config/httpapi/rest", "config/nodeconf", "config/stateloop/nodestate",
		"config/stateloop/peer/task", "netinst", "netinst/dhcpclient", "netinst/doctor", "netinst/hits", "netinst/manager",
		"netinst/netstate", "netinst/overlap", "netinst/probe", "netinst/registry", "netinst/verdict", "netinst/watched", "pubsub",
	},
	"actors/node/console": {"actors/node/api", "actors/node/census", "pubsub/shellproto", "config/httpapi/nodeapi",
		"config/layers/redact", "config/layers/redact/plain", "pubsub", "pubsub/loglevel"},
	"actors/node/census": {"pubsub/shellproto", "pubsub/ratelimit", "actors/supervise", "config/httpapi/nodeapi",
		"config/layers/redact/plain"},
	"actors/node/metrics": {
		"appnet", "config/httpapi/metrics", "netinst", "netinst/hits", "netinst/netstate", "netinst/probe",
		"netinst/watched",
	},
	"actors/relay": {"config", "config/fleet/nodeproto", "config/fleet/relayflow"},
	"actors/simulate": {
		"actors/agent", "actors/supervise", "config", "config/fleet", "config/fleet/nodeproto",
		"config/fleet/topology", "config/httpapi/fleetapi", "config/nodeconf/action",
		"config/nodeconf/commitconfirm", "pubsub/trace",
	},
	"actors/shell":     {"pubsub/shellproto", "pubsub/ratelimit", "actors/supervise"},
	"actors/supervise": {"pubsub/backoff", "pubsub/trace"},

	// The platform obeys: it knows the vocabulary of host state, of stores and links, and itself.
	"platform/confdir":    {"config", "config/layers", "platform/store"},
	"platform/conns":      {"config"},
	"platform/daemon":     {"platform/store"},
	"platform/datadir":    {"config", "platform/store"},
	"platform/dnsmasq":    {"netinst/netstate", "platform/dump", "platform/proc"},
	"platform/dump":       {},
	"platform/executor":   {"netinst/netstate", "platform/proc", "platform/store"},
	"platform/factlink":   {"config/configdb/model", "config/httpapi/configdbapi", "pubsub/backoff"},
	"platform/facts":      {"netinst/netstate", "platform/proc"},
	"platform/fake":       {"config/kv", "netinst/netstate", "netinst/probe"},
	"platform/flowexport": {},
	"platform/firewall":   {"netinst/netstate", "platform/dump", "platform/nft", "platform/proc", "pubsub/backoff"},
	"platform/dhcp":       {"netinst/netstate", "platform/proc"},
	"platform/host": {
		"netinst/netstate", "netinst/probe", "platform/dhcp", "platform/dnsmasq", "platform/dump", "platform/firewall",
		"platform/ipset", "platform/kernel", "platform/nft", "platform/pki", "platform/probe", "platform/proc",
		"platform/resolvconf", "platform/vpn", "platform/vpn/ipsec", "platform/vpn/wireguard", "platform/watch",
	},
	"platform/ipset":                 {"netinst/netstate", "platform/dump"},
	"platform/vpn":                   {"netinst/netstate"},
	"platform/kernel":                {"netinst/netstate", "platform/dump", "platform/proc", "pubsub/backoff"},
	"platform/keystone":              {"config", "platform/pki", "pubsub/backoff"},
	"platform/keystone/keystonetest": {},
	"platform/lab":                   {"config", "platform/proc"},
	"platform/nft":                   {"netinst/netstate", "platform/proc"},
	"platform/nodelink": {
		"config", "config/fleet/nodeproto", "platform/conns", "platform/nodelink/linkpb", "platform/pki",
		"pubsub/backoff", "pubsub/ratelimit",
	},
	"platform/nodelink/linkpb": {},
	"platform/otlp":            {"platform/pki", "pubsub/backoff", "pubsub/trace"},
	"platform/passwd":          {},
	"platform/pki":             {"platform/store"},
	"platform/probe":           {"netinst/probe", "platform/pki", "platform/proc"},
	"platform/proc":            {"netinst/netstate"},
	"platform/resolvconf":      {"netinst/netstate"},
	"platform/store":           {},
	"platform/support":         {"config/layers/redact", "platform/proc", "platform/store"},
	"platform/vpn/wireguard": {
		"netinst/netstate", "platform/dump", "platform/proc", "platform/store", "platform/vpn/wireguard/helper",
	},
	"platform/vpn/wireguard/helper": {"netinst/netstate"},
	"platform/watch":                {"netinst/netstate", "platform/proc"},
	"platform/store/backend":        {"config/kv"},
	"platform/store/bolt":           {"config", "config/kv", "platform/store/backend"},
	"platform/store/conformance":    {"config/kv", "platform/store/backend"},
	"platform/store/etcd":           {"config/kv", "platform/store/backend"},
	"platform/store/etcd/etcdtest":  {},
	"platform/tape":                 {"platform/datadir"},
	"platform/tty":                  {},
	"platform/vpn/ipsec":            {"netinst/netstate", "platform/pki", "platform/proc"},

	// Wiring.
	"cmd/edgespan": {
		"cmd/edgespan/configdbcli", "cmd/edgespan/daemon", "cmd/edgespan/demo", "cmd/edgespan/fleetcli",
		"cmd/edgespan/layerscli", "cmd/edgespan/nodecli", "cmd/edgespan/reach", "cmd/edgespan/replaycli", "cmd/edgespan/shellcli",
		"cmd/edgespan/supportcli", "cmd/edgespan/top", "cmd/edgespan/tunnel", "cmd/term",
	},
	"cmd/edgespan-controller": {
		"cmd/edgespan-controller/offline", "cmd/edgespan-controller/serve", "cmd/edgespan-controller/simulate",
		"cmd/term",
	},
	"cmd/edgespan-controller/ctltest": {
		"cmd/term", "config", "config/fleet/nodeproto", "config/httpapi/fleetapi", "platform/nodelink",
		"platform/pki",
	},
	"cmd/edgespan-controller/offline": {
		"cmd/edgespan-controller/serve", "cmd/term", "config", "config/fleet/backup", "config/fleet/history",
		"config/fleet/ops", "config/httpapi/fleetapi", "config/kv", "platform/confdir", "platform/datadir",
		"platform/pki", "platform/store/backend", "platform/store/etcd",
	},
	"cmd/edgespan-controller/serve": {
		"actors/configdb", "actors/controller", "actors/controller/metrics", "actors/controller/storage", "cmd/term",
		"config", "config/fleet", "config/httpapi/metrics",
		"config/fleet/backup", "config/fleet/controllerconf", "config/fleet/history", "config/fleet/nodeproto",
		"config/fleet/ops", "config/fleet/optimize", "config/httpapi/configdbapi", "config/httpapi/fleetapi",
		"config/httpapi/rest", "config/kv", "config/layers/metadata", "config/layers/schema",
		"config/nodeconf/action", "platform/confdir", "platform/conns", "platform/daemon", "platform/datadir",
		"platform/keystone", "platform/nodelink", "platform/passwd", "platform/pki", "platform/proc",
		"platform/store", "platform/store/backend", "platform/store/bolt", "platform/store/etcd", "pubsub/ratelimit", "platform/otlp", "pubsub/trace", "pubsub/loglevel",
	},
	"cmd/edgespan-controller/simulate": {
		"actors/agent", "actors/simulate", "cmd/edgespan-controller/serve", "cmd/term", "config",
		"config/fleet/nodeproto", "config/fleet/ops", "config/fleet/rollout", "config/fleet/topology",
		"config/fleet/topology/sketch", "config/httpapi/fleetapi", "config/httpapi/rest", "config/layers",
		"config/layers/schema", "config/nodeconf/commitconfirm", "platform/confdir", "platform/nodelink",
		"platform/pki", "platform/proc", "platform/store", "pubsub/backoff",
	},
	"cmd/edgespan/clitest": {
		"actors/configdb", "pubsub/shellproto", "cmd/edgespan/reach", "cmd/term", "config", "config/events", "config/fleet",
		"config/fleet/backup", "config/fleet/bisect", "config/fleet/history", "config/fleet/nodeproto", "config/fleet/ops",
		"config/httpapi/configdbapi", "config/httpapi/fleetapi",
		"config/httpapi/metrics", "config/httpapi/nodeapi", "config/httpapi/rest", "config/kv", "config/layers",
		"config/layers/metadata", "config/layers/schema", "config/stateloop/peer", "platform/confdir", "platform/pki", "platform/store/bolt",
		"platform/tty", "pubsub/loglevel",
	},
	"cmd/edgespan/configdbcli": {
		"cmd/edgespan/reach", "cmd/term", "config", "config/configdb", "config/configdb/hieratree",
		"config/configdb/model", "config/httpapi/configdbapi", "config/httpapi/rest", "platform/keystone",
		"platform/store",
	},
	"cmd/edgespan/daemon": {
		"actors/agent", "actors/node", "actors/node/api", "actors/node/cores", "actors/node/fault", "actors/node/flows", "actors/node/metrics",
		"actors/relay", "actors/shell", "pubsub/shellproto",
		"cmd/edgespan/reach", "cmd/term", "config", "config/fleet/nodeproto", "config/fleet/relayflow",
		"config/configdb", "config/httpapi/configdbapi", "config/httpapi/metrics", "config/httpapi/nodeapi",
		"config/httpapi/rest", "config/layers", "config/layers/metadata", "config/layers/schema", "config/nodeconf/action",
		"netinst", "netinst/netstate", "platform/confdir", "platform/conns", "platform/daemon",
		"platform/datadir", "platform/executor", "platform/factlink",
		"platform/facts", "platform/flowexport", "platform/host", "platform/nodelink", "platform/otlp", "platform/pki",
		"platform/probe", "platform/proc", "platform/store", "platform/support", "platform/tape", "pubsub", "pubsub/backoff",
		"pubsub/loglevel", "pubsub/tape", "pubsub/trace",
	},
	"cmd/edgespan/demo": {"cmd/term", "config", "examples", "platform/lab"},
	"cmd/edgespan/fleetcli": {
		"config/fleet/bisect",
		"cmd/edgespan/layerscli", "cmd/edgespan/reach", "cmd/edgespan/supportcli", "cmd/term", "config",
		"config/events", "config/fleet/backup", "config/fleet/history", "config/fleet/nodeproto", "config/fleet/ops",
		"config/fleet/optimize", "config/httpapi/fleetapi",
		"config/httpapi/rest", "config/layers", "config/layers/metadata", "config/stateloop",
		"config/stateloop/peer", "platform/store", "platform/support",
	},
	"cmd/edgespan/layerscli": {
		"cmd/term", "config", "config/fleet/controllerconf", "config/fleet/ops", "config/fleet/optimize",
		"config/fleet/rollout", "config/fleet/topology", "config/layers", "config/layers/lint",
		"config/layers/metadata", "config/layers/migrate", "config/layers/override", "config/layers/schema",
		"config/nodeconf", "config/stateloop", "platform/confdir",
	},
	"cmd/edgespan/nodecli": {
		"cmd/edgespan/fleetcli", "cmd/edgespan/reach", "cmd/term", "config",
		"config/httpapi/nodeapi", "config/httpapi/rest", "netinst/doctor", "platform/facts", "pubsub/loglevel",
	},
	"cmd/edgespan/replaycli": {
		"actors/node/cores", "cmd/edgespan/reach", "cmd/term", "platform/tape", "pubsub/tape",
	},
	"cmd/edgespan/shellcli": {
		"actors/shell", "pubsub/shellproto", "cmd/edgespan/reach", "cmd/edgespan/top", "cmd/term", "config",
		"config/httpapi/fleetapi",
		"config/httpapi/nodeapi", "config/httpapi/rest", "platform/support", "platform/tty",
	},
	"cmd/edgespan/supportcli": {
		"cmd/edgespan/reach", "cmd/term", "config", "config/httpapi/nodeapi", "config/httpapi/rest",
		"config/layers/metadata", "config/layers/schema", "config/nodeconf/commitconfirm", "config/layers/redact",
		"netinst/doctor", "platform/confdir", "platform/daemon", "platform/facts", "platform/store",
		"platform/support", "platform/tape",
	},
	"cmd/edgespan/top": {
		"cmd/edgespan/nodecli", "cmd/edgespan/reach", "cmd/term", "config/httpapi/nodeapi", "config/httpapi/rest", "platform/tty",
	},
	"cmd/edgespan/tunnel": {"cmd/term", "platform/vpn/wireguard/helper"},
	"cmd/edgespan/reach":  {"cmd/term", "config/httpapi/fleetapi", "config/httpapi/nodeapi", "platform/store"},
	"cmd/term":            {"config", "config/httpapi/fleetapi", "config/httpapi/rest", "platform/confdir", "platform/pki", "pubsub/loglevel"},
	"deploy":              {},
	"examples":            {},

	// Tests of whole processes; no production code imports them.
	"integration/arch":       {},
	"integration/bench":      {},
	"integration/benchtable": {},
	"integration/cluster":    {},
	"integration/fleet":      {},
	"integration/mutate":     {},
	"integration/netns":      {"platform/proc"},
	"integration/puppet":     {},
	"integration/scenario":   {},
	"integration/simulation": {},
	"integration/soak":       {"integration/soak/field", "integration/soak/guest", "integration/soak/model"},
	"integration/soak/field": {"integration/soak/guest", "integration/soak/model", "integration/soak/report"},
	"integration/soak/guest": {"integration/soak/model", "actors/node/api", "actors/node/census",
		"actors/node/console", "actors/shell", "platform/store", "pubsub/shellproto"},
	"integration/soak/model":  {},
	"integration/soak/report": {},
	"integration/vm":          {},
}

// pure are the cores: values in, values out.
var pure = []string{
	"netinst",
	"netinst/netstate",
	"netinst/doctor",
	"netinst/hits",
	"appnet",
	"config",
	"config/layers/schema",
	"config/nodeconf",
	"config/fleet/topology",
	"config/fleet/topology/sketch",
	"config/layers",
	"config/layers/override",
	"config/layers/metadata",
	"config/fleet/optimize",
	"config/fleet/rollout",
	"config/fleet/rollout/staged",
	"config/fleet/bisect",
	"config/fleet/controllerconf",
	"config/layers/migrate",
	"config/layers/lint",
	"config/kv",
	"config/layers/redact",
	"config/fleet/pace",
	"config/events",
	"config/fleet",
	"config/nodeconf/action",
	"config/nodeconf/commitconfirm",
	"config/fleet/nodeproto",
	"config/fleet/relayflow",
	"config/fleet/underlay",
	"config/stateloop",
	"config/stateloop/peer",
	"config/stateloop/nodestate",
	"config/stateloop/peer/task",
	"config/fleet/history",
	"config/fleet/ops",
	"config/fleet/backup",
	"config/configdb",
	"config/configdb/model",
	"config/configdb/hieratree",
}

// impure is what a core may not import: os, net, exec, clock, lock, context, log, random
// numbers. time itself is allowed for durations; impureCalls forbids its clock.
var impure = []string{
	"os", "net", "io/fs", "path/filepath", "syscall", "unsafe", "plugin", "runtime", "context", "sync", "log",
	"math/rand", "crypto/rand", "testing", "database",
}

// pureDespite are parts of the above that only compute.
var pureDespite = []string{"net/netip", "net/url"}

// impureCalls are functions of allowed packages that read a clock or a random source.
var impureCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "LoadLocation",
		"Local"},
	"github.com/google/uuid": {
		"New", "NewString", "NewRandom", "NewRandomFromReader", "NewUUID", "NewV6", "NewV7", "NewDCESecurity",
		"NewDCEGroup", "NewDCEPerson", "EnableRandPool", "SetRand", "NodeID", "GetTime",
	},
}

// place is law 2: imports of a kind belong to these places only. The first rule whose
// prefix fits counts; what fits none and is not of the standard library fails.
type place struct {
	prefix string
	where  []string
}

var places = []place{
	{"github.com/asynkron/protoactor-go", []string{"actors", "cmd"}},
	{"github.com/vishvananda/netlink", []string{"platform"}},
	{"github.com/vishvananda/netns", []string{"platform"}},
	{"github.com/miekg/dns", []string{"platform"}},
	{"github.com/coreos/go-iptables", []string{"platform/firewall"}}, // detection only, ADR 0011
	{"github.com/insomniacslk/dhcp", []string{"platform/dhcp"}},      // ADR 0061
	{"golang.org/x/sys", []string{"platform"}},
	{"golang.org/x/term", []string{"cmd"}}, // ADR 0095
	{"golang.org/x/crypto", []string{"platform/passwd"}},
	{"golang.org/x/time/rate", []string{"pubsub/ratelimit", "platform"}}, // ADR 0056
	{"github.com/google/uuid", []string{"netinst", "appnet", "config", "actors", "platform", "cmd"}},
	{"github.com/klauspost/compress/zstd", []string{"config/configdb/model"}}, // how documents lie in the store, ADR 0022
	// to write it: config.ReadYAML is the one reader, ADR 0055
	{"github.com/goccy/go-yaml", []string{"cmd"}},
	{"go.yaml.in/yaml/v3", []string{"config"}},
	{"github.com/spf13/cobra", []string{"cmd"}},
	{"github.com/spf13/pflag", []string{"cmd"}}, // cobra's flags
	{"go.uber.org/zap", []string{"actors", "platform", "cmd"}},
	// there only how etcd's client connects
	{"google.golang.org/grpc", []string{"platform/nodelink", "actors", "platform/store/etcd"}},
	{"google.golang.org/protobuf", []string{"platform/nodelink", "actors"}},
	{"github.com/prometheus", []string{"config/httpapi/metrics"}},      // ADR 0075
	{"golang.zx2c4.com/wireguard", []string{"platform/vpn/wireguard"}}, // ADR 0089
	{"github.com/strongswan/govici", []string{"platform/vpn/ipsec"}},   // ADR 0090
	{"go.etcd.io", []string{"platform/store"}},
	{"os/exec", []string{"platform/proc", "platform/lab", "cmd/edgespan-controller/ctltest"}},
	{"net/http", []string{"config/httpapi", "platform", "cmd"}},
	{"crypto/x509", []string{"platform/pki"}},
	{"crypto/tls", []string{"platform/pki", "platform/store/etcd"}}, // there only the type that it hands on
	// In test files only: those are free of law 2.
	{"pgregory.net/rapid", []string{"platform/store/conformance"}}, // a suite that tests of two rooms run
	{"github.com/google/go-cmp", nil},
	{"testing", []string{"platform/store/conformance", "cmd/edgespan/clitest", "cmd/edgespan-controller/ctltest"}},
}

// pkg is what go list says of one package; the paths are as it prints them.
type pkg struct {
	Dir, ImportPath, Name, Doc         string
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
}

// room is the import path below the module.
func (p pkg) room() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// breaches are the laws that the imports of ps break, one sentence each.
func breaches(ps []pkg) []string {
	var out []string
	for _, p := range ps {
		if len(p.GoFiles) > 0 && strings.TrimSpace(p.Doc) == "" {
			out = append(out, p.room()+" has no package comment")
		}
		for _, name := range []string{"internal", "pkg", "util", "utils", "common", "types", "helpers"} {
			if slices.Contains(strings.Split(p.room(), "/"), name) {
				out = append(out, fmt.Sprintf("%s: a folder %q is no room", p.room(), name))
			}
		}
		allowed, known := mayImport[p.room()]
		if !known {
			out = append(out, p.room()+" is missing in the import table")
			continue
		}
		for _, imp := range p.Imports {
			out = append(out, wrongImport(p.room(), allowed, imp)...)
		}
		if under(p.room(), "integration") {
			continue
		}
		allowed = append(slices.Clone(allowed), testsMayImport[p.room()]...)
		for _, imp := range append(slices.Clone(p.TestImports), p.XTestImports...) {
			if below, own := strings.CutPrefix(imp, module+"/"); own && below != p.room() && !slices.Contains(allowed, below) {
				out = append(out, fmt.Sprintf("tests of %s may not import %q", p.room(), below))
			}
		}
	}
	return out
}

// wrongImport says what is wrong with one import outside of test files.
func wrongImport(room string, allowed []string, imp string) []string {
	if below, own := strings.CutPrefix(imp, module+"/"); own {
		if !slices.Contains(allowed, below) {
			return []string{fmt.Sprintf("%s may not import %q", room, below)}
		}
		return nil
	}
	if slices.Contains(pure, room) && anyUnder(imp, impure) && !slices.Contains(pureDespite, imp) {
		return []string{fmt.Sprintf("%s is pure and may not import %q", room, imp)}
	}
	if room == "pubsub" && !isStd(imp) {
		return []string{fmt.Sprintf("pubsub stands on the standard library and may not import %q", imp)}
	}
	if under(room, "integration") {
		return nil // free of law 2
	}
	for _, rule := range places {
		if under(imp, rule.prefix) {
			if !anyUnder(room, rule.where) {
				return []string{fmt.Sprintf("%s may not import %q: its place is %s", room, imp,
					strings.Join(append(rule.where, "test files"), ", "))}
			}
			return nil
		}
	}
	if !isStd(imp) {
		return []string{fmt.Sprintf("%s imports %q, which has no place: a dependency needs an ADR", room, imp)}
	}
	return nil
}

// under says whether path is root or below it.
func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func anyUnder(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return under(path, r) })
}

// isStd: packages of the standard library have no dot in their first element.
func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}
