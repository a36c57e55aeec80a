// Package store owns what the node keeps on its disk: the replacing of whole
// files, the slots of what is written with each push, the journal of what must last, the id
// of the node and the number of its boot (docs/architecture.md, laws 3, 8, 9 and 13; the TargetVersion of seed
// eve-bridge-manager rises for ever, so it must not be lost with the power).
//
// It never decides what to keep and never interprets a value. What it
// acknowledged is on the disk; what it cannot read it reports and leaves alone.
package store
