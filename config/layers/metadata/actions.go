package metadata

import (
	"maps"
	"slices"

	"edgespan/config"
)

// Action is one action of a node after a change.
type Action struct {
	Name string
	// Keys are the entries and properties that require the action, sorted: those that declare it, not the changed leaves
	// below them.
	Keys [][]string
}

const (
	noAction      = "NO_ACTION"
	restartMinion = "RESTART_MINION"
	reboot        = "REBOOT"
)

// order lists all actions in the order of execution: first those that take effect in place, then the radios, then
// packet processing from the firewall down to routing, then services on which no others depend. RESTART_MINION follows
// all of them; REBOOT replaces it and is last.
var order = []string{
	"UPDATE_GLOG_LEVEL", "UPDATE_GFLAG", "SYMLINK_TIMEZONE", "RELOAD_NTP_CONFIG", "RELOAD_DNS_SERVERS",
	"RELOAD_RSYSLOG_CONFIG",

	"SET_FW_STATS_CONFIG", "SET_FW_PARAMS", "SET_FW_PARAMS_SYNC_OR_RELOAD_FIRMWARE", "SET_AIRTIME_PARAMS",
	"UPDATE_SCAN_CONFIG", "UPDATE_CHANNEL_ASSIGNMENT", "UPDATE_PREFIX_ALLOC_PARAMS",

	"UPDATE_FIREWALL", "RELOAD_TUNNEL_CONFIG", "UPDATE_LINK_METRICS", "SYNC_LINK_MONITOR", "INJECT_KVSTORE_KEYS",
	"RELOAD_VPP_CONFIG_AND_MONITOR", "RESTART_ROUTING", "REDO_POP_CONFIG", "UPDATE_ZONE", "RESTART_KEA",

	"RELOAD_SSHD_CA_KEYS", "RELOAD_SSHD", "RESTART_SNMP", "RESTART_WEBUI", "RESTART_SLIP", "RESTART_SQUIRE",
	"RESTART_UDP_PING_SERVER",
	"RELOAD_TOPOLOGY_NAMES", "RESTART_LOGTAIL", "RESTART_FLUENTD_AGENT", "RESTART_STATS_AGENT",

	"RELOAD_FIRMWARE", restartMinion, reboot,
}

// e2eOnly lists the actions that only the controller and the aggregator have.
var e2eOnly = []string{"UPDATE_GFLAG", "UPDATE_SCAN_CONFIG", "UPDATE_PREFIX_ALLOC_PARAMS"}

// propertyOnly lists the actions that take effect on a property of an object, not on an entry.
var propertyOnly = []string{"SET_FW_PARAMS", "SET_FW_PARAMS_SYNC_OR_RELOAD_FIRMWARE", "SET_FW_STATS_CONFIG"}

func (c *compiler) isKnownAction(name string) bool {
	return name == noAction || slices.Contains(order, name) && (c.opts.E2E || !slices.Contains(e2eOnly, name))
}

// actions returns the known names, sorted.
func (c *compiler) actions() []string {
	names := slices.DeleteFunc(append(slices.Clone(order), noAction), func(n string) bool { return !c.isKnownAction(n) })
	slices.Sort(names)
	return names
}

// Actions returns the actions of a node after a change, in the order of execution. fullDiff is the full difference of
// both configs (config.FullDiff). The action of an entry applies at any depth of change below it, and so does that of
// each property on the path; none replaces another. Unknown keys require no action; NO_ACTION is never listed.
func (m *Metadata) Actions(fullDiff config.Object) []Action {
	keys := map[string][][]string{}
	collect(m.root, fullDiff, nil, keys)
	if keys[reboot] != nil {
		delete(keys, restartMinion)
	}
	var out []Action
	for _, name := range order {
		if keys[name] != nil {
			slices.SortFunc(keys[name], slices.Compare)
			out = append(out, Action{name, keys[name]})
		}
	}
	return out
}

func collect(p *param, diff any, path []string, keys map[string][][]string) {
	if p.acts {
		keys[p.action] = append(keys[p.action], path)
	}
	o, ok := diff.(config.Object)
	if !ok {
		return
	}
	for key, v := range o {
		below := p.each
		if below == nil {
			below = p.known[key]
		}
		if below != nil {
			collect(below, v, config.Below(path, key), keys)
		}
	}
}

func sorted(m map[string]*param) []string { return slices.Sorted(maps.Keys(m)) }

// ActionNames returns the names of a node's actions in the order of execution, without NO_ACTION and the actions of the
// controller and the aggregator.
func ActionNames() []string {
	return slices.DeleteFunc(slices.Clone(order), func(n string) bool { return slices.Contains(e2eOnly, n) })
}
