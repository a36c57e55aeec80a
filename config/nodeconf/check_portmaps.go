package nodeconf

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// readPortmap reads the ports of a rule with action portmap, which is for ingress, and refuses those of another rule,
// which would map nothing.
func (c *checker) readPortmap(o *object, r netinst.ACLRule) netinst.ACLRule {
	ports, match := o.objectOrEmpty("portmap"), o.objectOrEmpty("match")
	if r.Action != netinst.MapPort {
		for _, key := range []string{"port", "targetPort"} {
			if ports.isGiven(key) && !ports.isInvalid(key) && !o.isInvalid("action") {
				c.addFault(ports.pathOf(key), "maps nothing", "must be used with action portmap")
			}
		}
		return r
	}
	m := netinst.Portmap{Ports: value[netinst.PortRange](ports, "port")}
	m.Target = m.Ports
	if target, given := lookup[netinst.PortRange](ports, "targetPort"); given {
		m.Target = target
	}
	if n, of := count(m.Target), count(m.Ports); n != of && m.Ports.First > 0 {
		c.addFault(ports.pathOf("targetPort"), fmt.Sprintf("has %d ports for %d", n, of),
			"must be as many as portmap.port has")
	}
	if r.Protocol != "tcp" && r.Protocol != "udp" && !match.isInvalid("protocol") {
		c.addFault(match.pathOf("protocol"), config.Invalid(r.Protocol)+" of a port map", "must be tcp or udp")
	}
	for key, instead := range map[string]string{
		"port": "the port of a client is its own choice", "localPort": "portmap.targetPort is the app's port",
	} {
		if match.isGiven(key) && !match.isInvalid(key) {
			c.addFault(match.pathOf(key), "invalid for a port map", instead)
		}
	}
	if o.isGiven("direction") && r.Direction == netinst.Egress {
		c.addFault(o.pathOf("direction"), config.Invalid(string(r.Direction))+" of a port map", "must be ingress")
	}
	r.Direction, r.Portmap, r.Ports, r.LocalPort = netinst.Ingress, m, nil, nil
	return r
}

func count(r netinst.PortRange) int { return int(r.Last) - int(r.First) + 1 }

// placedMap is a port map and the labels of the ports at which it may stand.
type placedMap struct {
	rule  netinst.ACLRule
	ports map[string]bool
	path  []string // of portmap.port
}

// checkPortmaps refuses maps that have no port, and those that take a port of another one: all networks and apps share
// the ports of the node. Of two, the later one in the order of apps, adapters and rules is refused. It compares the
// ports that the networks may use, now or after a failover: what stands must not depend on which came first.
func (c *checker) checkPortmaps() {
	var all []placedMap
	byID := func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
	for _, id := range slices.SortedFunc(maps.Keys(c.cfg.Apps), byID) {
		app := c.cfg.Apps[id]
		for _, i := range slices.Sorted(maps.Keys(app.Adapters)) {
			spec := app.Adapters[i]
			ni := c.cfg.Networks[spec.NetworkInstance]
			acl := c.apps.objectOrEmpty(id.String()).objectOrEmpty("adapters").objectOrEmpty(strconv.Itoa(i)).
				objectOrEmpty("acl")
			for _, r := range spec.ACL {
				if r.Action != netinst.MapPort || r.Portmap.Ports.First == 0 || ni.UUID == uuid.Nil {
					continue
				}
				o := acl.objectOrEmpty(r.Name)
				m := placedMap{r, c.mapPorts(ni, r), o.objectOrEmpty("portmap").pathOf("port")}
				if why := c.hanging(ni, m); why != "" {
					want := "must be an adapter of a local network with a port"
					if ni.IPv4.MayOverlap {
						want += " and without ipv4.mayOverlap"
					}
					c.addFault(o.pathOf("action"), "invalid value portmap "+why, want)
				} else if app.Activate && !ni.Inactive {
					all = append(all, m)
				}
			}
		}
	}
	c.checkMapConflicts(all)
	for id, ni := range c.cfg.Networks {
		ni.Mapped = len(all) > 0 && ni.Type == netinst.Local && !ni.IPv4.MayOverlap
		c.cfg.Networks[id] = ni
	}
}

// hanging returns why no port can lead to a map, "" if one can.
func (c *checker) hanging(ni netinst.NetworkInstanceConfig, m placedMap) string {
	switch {
	case ni.Type == netinst.Switch:
		return "on a switch network, whose apps have addresses of their own"
	case ni.Port == "" && len(m.ports) == 0:
		return "on a network without a port"
	case ni.IPv4.MayOverlap:
		return "on a network whose subnet others may have"
	case len(m.ports) == 0 && !c.noPorts && m.rule.PortLabel != "":
		return "on none of the network's ports"
	}
	return ""
}

// mapPorts are the labels of the ports that a network may use and a rule selects.
func (c *checker) mapPorts(ni netinst.NetworkInstanceConfig, r netinst.ACLRule) map[string]bool {
	labels := []string{ni.Port}
	for _, route := range ni.Routes {
		labels = append(labels, route.Port)
	}
	found := map[string]bool{}
	for _, label := range labels {
		ports, _ := c.portsOf(label)
		for _, p := range ports {
			if label != "" && (r.PortLabel == "" || p.Matches(r.PortLabel)) {
				found[p.Label] = true
			}
		}
	}
	return found
}

func (c *checker) checkMapConflicts(all []placedMap) {
	for i, m := range all {
		for _, first := range all[:i] {
			if on := m.conflict(first); on != "" {
				c.addFault(m.path, fmt.Sprintf("conflicts with %s on port %s", config.FormatPath(first.path), on),
					"must be a port that no other map has")
				break
			}
		}
	}
}

// conflict returns the label of a port at which two maps would take the same packets, "" for none.
func (m placedMap) conflict(o placedMap) string {
	a, b := m.rule, o.rule
	disjoint := a.IP.IsValid() && b.IP.IsValid() && !a.IP.Overlaps(b.IP)
	if a.Protocol != b.Protocol || disjoint || a.Portmap.Ports.First > b.Portmap.Ports.Last ||
		b.Portmap.Ports.First > a.Portmap.Ports.Last {
		return ""
	}
	for _, label := range slices.Sorted(maps.Keys(m.ports)) {
		if o.ports[label] {
			return label
		}
	}
	return ""
}
