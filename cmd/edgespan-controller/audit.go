package main

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi"
	"edgespan/platform/datadir"
)

// auditFiles is how many files the audit log has at most: the newest, and those of before.
const auditFiles = 8

// auditLog is the audit log as both APIs use it: bounded in bytes, and with few lines for those
// who are refused.
type auditLog struct {
	log      *datadir.Audit
	rotation *datadir.Rotation
	refusals *httpapi.Refusals
	say      *zap.Logger
	broken   atomic.Bool // the last line could not be written
}

// openAuditLog opens the log of a path. Most is the bound of all its files; 0 is none.
func openAuditLog(path string, most int64, say *zap.Logger) (*auditLog, error) {
	l, err := datadir.OpenAudit(path)
	if err != nil {
		return nil, err
	}
	return &auditLog{log: l, rotation: &datadir.Rotation{Path: path, Limit: most / auditFiles, Keep: auditFiles - 1}, refusals: httpapi.NewRefusals(), say: say}, nil
}

// record writes a line of what was done or refused.
func (a *auditLog) record(e httpapi.Entry) {
	if a.refusals.Pass(&e) {
		_ = a.write(e) // it is told; what is done can't be refused any more
	}
}

// intent is asked before an act. Each of an admin has its line first; while the log can't be
// written no other act is done either, or a full disk would be a cloak.
func (a *auditLog) intent(e httpapi.Entry, must bool) error {
	if !must && !a.broken.Load() {
		return nil
	}
	return a.write(e)
}

func (a *auditLog) write(e httpapi.Entry) error {
	err := a.log.Write(e)
	if was := a.broken.Swap(err != nil); err != nil && !was {
		a.say.Error("audit: acts are refused until the log can be written", zap.Error(err))
	} else if err == nil && was {
		a.say.Info("audit: the log can be written again")
	}
	due, wrong := a.rotation.Due(time.Now())
	if due {
		wrong = a.log.Reopen()
	}
	if wrong != nil {
		a.say.Error("rotate the audit log", zap.Error(wrong))
	}
	return err
}
