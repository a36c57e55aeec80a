package api

import (
	"fmt"
	"time"
)

// Storage is the state folder, without which a node continues to run: platform/store.Buffered. Changes of the journal
// are then kept in memory, and written once the disk accepts them.
type Storage interface {
	// Watch calls f with the current health, and then with each change, in order, from any goroutine; f must not block.
	Watch(f func(StorageHealth))
	// Floor returns a number above every one that may have been assigned and not written.
	Floor() uint64
	// NoteLost records that part of the journal is unusable, and raises the floor.
	NoteLost(what string)
	// MayLackChanges reports whether this start may lack something that the journal had or should have had.
	MayLackChanges() bool
}

// StorageHealth is the health of the state folder.
type StorageHealth struct {
	Fault   string    // why changes are not on the disk; "" if all are
	Since   time.Time // of Fault
	Unsaved int       // how many changes are in memory only
	Tight   bool      // too little space for the reserve against a full disk
	Notes   []string  // what this start found and did about it
}

// The states of a journal, for `get config`.
const (
	Journalled    = "journalled"
	NotJournalled = "not journalled"
)

// restore loads the journal. With a Storage, only undecodable values are lost; without one they are an error.
func (t *Records) restore(s Storage) error {
	for _, topic := range []interface {
		Restore() error
		Salvage() ([]error, error)
	}{t.Numbers, t.Leases, t.Applied, t.AppRecords, t.NodeRecord, t.UplinkRecords, t.Drains, t.PortLeases,
		t.ProbeBudgets} {
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
				s.NoteLost(fmt.Sprintf("%d more values of the journal", len(lost)-i))
				break
			}
			s.NoteLost("unreadable value of the journal kept aside: " + fault.Error())
		}
	}
	return nil
}

// maxLostNames is how many undecodable values of one topic are named.
const maxLostNames = 5
