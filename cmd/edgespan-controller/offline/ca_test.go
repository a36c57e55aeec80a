package offline

import (
	"strings"
	"testing"
	"time"

	"edgespan/cmd/term"
	"edgespan/platform/pki"
)

// The CA of a fleet is another one after the three steps, and a controller starts after each.
func TestTheCAOfAFleetIsRotated(t *testing.T) {
	dir := t.TempDir()
	c := program.Start(t, dir, "--node-certificate-days", "400")
	line := c.Err.Line(t, "CA sha256:", c.Ended)
	old := strings.TrimSpace(strings.TrimPrefix(line, "CA sha256:"))
	if code, _, said := program.Command(t, "ca", "next", "--data-dir", dir); code != term.ExitConflict {
		t.Errorf("beside a controller: %d: %s", code, said)
	}
	c.End()
	if code, _, said := program.Command(t, "ca", "switch", "--data-dir", dir); code == term.ExitOK {
		t.Errorf("it switches to nothing: %s", said)
	}
	for _, step := range []string{"next", "switch", "drop"} {
		code, _, said := program.Command(t, "ca", step, "--data-dir", dir)
		if code != term.ExitOK || strings.Contains(said, old) {
			t.Fatalf("%s: %d: %s", step, code, said)
		}
		c := program.Start(t, dir)
		c.End()
		a, err := pki.Open(pki.Options{Dir: dir, Names: []string{"x"}, NodeLife: time.Hour, ServerLife: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		pin, err := pki.ParsePin(old)
		if err != nil {
			t.Fatal(err)
		}
		if a.HasRoot(pin) != (step != "drop") || (a.Pin() == pin) != (step == "next") {
			t.Errorf("%s: it issues by %s, and trusts the old one: %v", step, a.Pin(), a.HasRoot(pin))
		}
	}
}
