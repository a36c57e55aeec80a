// Package node is the imperative shell of the node: the tree of protoactor-go
// actors that carries messages between topics, pure cores and the host.
//
//	/router            registry of networks and apps, host ground, heartbeat
//	  /events          keeps what happened, for the API
//	  /config          file, apply, last good config (actors/agent)
//	  /recorder        the only actor that journals what the config actor counted
//	  /monitor         netlink -> port-status, host-changed
//	  /ground          the applier of the host ground
//	  /exec            executors and checks of peers, by the ids of their parameters
//	    /<id>          one of them: runs its command, asks its host
//	  /planner         looks at the whole host for plan and diff, one at a time
//	  /ni/<uuid>       bridge manager, hosts a netinst/manager.Manager
//	    /applier       the only actor that writes that network to the host
//	    /watcher       hears which addresses the apps of a switch network use
//	  /app/<uuid>      app network, hosts an appnet.Machine
//
// House rules (docs/adr/0005-actors.md has the reasons):
//
//   - An actor owns no logic: it turns messages into core events and core effects
//     into messages.
//   - Stopping, restarting or crashing an actor leaves the host as it is.
//   - State goes over topics, commands from parent to child, futures only at the
//     HTTP edge.
//   - What blocks is a leaf actor, and every blocking call has a deadline.
//   - A child announces itself on Started; its parent then sends what it needs.
//   - Nothing in Stopping or Stopped may fail.
//
// It never decides what a host should look like, and it imports platform only
// through the interfaces it declares.
//
// Read first: router.go, then config.go and bridge.go.
package node
