package offline

import (
	"fmt"
	"testing"
	"time"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/cmd/term"
)

// The lines of all files come in order of time, those before --since left out.
func TestTheAuditLogIsPrintedInOrder(t *testing.T) {
	dir := t.TempDir()
	line := func(ago time.Duration, caller string) string {
		return fmt.Sprintf(`{"time":%q,"caller":%q}`, time.Now().Add(-ago).UTC().Format(time.RFC3339Nano), caller) + "\n"
	}
	eve, olga, n0 := line(3*time.Hour, "eve"), line(2*time.Hour, "olga"), line(time.Hour, "n0")
	later := line(time.Minute, "eve, later")
	ctltest.Put(t, dir, "audit-admins.log", eve+later)
	ctltest.Put(t, dir, "audit-operators.log", olga)
	ctltest.Put(t, dir, "audit.log.kept.1", n0)
	ctltest.Put(t, dir, "audit.log", "")
	code, out, said := program.Command(t, "audit", "--data-dir", dir)
	if code != term.ExitOK || out != eve+olga+n0+later {
		t.Errorf("%d: %s%s", code, out, said)
	}
	if code, out, _ := program.Command(t, "audit", "--data-dir", dir, "--since", "90m"); code != term.ExitOK ||
		out != n0+later {
		t.Errorf("%d: %s", code, out)
	}
}
