// Package node is the actor tree of one node. Its actors carry messages between the topics, the pure cores and the
// host. It owns the tree, the topics' writers and the only code that runs ops on the host.
//
//	/router            registry of networks and apps, host state, heartbeat
//	  /events          keeps recent events for the API
//	    /disk          the only actor that reads and writes their file
//	  /config          config file, apply, last good config (actors/agent)
//	  /recorder        the only actor that journals the config actor's counters
//	  /probes          sends the probes of uplinks, each once for all networks that need it
//	  /monitor         netlink -> port-status, host-changed
//	  /ground          the applier of the host state: the chains, tables, policy rules and sysctls that belong to no
//	                   single network; the id is that of former releases
//	  /ports           addresses and default routes of ports, hosts a netinst/addressing.Machine
//	    /applier       the only actor that writes them to the host
//	    /dhcp/<label>/<interface>  DHCP client of one port, hosts a netinst/dhcpclient.Client
//	  /exec            executors and checks of peers, by the ids of their parameters
//	    /<id>          one executor or check: runs its command, probes its host
//	  /planner         observes the whole host for plan and diff, one request at a time
//	  /flowlog         keeps the flow log while a network has one
//	  /telemetry       reads the counters of access rules from time to time
//	  /ni/<uuid>       bridge manager, hosts a netinst/manager.Manager and a netinst/probe.Chooser
//	    /applier       the only actor that writes that network to the host
//	    /tunnel        asks the tunnel of a network of type vpn for its status
//	    /watcher       learns the addresses that the apps of a switch network use, and their leases and DNS answers
//	  /app/<uuid>      app network, hosts an appnet.Machine
//
// Rules of the tree (docs/adr/0005-actors.md gives the reasons):
//
//   - An actor owns no logic: it turns messages into core events and core effects into messages.
//   - Stopping, restarting or crashing an actor leaves the host unchanged.
//   - State goes over topics, commands go from parent to child, futures appear only at the HTTP edge.
//   - Code that blocks runs in a leaf actor, and every blocking call has a deadline. A shot of a probe is a goroutine
//     of the actor probes.
//   - A child announces itself on Started; its parent then sends what the child needs.
//   - Stopping and Stopped do nothing that can fail.
//
// The package never decides what a host should look like (netinst and appnet do), and it reaches platform only through
// the interfaces it declares.
//
// Read router.go first, then config.go and bridge.go.
package node
