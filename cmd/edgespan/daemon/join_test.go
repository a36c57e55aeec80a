package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/term"
)

func TestJoinWantsToKnowWhoseFleetItIs(t *testing.T) {
	dir := t.TempDir()
	pin := strings.Repeat("ab", 32)
	for _, c := range []struct{ line, says string }{
		{"join", "--controller"},
		{"join --controller c:1", "--token"},
		{"join --controller c:1 --token x", "--ca-sha256"},
		{"join --controller c:1 --token x --ca-sha256 zz", "--ca-sha256"},
		{"join --controller c:1,nowhere,c:1 --token x --ca-sha256 " + pin,
			`controller "nowhere": invalid address: must be HOST:PORT` +
				"\n" + `controller "c:1": given twice`},
	} {
		if got := cli(t, nil, "", append(strings.Fields(c.line), "--state-dir", dir)...); got.Code != term.ExitUsage ||
			!strings.Contains(got.Err, c.says) {
			t.Errorf("%s: %+v", c.line, got)
		}
	}
	got := cli(t, map[string]string{"EDGESPAN_JOIN_TOKEN": "x"}, "", "join", "--controller", "127.0.0.1:1", "--ca-sha256",
		pin, "--state-dir", dir)
	if got.Code != term.ExitError || !strings.Contains(got.Err, "127.0.0.1:1") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, controllerFile)); !os.IsNotExist(err) {
		t.Errorf("a join that failed is kept: %v", err)
	}
}
