package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi"
)

// TestNobodyActsUnseen has the audit log fail as on a full disk: an admin's act is refused at
// once, all others once it is known, and both go on when the log does.
func TestNobodyActsUnseen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a, err := openAuditLog(path, 1<<20, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	e := httpapi.Entry{Caller: "eve", Role: httpapi.Operator, Method: "PUT", Path: "/x", Begun: true, Time: time.Now()}
	if err := a.intent(e, false); err != nil {
		t.Error(err)
	}
	if err := a.intent(e, true); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"begun":true`) {
		t.Errorf("only an admin's act has a line before it: %s", text)
	}
	if err := a.log.Close(); err != nil { // each write fails from now on
		t.Fatal(err)
	}
	if a.intent(e, true) == nil {
		t.Error("an admin's act passes that can't be written")
	}
	if a.intent(e, false) == nil {
		t.Error("an act passes while it is known that the log can't be written")
	}
	_ = a.log.Reopen() // the old file is closed already
	if err := a.intent(e, false); err != nil {
		t.Error(err)
	}
	if err := a.log.Close(); err != nil {
		t.Error(err)
	}
}
