package nodeconf

import (
	"fmt"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// readLimits reads the limits of a network's helpers; a default is zero.
func readLimits(o *object) netinst.ProcessLimits {
	return netinst.ProcessLimits{
		Memory:    unlessDefault(value[int](o, "memory"), netinst.DefaultMemory),
		Processor: unlessDefault(value[int](o, "processor"), netinst.DefaultProcessor),
		Processes: unlessDefault(value[int](o, "processes"), netinst.DefaultProcesses),
	}
}

// checkLimitsOfSwitch refuses the limits of helpers: a switch network has none.
func (c *checker) checkLimitsOfSwitch(limits *object) {
	for _, key := range []string{"memory", "processor", "processes"} {
		if limits.isGiven(key) && !limits.isInvalid(key) {
			c.addFault(limits.pathOf(key), "limits nothing", "only type local has helper processes")
		}
	}
}

// checkLimits refuses more adapters of activated apps, and more rules of theirs, than their network's limits.
//
// More adapters than the bridge has ports, without such a limit, are no fault: a node of an earlier version may have
// such a config and runs the adapters that fit.
func (c *checker) checkLimits() {
	adapters, rules := map[uuid.UUID]int{}, map[uuid.UUID]int{}
	for _, a := range c.cfg.Apps {
		for _, x := range a.Adapters {
			if a.Activate {
				adapters[x.NetworkInstance]++
				rules[x.NetworkInstance] += len(x.ACL)
			}
		}
	}
	for id := range c.cfg.Networks {
		limits := c.networks.objectOrEmpty(id.String()).objectOrEmpty("limits")
		for _, l := range []struct {
			key, things string
			n           int
		}{{"adapters", "adapters of activated apps", adapters[id]}, {"rules", "access rules", rules[id]}} {
			if limit, given := lookup[int](limits, l.key); given && l.n > limit {
				c.addFault(limits.pathOf(l.key), config.TooMany(l.things, l.n), config.AtMost(limit))
			}
		}
		if n := adapters[id]; n > maxBridgePorts && !limits.isGiven("adapters") {
			c.cfg.Warnings = append(c.cfg.Warnings, config.Fault{
				Path: []string{"networkInstances", id.String()}, Problem: config.TooMany("active adapters", n),
				Expectation: fmt.Sprintf("a bridge of Linux has %d ports: the others fail", maxBridgePorts),
			})
		}
	}
}
