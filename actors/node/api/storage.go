package api

import (
	"fmt"
	"time"
)

// Storage is the state folder as a node sees it that goes on without it: platform/store.Buffered.
// What the journal is given then is kept, and written once the disk takes it.
type Storage interface {
	// Watch tells how it fares now, and each change of that, in order, from any goroutine; f
	// must not block.
	Watch(f func(StorageHealth))
	// Floor is a number above all that may have been given out and not written.
	Floor() uint64
	// Lost notes that something of the journal can't be used, and raises the floor.
	Lost(what string)
	// Incomplete says that this start may lack something that the journal had, or was to have.
	Incomplete() bool
}

// StorageHealth says how the state folder fares.
type StorageHealth struct {
	Fault   string    // why changes are not on the disk; "" where all are
	Since   time.Time // of Fault
	Unsaved int       // how many changes are in memory only
	Tight   bool      // there is no room for the space that is reserved for a full disk
	Notes   []string  // what this start found and had to do
}

// The states of a journal, for `get config`.
const (
	Journalled    = "journalled"
	NotJournalled = "not journalled"
)

// restore loads what the journal kept. With a Storage what can't be decoded is lost, and no
// more than that; without one it is an error.
func (t *Records) restore(s Storage) error {
	for _, topic := range []interface {
		Restore() error
		Salvage() ([]error, error)
	}{t.Numbers, t.Leases, t.Applied, t.AppRecords, t.NodeRecord} {
		if s == nil {
			if err := topic.Restore(); err != nil {
				return err
			}
			continue
		}
		lost, err := topic.Salvage()
		if err != nil {
			return err
		}
		for i, fault := range lost {
			if i == maxLostNames {
				s.Lost(fmt.Sprintf("%d more values of the journal", len(lost)-i))
				break
			}
			s.Lost("unreadable value of the journal kept aside: " + fault.Error())
		}
	}
	return nil
}

// maxLostNames is how many values of one topic are named that can't be decoded.
const maxLostNames = 5
