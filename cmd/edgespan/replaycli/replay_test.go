package replaycli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/pubsub/tape"
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
	if want := "12:00:01.500  the recording ends before its daemon: more than 4096 secrets\n"; err == nil ||
		!strings.Contains(out, want) {
		t.Errorf("%v, want %q in\n%s", err, want, out)
	}
}

// What is left of a damaged recording is replayed, and that it is not all of it is said.
func TestAReplaySaysThatARecordingIsDamaged(t *testing.T) {
	step := `{"n":1,"at":"2026-11-28T12:00:01Z","core":"dhcp","of":"a","why":"no state"}`
	out, err := replayed(t, head, []string{step, step[9:], step})
	if !errors.Is(err, errNothing) || !strings.Contains(out, "1 step could not be replayed") ||
		!strings.Contains(out, "segment: line 3: damaged: what follows is not replayed") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := replayed(t, head, []string{step, step[:40]}); !errors.Is(err, errNothing) || strings.Contains(out, "damaged") {
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

const noState = `{"n":1,"at":"2026-11-28T12:00:01Z","core":"dhcp","of":"a","new":true,"why":"no state"}`

// A script that asks whether all decide as recorded must not hear yes of nothing.
func TestAReplayOfNothingIsNoSuccess(t *testing.T) {
	for what, lines := range map[string][]string{"no step": nil, "none that can be replayed": {noState, noState}} {
		out, err := replayed(t, head, lines)
		if err == nil || !strings.Contains(err.Error(), "no step could be replayed") || strings.Contains(out, "all ") {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

// Who interrupts a replay has not seen that all decide as recorded.
func TestAnInterruptedReplayIsNoSuccess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &replay{App: &reach.App{Streams: term.Streams{In: strings.NewReader(""), Out: writer(cancel), Err: io.Discard}},
		show: true}
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, []byte(head+"\n"+strings.Repeat(noState+"\n", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.run(ctx, []string{name}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// writer ends a context with the first line that is shown.
type writer func()

func (w writer) Write(b []byte) (int, error) { w(); return len(b), nil }

// What --until is given stands in the lines that a replay shows, and a time of the day may be of the next one.
func TestUntil(t *testing.T) {
	at := func(s string) tape.Moment {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return tape.Moment{At: at, N: 7, Event: []byte(`{"a.ConfigGone":{}}`)}
	}
	const first = "2026-11-28T17:37:32.126Z"
	for _, c := range []struct {
		until, at string
		want      bool
	}{
		{"17:37:32", first, true}, {"17:37:32.126", first, true}, {"17:37:32.242", first, false},
		{"17:37:32.242", "2026-11-28T17:37:32.2425Z", true}, {"17:37:33", "2026-11-28T17:37:32.9Z", false},
		{"03:00:00", first, false}, {"03:00:00", "2026-11-29T02:59:59Z", false}, {"03:00:00", "2026-11-29T03:00:00Z", true},
		{"2026-11-28T17:37:33Z", first, false}, {"2026-11-28T17:37:32Z", first, true},
		{"7", first, true}, {"8", first, false}, {"ConfigGone", first, true}, {"configgone", first, false},
		{"-1", first, false}, {"", first, false}, {"18446744073709551616", first, false}, {"25:00:00", first, false},
	} {
		u, err := parseMoment(c.until)
		if err != nil {
			t.Errorf("%s: %v", c.until, err)
			continue
		}
		if u.begin(at(first).At); u.fits(at(c.at)) != c.want {
			t.Errorf("%s at %s: fits %v, want %v", c.until, c.at, !c.want, c.want)
		}
	}
	if _, err := parseMoment("0"); err == nil {
		t.Error("there is a step 0")
	}
}
