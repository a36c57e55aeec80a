package serve

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi/rest"
	"edgespan/platform/datadir"
)

// auditFiles is how many files each part of the audit log has at most: the newest, and those of before.
const auditFiles = 8

// auditParts are the files of the audit log, in the order of their names' roles: what admins do can't
// be pushed out by others, nor what operators do by nodes and readers.
var auditParts = []struct {
	file   string
	eighth int64 // of all bytes
}{
	{"audit-admins.log", 2},
	{"audit-operators.log", 2},
	{"audit.log", 4}, // nodes, readers, and those who could not say who they are
}

// AuditFiles are the files of the audit log in the data folder.
func (o *Options) AuditFiles() []string {
	var paths []string
	for _, p := range auditParts {
		paths = append(paths, filepath.Join(string(o.DataDir), p.file))
	}
	return paths
}

// auditLog is the audit log as both APIs use it: bounded in bytes, and with few lines for those
// who are refused.
type auditLog struct{ parts []*auditPart }

// auditPart is the log of some callers.
type auditPart struct {
	log      *datadir.Audit
	rotation *datadir.Rotation
	refusals *rest.Refusals
	say      *zap.Logger
	broken   atomic.Bool // the last line could not be written
}

// openAuditLog opens the log whose files have some path each. Most is the bound of all its files; 0 is none.
func openAuditLog(path func(file string) string, limit int64, say *zap.Logger) (*auditLog, error) {
	a := &auditLog{}
	for _, p := range auditParts {
		l, err := datadir.OpenAudit(path(p.file))
		if err != nil {
			return nil, errors.Join(err, a.close())
		}
		a.parts = append(a.parts, &auditPart{
			log: l, rotation: &datadir.Rotation{Path: path(p.file), Limit: limit * p.eighth / 8 / auditFiles,
				Keep: auditFiles - 1},
			refusals: rest.NewRefusals(), say: say,
		})
	}
	return a, nil
}

// of is the part that has the lines of a caller.
func (a *auditLog) of(e rest.Entry) *auditPart {
	switch {
	case e.Via == rest.ViaCertificate: // a node, whatever it may do
	case e.Role == rest.Admin:
		return a.parts[0]
	case e.Role == rest.Operator:
		return a.parts[1]
	}
	return a.parts[2]
}

// record writes a line of what was done or refused.
func (a *auditLog) record(e rest.Entry) {
	if p := a.of(e); p.refusals.Pass(&e) {
		_ = p.write(e) // it is told; what is done can't be refused any more
	}
}

// intent is asked before an act. One that must be seen has its line first; while the log can't be
// written no other act is done either, or a full disk would be a cloak.
func (a *auditLog) intent(e rest.Entry, must bool) error {
	p := a.of(e)
	if !must && !p.broken.Load() {
		return nil
	}
	return p.write(e)
}

// reopen opens the files of the log's names anew: after a rotation these are others.
func (a *auditLog) reopen() error {
	var faults []error
	for _, p := range a.parts {
		faults = append(faults, p.log.Reopen())
	}
	return errors.Join(faults...)
}

func (a *auditLog) close() error {
	var faults []error
	for _, p := range a.parts {
		faults = append(faults, p.log.Close())
	}
	return errors.Join(faults...)
}

func (p *auditPart) write(e rest.Entry) error {
	err := p.log.Write(e)
	if was := p.broken.Swap(err != nil); err != nil && !was {
		p.say.Error("audit: changes are refused until the log can be written", zap.Error(err))
	} else if err == nil && was {
		p.say.Info("audit: the log can be written again")
	}
	due, wrong := p.rotation.Due(time.Now())
	if due {
		wrong = p.log.Reopen()
	}
	if wrong != nil {
		p.say.Error("rotate the audit log", zap.Error(wrong))
	}
	return err
}
