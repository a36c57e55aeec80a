package node

import (
	"fmt"
	"strings"

	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/manager"
)

// logApplyReport writes log lines and events for the result of an apply of a network or of the host state: one for each
// change, none for a failure that persists.
func (d *deps) logApplyReport(object, name string, a manager.ApplyReport) {
	log := d.tracedLog(d.of(logApplier)).With(zap.String("object", object))
	if a.Contest != "" && !a.Contested {
		log.Warn("other programs keep changing objects of edgespan; repairs are now counted and made less often",
			zap.String("count", a.Contest))
		d.recordEvent(event(nodeapi.EventContested, object, name, a.Contest))
	}
	if len(a.Repaired) > 0 && !a.Contested {
		log.Info("repaired changes of other programs", zap.Strings("objects", a.Repaired))
		d.recordEvent(event(nodeapi.EventRepaired, object, name, strings.Join(a.Repaired, ", ")))
	}
	for _, r := range a.Repaired {
		d.work.Repaired(r)
		if p, died := strings.CutPrefix(r, "add process "); died {
			d.recordEvent(event(nodeapi.EventProcess, object, name, p+" died and was restarted"))
		}
	}
	for _, f := range a.Began {
		text := f.Op + " failed"
		if f.Waiting {
			text = f.Op + " waits"
			log.Info("op waits", opFields(f)...)
		} else {
			log.Warn("op failed", opFields(f)...)
			d.work.OpFailed(f.Op)
		}
		e := event(nodeapi.EventFailed, aboutOp(object, f), name, text)
		e.Op, e.Command, e.Error = f.Op, f.Command, f.Error
		d.recordEvent(e)
	}
	for _, f := range a.Ended {
		log.Info("op succeeded again", zap.String("op", f.Op), zap.Int("attempts", f.Attempts))
		d.recordEvent(event(nodeapi.EventRecovered, aboutOp(object, f), name,
			fmt.Sprintf("%s, after %d attempts", f.Op, f.Attempts)))
	}
	if fresh := a.Changes - len(a.Repaired); fresh > 0 {
		d.recordEvent(event(nodeapi.EventApplied, object, name, fmt.Sprintf("%d changes", fresh)))
	}
}

func opFields(f manager.FailedOp) []zap.Field {
	return []zap.Field{zap.String("op", f.Op), zap.String("command", f.Command), zap.String("err", f.Error)}
}

// aboutOp returns the adapter that an op belongs to, or the network if it belongs to none.
func aboutOp(object string, f manager.FailedOp) string {
	if key, err := netinst.ParseAdapterKey(f.Adapter); err == nil {
		return "adapter/" + api.AdapterID(key.AppUUID.String(), key.Index)
	}
	return object
}
