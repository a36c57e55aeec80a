package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi/rest"
	"edgespan/platform/datadir"
)

// openAudit opens an audit log in a folder.
func openAudit(t *testing.T, dir string, limit int64) *auditLog {
	t.Helper()
	a, err := openAuditLog(func(file string) string { return filepath.Join(dir, file) }, limit, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestNobodyActsUnseen has the audit log fail as on a full disk: an act that must be seen is
// refused at once, all others once it is known, and both go on when the log does.
func TestNobodyActsUnseen(t *testing.T) {
	for role, file := range map[rest.Role]string{rest.Admin: "audit-admins.log",
		rest.Operator: "audit-operators.log", rest.Viewer: "audit.log"} {
		dir := t.TempDir()
		a := openAudit(t, dir, 8<<20)
		e := rest.Entry{Caller: "eve", Role: role, Method: "PUT", Path: "/x", Begun: true, Time: time.Now()}
		if err := a.intent(e, false); err != nil {
			t.Error(err)
		}
		if err := a.intent(e, true); err != nil {
			t.Error(err)
		}
		if text, _ := os.ReadFile(filepath.Join(dir, file)); strings.Count(string(text), "\n") != 1 ||
			!strings.Contains(string(text), `"begun":true`) {
			t.Errorf("%s: only what must be seen has a line before it: %s", role, text)
		}
		if err := a.close(); err != nil { // each write fails from now on
			t.Fatal(err)
		}
		if a.intent(e, true) == nil {
			t.Errorf("%s: an act passes that must be seen and can't be written", role)
		}
		if a.intent(e, false) == nil {
			t.Errorf("%s: an act passes while it is known that the log can't be written", role)
		}
		_ = a.reopen() // the old files are closed already
		if err := a.intent(e, false); err != nil {
			t.Errorf("%s: %v", role, err)
		}
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNobodyPushesAnAdminsActOut has nodes, readers and operators fill their parts of the log many times over.
func TestNobodyPushesAnAdminsActOut(t *testing.T) {
	dir := t.TempDir()
	a := openAudit(t, dir, 0)
	at := time.Now().Add(-time.Hour)
	write := func(e rest.Entry) {
		at = at.Add(time.Millisecond)
		e.Time, e.Path, e.Method, e.Status = at, "/"+strings.Repeat("x", 200), "PUT", 200
		a.record(e)
	}
	write(rest.Entry{Caller: "eve", Role: rest.Admin, Via: rest.ViaToken, Message: "what eve did"})
	write(rest.Entry{Caller: "olga", Role: rest.Operator, Via: rest.ViaBasic, Message: "what olga did"})
	write(rest.Entry{Caller: "n0", Role: rest.Operator, Via: rest.ViaCertificate, Message: "what n0 did"})
	for i := range 300 {
		write(rest.Entry{Caller: fmt.Sprint("n", i), Role: rest.Operator, Via: rest.ViaCertificate})
		write(rest.Entry{Caller: "vera", Role: rest.Viewer})
	}
	for _, p := range a.parts {
		p.rotation.Limit = 2000
		if _, err := p.rotation.Due(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.reopen(), a.close()); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"audit-admins.log": "eve", "audit-operators.log": "olga",
		"audit.log.kept.1": "n0"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(text), "what "+want+" did") || want != "n0" &&
			strings.Count(string(text), "\n") != 1 {
			t.Errorf("%s: %d lines, %v", file, strings.Count(string(text), "\n"), err)
		}
	}
	var lines []string
	o := NewOptions()
	o.DataDir = text(dir)
	if err := datadir.ReadAudit(o.AuditFiles(), func(_ time.Time, line []byte) error {
		lines = append(lines, string(line))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 603 || !strings.Contains(lines[0], `"via":"token","remote"`) ||
		!strings.Contains(lines[1], "olga") || !strings.Contains(lines[2], "what n0 did") {
		t.Errorf("%d lines", len(lines))
	}
}
