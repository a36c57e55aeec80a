// Package history owns the meaning of the keys in the controller's store, and the layers as revisions in it: who wrote
// what, when and why, how two revisions differ, and how an earlier one is restored.
//
// It never talks to a store: it reads through a Reader, and a write becomes transactions that the caller commits in
// order. It never validates a config (config/layers/override does that first), never masks a secret and has no clock.
//
// # The keys of one fleet
//
//	key                      content                                                 lease
//	head                     the newest revision, and the tree of its layers
//	fleet                    values that all its controllers share, such as the CA's pin
//	restoring                a restore is running, or was interrupted (config/fleet/backup)
//	revisions/<number>       one Record: author, time, message, parent, tree
//	objects/<sha256>         a piece of a document or of a tree, by its content
//	sets/<id>/<part>         the objects that a large write has stored so far
//	nodes/<uuid>             one node that has joined (Member)
//	names/<name>             the id of the node of this name
//	tokens/<name>            the open join token of one name (Token)
//	generations/<uuid>       the generation of a node's desired config
//	pushes/<uuid>            the persistent state of a node's pushes and failures (fleet.Memory)
//	damaged/<uuid>           push state that could not be read when the node joined again
//	owners/<uuid>            the replica and the stream that own a node              leased
//	mailboxes/<uuid>/<id>    a request to the replica that owns a node               leased
//	previews/<id>/<uuid>     a node's answer to a preview of actions                 leased
//	proposed/<uuid>          base config and metadata that a node reported for its board  leased
//	accepted/<board>         the same, once an operator has accepted it for the board
//	operators/<hash>         the owner of an operator token, and its permissions
//	revoked/<uuid>           a node whose certificates are revoked
//	rollouts/<id>            the state of one rollout
//	bisects/<uuid>           the last search that tested configs on this node (config/fleet/bisect)
//	gates/<uuid>             the config that a staged rollout admits for a node
//	standings/<uuid>         a node's progress to its desired config, for a staged rollout
//	formats/store            the format of the keys, and the oldest that a controller must support
//	formats/history          the beginning of the history, if it was pruned (Edge)
//	formats/layers           the versions to which the layers were migrated
//	underlays/<uuid>         the addresses of a peer's ports, the ends of tunnels
//	elections/<name>         the leader                                              leased
//
// A name, an id, a board or a digest is escaped (Escape), so that it is one segment of a key whatever it contains.
// Other packages own the values of fleet and of all keys from generations on; this package only defines their keys.
//
// # Layers
//
// The layers are network, node/<name>, auto/<name>, topology, metadata and e2e/<file>; and peer/<name>, cluster/<name>
// and deployment/<name>, which config/stateloop/peer owns. A fleet of ten thousand nodes has twenty thousand of them,
// far more than the keys of one transaction. So a layer's head is not a key: it is an entry of a tree whose pieces are
// objects, and head names the root. A reader of head has an immutable state; a write stores the new pieces (four or so
// for one layer) and moves head. The entry of a deleted layer is kept, without a document: it records when and by whom
// it was deleted. The form of a tree depends only on its entries, not on the order of the writes.
//
// # Writes
//
// A small write is one transaction: it compares head's store revision with the one on which the write was planned, and
// puts objects, record and head. A large one stores its objects first, some in each transaction, each recorded under a
// change-set (sets/<id>/<part>) that no head names; all of these compare head too. The last one puts record and head,
// and deletes the change-set. A crash before it leaves the old state, a crash after it the new one. NewSweep finds the
// remains of the first case; each of its transactions writes head again, unchanged, so that no write in progress relies
// on an object that it removes.
//
// If the comparison fails, another write came first: the caller validates and plans its write again on the new head.
// The write fails (Conflict) only if it was bound to the revision of a layer (Change.IfMatch) and that layer has been
// written since.
//
// Read layer.go first, then write.go.
package history
