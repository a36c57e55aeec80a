package actors

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
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

// certain is the Storage of a journal that always lasts.
type certain struct{}

func (certain) Watch(f func(StorageHealth)) { f(StorageHealth{}) }
func (certain) Floor() uint64               { return 0 }
func (certain) Lost(string)                 {}
func (certain) Incomplete() bool            { return false }

// restore loads what the journal kept. With a Storage what can't be decoded is lost, and no
// more than that; without one it is an error.
func (t *Topics) restore(s Storage) error {
	for _, topic := range []interface {
		Restore() error
		Salvage() ([]error, error)
	}{t.Numbers, t.Leases, t.Stood, t.AppRecords, t.NodeRecord} {
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
			s.Lost("a value of the journal is kept aside: " + fault.Error())
		}
	}
	return nil
}

// maxLostNames is how many values of one topic are named that can't be decoded.
const maxLostNames = 5

// storageChanged tells the router how the state folder fares.
type storageChanged struct{ health StorageHealth }

// storageHealth publishes it; what becomes worse or good again is an event.
func (r *router) storageHealth(now StorageHealth) {
	was, known := r.d.topics.Storage.Get("", "node")
	must(r.storage.Publish("", "node", now))
	if !known {
		for _, n := range now.Notes {
			r.d.log.Warn("state folder", zap.String("found", n))
			r.d.tell(event(httpapi.EventStorage, "node", "", n))
		}
	}
	switch {
	case now.Fault != "" && was.Fault == "":
		r.d.log.Error("state folder", zap.String("err", now.Fault))
		e := event(httpapi.EventStorage, "node", "", NotJournalled+": what changes is kept in memory until the disk takes it")
		e.Error = now.Fault
		r.d.tell(e)
	case now.Fault == "" && was.Fault != "":
		r.d.log.Info("state folder", zap.String("state", Journalled))
		r.d.tell(event(httpapi.EventStorage, "node", "", Journalled+" again, all that changed meanwhile included"))
	}
}

// surveyed is what an applier found of its network at a start that may lack the journal.
type surveyed struct {
	have netstate.State
	err  error
}

type surveyRequest struct{}

// survey reads what is there of the owner.
func (a *applier) survey() surveyed {
	have, err := a.observe(true)
	return surveyed{have, err}
}

// surveyed gives the manager what the host knows of its leases, before any apply.
func (b *bridge) adopt(s surveyed) error {
	if s.err != nil {
		return s.err
	}
	b.mgr.Adopt(netinst.FoundLeases(b.owner.Number, s.have), len(s.have) > 0)
	b.adopted = true
	return nil
}
