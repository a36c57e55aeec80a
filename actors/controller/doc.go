// Package controller owns the actor tree of the controller: it joins the cores that judge
// (config/operate, config/history, config/fleet) to the store and to the streams of the
// nodes. It is the Backend of config/httpapi/fleetapi and the Handler of the node link.
//
//	/controller                vital: its end is the end of the process
//	  /store                   one write of this replica after the other
//	  /fleet                   vital: what every node wants, by the store's keys
//	    /node/<uuid>           one for each node that has joined: its machine, its stream
//	  /rollout                 vital: staged rollouts; on the replica that leads, the one that runs
//	  /leader                  vital: who leads; on that replica, what one does for all:
//	                           it optimises, and compacts and sweeps the store
//
// What blocks is in leaves: the watcher (the store's keys, from a revision), the saver (many
// nodes' writes in one transaction), the keeper of the lease, the readers of histories and of
// base files, and the campaign for the lead.
//
// It never judges: when a node is pushed to is config/fleet's, what a write means is
// config/operate's. It knows no network, no file and no certificate: what it needs of them
// it declares (Store, Base, Issuer), and platform fulfils it.
package controller
