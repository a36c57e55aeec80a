package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAuditLogsAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(name string, lines ...any) {
		var text strings.Builder
		for _, l := range lines {
			if n, ok := l.(int); ok {
				l = fmt.Sprintf(`{"time":%q,"n":%d}`, at.Add(time.Duration(n)*100*time.Millisecond).Format(time.RFC3339Nano), n)
			}
			fmt.Fprintln(&text, l)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("audit.log.2", 1, 3) // of logrotate
	write("audit.log.1", 5)
	write("audit.log.10", 0)
	write("audit.log.3.gz", "nothing that can be read")
	write("audit.log.kept.2", 7, `{"time":"cut o`)
	write("audit.log.kept.1", 9)
	write("audit.log", 11, "", 13)
	write("audit-admins.log.kept.1", 2, 4)
	write("audit-admins.log", 8, 12)
	var got []string
	read := func() error {
		got = nil
		return ReadAudit([]string{filepath.Join(dir, "audit-admins.log"), filepath.Join(dir, "audit.log"),
			filepath.Join(dir, "audit-operators.log")}, func(at time.Time, line []byte) error {
			_, n, _ := strings.Cut(strings.TrimSuffix(string(line), "}"), `"n":`)
			got = append(got, n)
			return nil
		})
	}
	if err := read(); err != nil || fmt.Sprint(got) != "[0 1 2 3 4 5 7  8 9 11 12 13]" {
		t.Errorf("%q, %v", got, err)
	}
	// A rotation between the looks at two names shows one file under both.
	if err := os.Link(filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.kept.0")); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil || len(got) != 13 {
		t.Errorf("%q, %v", got, err)
	}
	write("audit.log.kept.2", strings.Repeat("x", longestLine+1))
	if err := read(); err == nil || !strings.Contains(err.Error(), "audit.log.kept.2") {
		t.Errorf("a line without an end: %v", err)
	}
}
