// Package commitconfirm owns what a node makes of a configuration that is offered to it: whether
// it is stored, published and acted on, when it counts as confirmed, when it is undone, and
// how all that goes on after a crash, a power cut or a reboot.
//
// It never writes a file, applies a config, runs an action, talks to a controller or reads
// a clock: events go in, effects come out.
//
// On a disk are four small things, each replaced as a whole (its old content or its new
// one, whenever the power goes; what is dropped, and the copy, nobody waits for: a power cut
// soon after may bring the old content back):
//
//	slot      | what it holds                                  | when it is written
//	----------+------------------------------------------------+------------------------------------
//	confirmed | the config that an undo goes back to           | confirmed, applied without a
//	          |                                                | deadline, or gone back to
//	copy      | the same, a second time                        | after it
//	pending   | the config that has to prove itself, the whole | before it is published; when its
//	          | difference whose actions are due, and, once    | actions are done, if it has any; when
//	          | an undo has begun, why                         | its undo begins
//	clock     | how much of its time is left, and how often    | each 5 s, at each start, at an
//	          | the node started meanwhile                     | orderly stop
//
// Every record has a number that rises (Seq). A pending one that is not newer than the
// confirmed one is left over, and so is a clock of another number: no order of two writes
// needs to be one write. A copy that is newer than the confirmed one says that this was spoilt
// and that an older one was read. The numbers are the node's journal: local configs and undone ones
// take theirs as generation.
//
// Read first: event.go, then machine.go.
package commitconfirm
