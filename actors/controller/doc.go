// Package controller owns the actor tree of the controller: it joins the cores that judge
// (config/fleet/ops, config/fleet/history, config/fleet) to the store and to the streams of the
// nodes. It is the Backend of config/httpapi/fleetapi and the Handler of the node link.
//
//	/controller                vital: its end is the end of the process
//	  /store                   one write of this replica after the other (storage)
//	  /fleet                   vital: what every node wants, by the store's keys
//	    /node/<uuid>           one for each node that has joined: its machine, its stream (nodes)
//	  /rollout                 vital: staged rollouts; on the replica that leads, the one that runs (rollouts)
//	  /leader                  vital: who leads; on that replica, what one does for all:
//	                           it optimises, and compacts and sweeps the store (storage)
//
// The rooms: storage is the lowest, nodes and rollouts use it, and this package uses all three. It owns the top of the
// tree, the fleet, the directory of nodes, which anybody may read without asking ten thousand actors, and what
// answers the routes.
//
// What blocks is in leaves: the watcher (the store's keys, from a revision), the saver (many
// nodes' writes in one transaction), the keeper of the lease, the readers of histories and of
// base files, and the campaign for the lead.
//
// It never judges: when a node is pushed to is config/fleet's, what a write means is
// config/fleet/ops's. It knows no network, no file and no certificate: what it needs of them
// it declares (storage.Store, Base, Issuer), and platform fulfils it.
//
// Read controller.go first, then fleet.go and batches.go.
package controller
