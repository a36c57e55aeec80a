package replaycli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

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

// What is left of a damaged recording is replayed, and that it is not all of it is said.
func TestAReplaySaysThatARecordingIsDamaged(t *testing.T) {
	step := `{"n":1,"at":"2026-11-28T12:00:01Z","core":"dhcp","of":"a","why":"no state"}`
	out, err := replayed(t, head, []string{step, step[9:], step})
	if err != nil || !strings.Contains(out, "1 step could not be replayed") ||
		!strings.Contains(out, "segment: line 3: damaged: what follows is not replayed") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := replayed(t, head, []string{step, step[:40]}); err != nil || strings.Contains(out, "damaged") {
		t.Errorf("the end of a process: %v\n%s", err, out)
	}
}

// Who makes a recording is not to be trusted with the terminal of whom it is sent to.
func TestARecordingMovesNoCursor(t *testing.T) {
	evil := func(s string) string { return strings.ReplaceAll(s, "!", `\u001b[2J\u0007\u009b1m\r`) }
	lines := []string{
		evil(`{"lost":1,"at":"2026-11-28T12:00:00Z"}`),
		evil(`{"n":1,"at":"2026-11-28T12:00:01Z","said":{"Kind":"!kind","Object":"!object","Text":"!text"}}`),
		evil(`{"n":2,"at":"2026-11-28T12:00:02Z","core":"!core","of":"!of","new":true,` +
			`"event":{"a.!E":{}},"effects":[{"a.!F":{}}]}`),
		evil(`{"n":3,"at":"2026-11-28T12:00:03Z","core":"dhcp","of":"!of","new":true,"state":{"!field":"!"},` +
			`"event":{"!":"!event"},"effects":["!effect"],"why":"!why"}`),
		evil(`{"n":4,"at":"2026-11-28T12:00:04Z","core":"registry","of":"!of","new":true,"state":{"!field":1},` +
			`"event":{"!type":{"!":"!"}},"effects":[{"!":"!"}]}`),
		evil(`{"at":"2026-11-28T12:00:05Z","end":"!end"}`),
	}
	for _, args := range [][]string{{"--show"}, {"--until", "event"}, {"--until", "4"}, {"--until", "\x1b[2J"},
		{"--core", "\x1b[2J"}} {
		out, err := replayed(t, evil(strings.Replace(head, "v1", "v1!", 1)), lines, args...)
		if err != nil {
			out += err.Error()
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
			t.Errorf("%q: a terminal gets %q", args, out[max(0, i-40):min(len(out), i+40)])
		}
		if want := "kind"; args[0] == "--show" && !strings.Contains(out, want) || len(out) < 20 {
			t.Errorf("%q prints\n%s", args, out)
		}
	}
}
