// Package commitconfirm owns how a node handles a candidate configuration: whether it is stored, published and acted
// on, when it counts as confirmed, when it is undone, and how all that continues after a crash, a power cut or a
// reboot.
//
// It never writes a file, applies a config, runs an action, talks to a controller or reads a clock: events go in,
// effects come out.
//
// The disk holds four small files, each replaced atomically, so that a power cut leaves the old content or the new one.
// Nothing waits for the write of the copy or for the removal of a record: a power cut soon after may bring the old
// content back.
//
//	slot      | content                                        | when it is written
//	----------+------------------------------------------------+------------------------------------
//	confirmed | the config that an undo returns to             | confirmed, applied without a
//	          |                                                | deadline, or restored by an undo
//	copy      | a copy of it                                   | after it
//	pending   | the config to confirm, the complete difference | before it is published; when its
//	          | whose actions are due, and, once an undo has   | actions are done, if it has any; when
//	          | begun, its reason                              | its undo begins
//	clock     | the time that it has left, and the number of   | each 5 s, at each start, at an
//	          | the node's starts meanwhile                    | orderly stop
//
// Every record has an increasing number (Seq). A pending record that is not newer than the confirmed one is left over,
// and so is a clock with another number: therefore no two writes have to be atomic together. A copy that is newer than
// the confirmed record shows that the confirmed record was damaged and an older one was read. The numbers are the
// node's journal: local configs and undone ones use them as their generation.
//
// Read event.go first, then machine.go.
package commitconfirm
