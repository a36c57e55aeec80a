// Package controller owns the actor tree of the controller: it connects the cores (config/fleet, config/fleet/history,
// config/fleet/ops) to the store and to the streams of the nodes. It implements the Backend of config/httpapi/fleetapi
// and the Handler of the node link.
//
//	/controller                vital: the process ends when it ends
//	  /store                   runs this replica's writes one at a time (storage)
//	  /fleet                   vital: the desired config of every node, from the keys of the store
//	    /node/<uuid>           one per joined node: its state machine and its stream (nodes)
//	  /rollout                 vital: staged rollouts; the leading replica runs them (rollouts)
//	  /leader                  vital: who leads; the leading replica optimizes layers, and
//	                           compacts and sweeps the store (storage)
//
// storage is the lowest of the packages below this one; nodes and rollouts use it. This package uses all three, and
// owns the top of the tree, the fleet, the methods that answer the routes, and the directory of nodes, which callers
// read without a message to ten thousand actors.
//
// Code that blocks runs in leaves: the watcher (keys of the store, from a revision on), the saver (writes of many nodes
// in one transaction), the keeper of the lease, the readers of histories and base files, and the campaign for the lead.
//
// The package never decides when a node is pushed to (config/fleet does) or what a write means (config/fleet/ops does).
// It knows no network, file or certificate: it declares what it needs (storage.Store, Base, Issuer), and platform
// implements it.
//
// Read controller.go first, then fleet.go and batches.go.
package controller
