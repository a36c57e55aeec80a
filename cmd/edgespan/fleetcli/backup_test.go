package fleetcli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/config/fleet/backup"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// TestABackupIsWholeOrNotThere asks for a backup that is whole, and for one that breaks off:
// that leaves the file of before.
func TestABackupIsWholeOrNotThere(t *testing.T) {
	m := clitest.ModelReader{Model: kv.NewModel()}
	if _, err := m.Commit(kv.Txn{Then: []kv.Op{kv.Put("fleet", []byte("{}"))}}); err != nil {
		t.Fatal(err)
	}
	s, err := backup.Open(m, backup.Header{Version: "1", Store: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := s.Write(m, &text); err != nil {
		t.Fatal(err)
	}
	f := clitest.SmallFleet()
	f.Role, f.BackupText = fleetapi.Admin, text.String()
	env := clitest.ServeFleet(t, f)
	dir := t.TempDir()
	file := filepath.Join(dir, "fleet.backup")
	same := func() {
		t.Helper()
		got, err := os.ReadFile(file)
		if err != nil || string(got) != text.String() {
			t.Errorf("%v: %s", err, got)
		}
	}
	code, out, said := three(cli(t, env, "", "backup", file))
	if code != 0 || out != "" || !strings.Contains(said, "1 keys as of revision 1 of the store s1") ||
		!slices.Equal(f.TakeRequests(), []string{"backup"}) {
		t.Errorf("%d %q %s", code, out, said)
	}
	same()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if code, out, said := three(cli(t, env, "", "backup", "-")); code != 0 || out != text.String() {
		t.Errorf("%d %q %s", code, out, said)
	}
	f.BackupText = strings.Join(strings.SplitAfter(text.String(), "\n")[:2], "")
	if code, _, said := three(cli(t, env, "", "backup", file)); code != 1 ||
		!strings.Contains(said, "the answer is no whole backup") || !strings.Contains(said, "cut off") {
		t.Errorf("%d %s", code, said)
	}
	same()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	f.Role = fleetapi.Operator
	if code, _, said := three(cli(t, env, "", "backup", file)); code != 7 {
		t.Errorf("an operator: %d %s", code, said)
	}
}

func three(s clitest.Said) (int, string, string) { return s.Code, s.Out, s.Err }
