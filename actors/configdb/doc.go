// Package configdb owns the actor tree that keeps ConfigDB in a replica of the controller: it
// joins the core that judges (config/configdb/model) to the store, and is the Backend of
// config/httpapi/configdbapi (docs/adr/0022).
//
//	/facts                     the tree of its own: what crashes here reaches no node
//	  /follower                keeps the newest state: lists it, then follows the store
//	  /writer                  joins the writes that wait into transactions
//
// Each has one leaf that blocks, with deadlines. Both start again after a crash, alone: until then
// readers wait for their deadline, and writers are told that it is busy.
//
// A read asks the store for the head of the facts, together with all who ask meanwhile, and
// waits until the followed state is that new: it sees every write that any replica has acknowledged.
// Answers and documents that were read are kept within bounds (Options.Memory); an answer is
// used again only while its ETag is that of the state.
//
// It never judges a write or computes a document, and knows no caller: who may what, and the
// audit of it, are factsapi's.
//
// Read first: backend.go, then keeper.go and writer.go.
package configdb
