package serve

import (
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi/rest"
	"edgespan/platform/datadir"
)

// auditFiles is the maximum number of files of each part of the audit log: the current one and the rotated ones.
const auditFiles = 8

// auditParts are the parts of the audit log. Each rotates separately, so that other callers can't push out the lines
// of admins, nor nodes and readers those of operators.
var auditParts = []struct {
	file   string
	eighth int64 // share of all bytes
}{
	{"audit-admins.log", 2},
	{"audit-operators.log", 2},
	{"audit.log", 4}, // nodes, readers, and unauthenticated callers
}

// AuditFiles returns the paths of the audit log's files in the data folder.
func (o *Options) AuditFiles() []string {
	var paths []string
	for _, p := range auditParts {
		paths = append(paths, filepath.Join(string(o.DataDir), p.file))
	}
	return paths
}

// auditLog is the audit log of both APIs. It is bounded in bytes, and writes few lines for refused requests.
type auditLog struct{ parts []*auditPart }

// auditPart is the log of some callers.
type auditPart struct {
	log      *datadir.Audit
	rotation *datadir.Rotation
	refusals *rest.Refusals
	say      *zap.Logger
	broken   atomic.Bool // the last line was not written
}

// openAuditLog opens the log's files; path returns the path of each. limit bounds the bytes of all files; 0 is no
// limit.
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

// of returns the part for a caller's lines.
func (a *auditLog) of(e rest.Entry) *auditPart {
	switch {
	case e.Via == rest.ViaCertificate: // a node, whatever its role
	case e.Role == rest.Admin:
		return a.parts[0]
	case e.Role == rest.Operator:
		return a.parts[1]
	}
	return a.parts[2]
}

// record writes a line about a request that was carried out or refused.
func (a *auditLog) record(e rest.Entry) {
	if p := a.of(e); p.refusals.ShouldWrite(&e) {
		_ = p.write(e) // write logs its error; the request can't be refused any more
	}
}

// intent is called before a request is carried out. It writes the line of a request that must be logged, and fails if
// it can't. While the log can't be written, it also refuses all other requests: otherwise a caller could hide them by
// filling the disk.
func (a *auditLog) intent(e rest.Entry, must bool) error {
	p := a.of(e)
	if !must && !p.broken.Load() {
		return nil
	}
	return p.write(e)
}

// writable reports whether the last line of each part was written.
func (a *auditLog) writable() bool {
	return !slices.ContainsFunc(a.parts, func(p *auditPart) bool { return p.broken.Load() })
}

// reopen opens the log's files by name again, after an external rotation.
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
