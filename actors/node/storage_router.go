package node

import (
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// storageChanged reports a change in the health of the state folder to the router.
type storageChanged struct{ health api.StorageHealth }

// storageHealth publishes the health of the state folder; each change for worse or better is an event.
func (r *router) storageHealth(now api.StorageHealth) {
	was, known := r.d.topics.Storage.Get("", "node")
	must(r.storage.Publish("", "node", now))
	if !known {
		for _, n := range now.Notes {
			r.d.log.Warn("state folder", zap.String("found", n))
			r.d.tell(event(nodeapi.EventStorage, "node", "", n))
		}
	}
	switch {
	case now.Fault != "" && was.Fault == "":
		r.d.log.Error("state folder", zap.String("err", now.Fault))
		e := event(nodeapi.EventStorage, "node", "", api.NotJournalled+
			": changes are kept in memory until the disk accepts writes")
		e.Error = now.Fault
		r.d.tell(e)
	case now.Fault == "" && was.Fault != "":
		r.d.log.Info("state folder", zap.String("state", api.Journalled))
		r.d.tell(event(nodeapi.EventStorage, "node", "", api.Journalled+" again, including all changes made meanwhile"))
	}
}

// surveyed is what an applier found of its network at a start that may lack the journal.
type surveyed struct {
	have netstate.State
	err  error
}

type surveyRequest struct{}

// observeOwned reads the owner's objects on the host.
func (a *applier) observeOwned() surveyed {
	have, err := a.observe(true)
	return surveyed{have, err}
}

// adopt passes the leases that the host knows to the manager, before any apply.
func (b *bridge) adopt(s surveyed) error {
	if s.err != nil {
		return s.err
	}
	b.mgr.Adopt(netinst.FoundLeases(b.owner.Number, s.have), len(s.have) > 0)
	b.adopted = true
	return nil
}

// certain is the Storage of a journal that always persists.
type certain struct{}

func (certain) Watch(f func(api.StorageHealth)) { f(api.StorageHealth{}) }
func (certain) Floor() uint64                   { return 0 }
func (certain) NoteLost(string)                 {}
func (certain) MayLackChanges() bool            { return false }
