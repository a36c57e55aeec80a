package arch

// testsMayImport is what test files may import beyond mayImport. Those of integration
// may import anything.
var testsMayImport = map[string][]string{
	"actors/configdb": {
		"config/fleet/backup", "platform/store/bolt", "platform/store/etcd", "platform/store/etcd/etcdtest",
	},
	"actors/controller": {
		"config/events", "config/httpapi/metrics", "config/fleet/backup", "config/fleet/optimize", "config/fleet/rollout", "config/fleet/topology/sketch",
		"platform/store/backend", "platform/store/bolt", "platform/store/etcd",
	},
	"actors/controller/metrics": {"config/fleet/rollout"},
	"actors/node":               {"config/layers/metadata", "config/layers/schema", "platform/fake"},
	"actors/node/census":        {"config/layers/redact", "netinst"},
	"actors/node/flows":         {"netinst/verdict"},
	"actors/simulate":           {"config/fleet/rollout", "config/fleet/topology/sketch", "config/layers/metadata"},
	"appnet":                    {"netinst/manager", "netinst/netstate"},
	"netinst/flowlog/ipfix":     {"netinst/netstate", "netinst/verdict"},
	"netinst/verdict":           {"netinst/netstate", "netinst/overlap"},
	"cmd/edgespan": {
		"cmd/edgespan/clitest", "config", "config/fleet", "config/fleet/history", "config/fleet/ops",
		"config/httpapi/fleetapi", "config/stateloop", "config/stateloop/peer", "platform/pki",
	},
	"cmd/edgespan-controller": {
		"cmd/edgespan-controller/ctltest", "cmd/edgespan/clitest", "config", "config/fleet", "config/fleet/backup",
		"config/fleet/history", "config/fleet/ops", "config/httpapi/fleetapi", "config/httpapi/rest", "config/kv",
		"config/layers", "config/layers/override", "platform/confdir", "platform/datadir", "platform/keystone",
		"platform/store/bolt", "platform/store/etcd/etcdtest",
	},
	"cmd/edgespan-controller/offline": {
		"cmd/edgespan-controller/ctltest", "platform/store/bolt", "platform/store/etcd/etcdtest",
	},
	"cmd/edgespan-controller/serve": {
		"cmd/edgespan-controller/ctltest", "config/layers", "platform/keystone/keystonetest",
		"platform/store/etcd/etcdtest",
	},
	"cmd/edgespan-controller/simulate": {"cmd/edgespan-controller/ctltest", "config/fleet"},
	"cmd/edgespan/configdbcli":         {"cmd/edgespan/clitest", "platform/keystone/keystonetest", "platform/pki"},
	"cmd/edgespan/daemon":              {"cmd/edgespan/clitest", "config/configdb/model", "config/nodeconf", "netinst"},
	"cmd/edgespan/demo":                {"cmd/edgespan/clitest", "cmd/edgespan/reach"},
	"cmd/edgespan/fleetcli": {"cmd/edgespan/clitest", "config/kv", "config/layers/redact", "config/layers/override",
		"config/layers/schema"},
	"cmd/edgespan/layerscli":      {"cmd/edgespan/clitest", "cmd/edgespan/reach"},
	"cmd/edgespan/nodecli":        {"cmd/edgespan/clitest", "config/events"},
	"cmd/edgespan/supportcli":     {"cmd/edgespan/clitest"},
	"cmd/edgespan/top":            {"cmd/edgespan/clitest"},
	"config/fleet/backup":         {"config/layers"},
	"config/fleet/controllerconf": {"config/layers/schema"},
	"config/fleet/history": {
		"platform/store/backend", "platform/store/bolt", "platform/store/etcd", "platform/store/etcd/etcdtest",
	},
	"config/fleet/nodeside":        {"config/layers/schema"},
	"config/fleet/ops":             {"config/layers/schema"},
	"config/fleet/topology/sketch": {"config/fleet/rollout"},
	"config/httpapi/configdbapi":   {"config/kv"},
	"config/httpapi/fleetapi":      {"config/kv", "pubsub/trace"},
	"config/layers/lint":           {"config/layers/schema"},
	"config/layers/migrate":        {"config/layers/metadata"},
	"config/layers/override":       {"config/layers/schema", "config/nodeconf"},
	"config/stateloop":             {"netinst"},
	"config/stateloop/nodestate":   {"config/layers/schema"},
	"platform/factlink":            {"config/configdb"},
	"platform/keystone":            {"platform/keystone/keystonetest"},
	"platform/store/backend":       {"platform/store/bolt"},
	"platform/store/bolt":          {"platform/store/conformance"},
	"platform/store/etcd":          {"platform/store/conformance", "platform/store/etcd/etcdtest"},
}
