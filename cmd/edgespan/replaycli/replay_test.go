package replaycli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
)

// replayed is what the command prints of a segment with these lines after its head.
func replayed(t *testing.T, head string, lines []string, args ...string) (string, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, []byte(strings.Join(append([]string{head}, lines...), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := New(&reach.App{Streams: term.Streams{In: strings.NewReader(""), Out: &out, Err: &out,
		Env: func(string) string { return "" }}})
	cmd.SetArgs(append([]string{name}, args...))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

const head = `{"head":{"Version":"v1","Start":1,"At":"2026-11-28T12:00:00Z"}}`

// A recording that ended before its daemon says why.
func TestAReplayPrintsWhyARecordingEnds(t *testing.T) {
	out, err := replayed(t, head, []string{`{"at":"2026-11-28T12:00:01.5Z","end":"more than 4096 secrets"}`})
	if want := "12:00:01.500  the recording ends before its daemon: more than 4096 secrets\n"; err != nil ||
		!strings.Contains(out, want) {
		t.Errorf("%v, want %q in\n%s", err, want, out)
	}
}
