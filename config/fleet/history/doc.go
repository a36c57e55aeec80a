// Package history owns what the keys of the controller's store mean, and the layers as
// revisions in it: who wrote what, when and why, how two revisions differ, and how an
// earlier one comes back.
//
// It never talks to a store: it says what is to be read and gets it through a Reader, and
// a write becomes transactions that somebody else carries out, in order. It never judges a
// config (config/layers/override does, before), never masks a secret and has no clock.
//
// # The keys of one fleet
//
//	key                      what it holds                                           lease
//	head                     the newest revision, and the tree of its layers
//	fleet                    what all its controllers have alike, such as the pin of the CA
//	restoring                a restore is under way, or was interrupted (config/fleet/backup)
//	revisions/<number>       one Record: author, time, message, parent, tree
//	objects/<sha256>         a piece of a document or of a tree, by its content
//	sets/<id>/<part>         which objects a large write has put down so far
//	nodes/<uuid>             one node that has joined (Member)
//	names/<name>             the id of the node of this name
//	tokens/<name>            the open join token of one name (Token)
//	generations/<uuid>       the generation of a node's wanted config
//	pushes/<uuid>            what survives of a node's pushes and failures (fleet.Memory)
//	damaged/<uuid>           what a key of pushes held that could not be read when the node joined again
//	owners/<uuid>            the replica and the stream that own a node              leased
//	mailboxes/<uuid>/<id>    a request to the replica that owns a node               leased
//	previews/<id>/<uuid>     what a node answered to a preview of actions            leased
//	proposed/<uuid>          base config and metadata that a node told of its board  leased
//	accepted/<board>         the same, once an operator has accepted it for the board
//	operators/<hash>         whose an operator token is, and what it may do
//	revoked/<uuid>           a node whose certificates are out of use
//	rollouts/<id>            the state of one rollout
//	gates/<uuid>             the config that a staged rollout lets a node have
//	standings/<uuid>         how a node stands to what it wants, for a staged rollout
//	formats/store            which form the keys have, and which a controller must know at least
//	formats/history          where the history begins, if it was pruned (Edge)
//	formats/layers           up to which versions the layers were migrated
//	underlays/<uuid>         the addresses of a peer's ports, which tunnels lead to
//	elections/<name>         who leads                                               leased
//
// A name, an id, a board or a digest is escaped (Escape), so that it is one segment of a
// key whatever stands in it. The values of fleet and of all from generations on are their
// owners': here are the keys.
//
// # Layers
//
// The layers are network, node/<name>, auto/<name>, topology, metadata and e2e/<file>; and
// peer/<name>, cluster/<name> and deployment/<name>, which are config/stateloop/peer's. A fleet of ten
// thousand nodes has twenty thousand of them, far more than the keys of one
// transaction. So a layer's head is no key: it is an entry of a tree whose pieces are
// objects, and head names the root. Whoever has read head has a state that nobody changes;
// a write puts down the pieces that are new (four or so for one layer) and moves head. The
// entry of a layer that was deleted stays, without a document: it says when and by whom.
// The tree has the same form for the same entries, whatever the order in which they came.
//
// # Writes
//
// A small write is one transaction: it compares head's store revision with the one that the
// write was planned on, and puts objects, record and head. A large one puts its objects
// down first, some in each transaction, each noted under a change-set (sets/<id>/<part>)
// that no head names; all of these compare head too. The last puts record and head, and
// deletes the change-set. A crash before it leaves the old state, a crash after it the new
// one. What the first case leaves behind is found by NewSweep; each of its transactions
// writes head anew, unchanged, so that no write under way counts on what it takes away.
//
// If the comparison fails, somebody else was faster: the write is judged and planned again
// on the new head. It fails for good (Conflict) only where it was bound to the revision of
// a layer (Change.IfMatch) and that layer has been written since.
//
// Read first: layer.go, then write.go.
package history
