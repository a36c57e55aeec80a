package metadata

import (
	"maps"
	"slices"

	"edgespan/config"
)

// Action is one thing that a node does after a change.
type Action struct {
	Name string
	// Keys are the entries and properties that ask for it, sorted: those that carry the
	// action, not the leaves below them that changed.
	Keys [][]string
}

const (
	noAction      = "NO_ACTION"
	restartMinion = "RESTART_MINION"
	reboot        = "REBOOT"
)

// order is every action there is, in the order in which a node carries them out: first
// what takes effect in place, then the radios, then the ways of packets from the firewall
// down to routing, then services that others don't stand on, last what stops them all.
// RESTART_MINION is after the others; REBOOT replaces it and is last.
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

// e2eOnly are the actions of the controller and the aggregator.
var e2eOnly = []string{"UPDATE_GFLAG", "UPDATE_SCAN_CONFIG", "UPDATE_PREFIX_ALLOC_PARAMS"}

// propertyOnly are the actions that take effect on a property of an object, not on an entry.
var propertyOnly = []string{"SET_FW_PARAMS", "SET_FW_PARAMS_SYNC_OR_RELOAD_FIRMWARE", "SET_FW_STATS_CONFIG"}

func (c *compiler) known(name string) bool {
	return name == noAction || slices.Contains(order, name) && (c.opts.E2E || !slices.Contains(e2eOnly, name))
}

// actions are the names that are known, sorted.
func (c *compiler) actions() []string {
	names := slices.DeleteFunc(append(slices.Clone(order), noAction), func(n string) bool { return !c.known(n) })
	slices.Sort(names)
	return names
}

// Actions are what a node does after a change, in the order of execution. The change is
// the full difference of both configs (config.FullDiff). The action of an entry counts
// however deep below it something changed, and so does that of each property on the way:
// none replaces another. What is unknown asks for nothing, NO_ACTION is never listed.
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
	o, is := diff.(config.Object)
	if !is {
		return
	}
	for key, v := range o {
		below := p.each
		if below == nil {
			below = p.known[key]
		}
		if below != nil {
			collect(below, v, config.Sub(path, key), keys)
		}
	}
}

func sorted(m map[string]*param) []string { return slices.Sorted(maps.Keys(m)) }

// ActionNames are the names of the actions that a node has, in the order of execution;
// NO_ACTION and those of the controller and the aggregator are none.
func ActionNames() []string {
	return slices.DeleteFunc(slices.Clone(order), func(n string) bool { return slices.Contains(e2eOnly, n) })
}
