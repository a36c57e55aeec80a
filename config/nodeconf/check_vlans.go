package nodeconf

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// checkVLANs checks the ports that edgespan creates: the kernel has one sub-interface for a VLAN of an interface.
func (c *checker) checkVLANs() {
	created := map[netinst.IfName]string{} // labels by interface
	for label, p := range c.cfg.Ports {
		if p.VLAN != (netinst.VLAN{}) {
			created[p.IfName] = label
		}
	}
	seen := map[netinst.VLAN][]string{}
	for _, label := range c.ports.keys() {
		o, p := c.ports.objectOrEmpty(label), c.cfg.Ports[label]
		v := o.objectOrEmpty("vlan")
		if o.isGiven("vlan") && !o.isInvalid("vlan") && !v.isInvalid("id") && !v.isInvalid("parent") {
			for key, allowed := range map[string]string{"id": "1 to 4094", "parent": words[wordIfName].allowed} {
				if !v.isGiven(key) {
					c.addFault(v.pathOf(key), "required", config.MustBe(allowed))
				}
			}
		}
		path, invalid := v.pathOf("parent"), config.Invalid(string(p.VLAN.Parent))
		switch {
		case p.VLAN.Parent == "" || p.VLAN.ID == 0: // not given, or a fault already
		case isOwnKey(p.VLAN.Parent):
			c.addFault(path, invalid, "must be an interface other than those of edgespan (es or evpn followed by a digit)")
		case p.VLAN.Parent == p.IfName:
			c.addFault(path, invalid+", the port's own interface", "must be another one")
		case created[p.VLAN.Parent] != "":
			c.addFault(path, invalid+", itself a VLAN of "+config.FormatPath(c.ports.pathOf(created[p.VLAN.Parent])),
				"must be an interface that another program creates")
		case seen[p.VLAN] != nil:
			c.addFault(v.pathOf("id"), duplicateText(p.VLAN.ID, seen[p.VLAN]), "must be unique for one parent")
		default:
			seen[p.VLAN] = v.pathOf("id")
		}
	}
	for _, key := range c.networks.keys() {
		ni := c.cfg.Networks[uuid.MustParse(key)]
		if ni.Type == netinst.Switch && slices.ContainsFunc(c.portsOfSwitch(ni),
			func(p netinst.PortConfig) bool { return p.VLAN != (netinst.VLAN{}) }) {
			c.addFault(c.networks.objectOrEmpty(key).pathOf("port"),
				fmt.Sprintf("%s, which is a VLAN", config.Invalid(ni.Port)), "for a switch network must be a port without vlan")
		}
	}
}

// readAccessPorts reads the VLANs of a switch's access ports, by label.
func (c *checker) readAccessPorts(o *object) (list []netinst.AccessPort) {
	for _, label := range o.sorted(func(s slot) bool { return s.value != nil }) {
		list = append(list, netinst.AccessPort{Label: label, VLAN: value[int](o, label)})
	}
	return list
}

// checkAccessPorts refuses access ports that are no ports of the switch, and a second VLAN of one.
func (c *checker) checkAccessPorts(o *object, ni netinst.NetworkInstanceConfig) {
	if c.noPorts || o.isInvalid("port") {
		return
	}
	ports := o.objectOrEmpty("vlanAccessPorts")
	first := map[string][]string{} // by the port's own label
	for _, x := range ni.AccessPorts {
		path, found := ports.pathOf(x.Label), false
		for _, p := range c.portsOfSwitch(ni) {
			if p.Label != x.Label && !slices.Contains(p.Labels, x.Label) {
				continue
			}
			if found = true; first[p.Label] != nil {
				other := config.FormatPath(first[p.Label])
				c.addFault(path, fmt.Sprintf("a second VLAN of ports.%s, also at %s", p.Label, other), "must be one for each port")
				break
			}
			first[p.Label] = path
		}
		if !found {
			c.addFault(path, "no port of this network has the label", "must be a label of a port that port names")
		}
	}
}

// checkAdapterVLANs refuses VLANs of an adapter on a local network, and one that it would have with and without a tag.
func (c *checker) checkAdapterVLANs(o *object, a netinst.AdapterSpec, ni netinst.NetworkInstanceConfig) {
	const only = "only an adapter of a switch network has it"
	if ni.Type == netinst.Local {
		if a.VLAN != 0 {
			c.addFault(o.pathOf("vlan"), fmt.Sprintf("invalid value %d on a local network", a.VLAN), only)
		}
		if len(a.Trunk) > 0 {
			c.addFault(o.pathOf("trunk"), "invalid on a local network", only)
		}
		return
	}
	for i, vid := range a.Trunk {
		switch {
		case i > 0 && a.Trunk[i-1] == vid:
			c.addFault(o.pathOf("trunk"), fmt.Sprintf("duplicate value %d", vid), "must be unique")
		case vid == a.VLAN:
			c.addFault(o.pathOf("trunk"), fmt.Sprintf("invalid value %d, also at %s", vid, config.FormatPath(o.pathOf("vlan"))),
				"must be other VLANs than the one without a tag")
		}
	}
}

// checkSwitchVLANs records in each switch network the VLANs of its adapters and access ports. It refuses more than the
// node keeps apart, and a VLAN that does not reach the switch, since a port of the node is that VLAN of its interface.
func (c *checker) checkSwitchVLANs() {
	used := map[uuid.UUID][]int{}
	for _, app := range c.cfg.Apps {
		for _, a := range app.Adapters {
			used[a.NetworkInstance] = append(append(used[a.NetworkInstance], a.VLAN), a.Trunk...)
		}
	}
	for _, key := range c.networks.keys() {
		id := uuid.MustParse(key)
		ni := c.cfg.Networks[id]
		if ni.Type != netinst.Switch {
			continue
		}
		for _, x := range ni.AccessPorts {
			used[id] = append(used[id], x.VLAN)
		}
		slices.Sort(used[id])
		vids := slices.DeleteFunc(slices.Compact(used[id]), func(vid int) bool { return vid <= netinst.NativeVLAN })
		if len(vids) > netinst.MaxVLANs {
			c.addFault([]string{"networkInstances", key}, config.TooMany("VLANs of its adapters and access ports", len(vids)),
				config.AtMost(netinst.MaxVLANs))
		}
		c.refuseTakenVLANs(key, ni, vids)
		if len(vids) > 0 {
			ni.VLANs = vids
			c.cfg.Networks[id] = ni
		}
	}
}

// refuseTakenVLANs refuses a port that is a VLAN of an interface in the bridge of a switch that has the same VLAN: the
// kernel gives its frames to the port, and the switch gets none.
func (c *checker) refuseTakenVLANs(key string, ni netinst.NetworkInstanceConfig, vids []int) {
	for _, p := range c.portsOfSwitch(ni) {
		for _, label := range c.ports.keys() {
			v := c.cfg.Ports[label].VLAN
			if v.Parent == p.IfName && slices.Contains(vids, v.ID) {
				c.addFault(c.ports.objectOrEmpty(label).objectOrEmpty("vlan").pathOf("id"),
					fmt.Sprintf("invalid value %d, a VLAN of networkInstances.%s, which has %s too", v.ID, key, p.IfName),
					"must be a VLAN that no adapter or access port of that network has")
			}
		}
	}
}
