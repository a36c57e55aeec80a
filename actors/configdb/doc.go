// Package configdb owns the actor tree of ConfigDB in a replica of the controller: it connects the core
// (config/configdb/model) to the store, and implements the Backend of config/httpapi/configdbapi (docs/adr/0022).
//
//	/facts                     a separate tree: a crash in it affects no node
//	  /follower                keeps the newest state: lists it, then follows the store
//	  /writer                  combines waiting writes into transactions
//
// Each has one leaf for blocking calls, which have deadlines. A crashed actor restarts alone: until then readers wait
// up to their deadline, and writers get a busy error.
//
// A read asks the store for the head of the facts, in one query for all concurrent readers, and waits until the
// followed state is that new: it sees every write that any replica has acknowledged. Answers and documents are cached
// within bounds (Options.Memory); a cached answer is used only if its ETag matches the state.
//
// The package never validates a write or computes a document, and knows no caller: authorization and audit belong to
// config/httpapi/configdbapi.
//
// Read backend.go first, then keeper.go and writer.go.
package configdb
