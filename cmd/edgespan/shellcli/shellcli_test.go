package shellcli

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"edgespan/cmd/term"
	"edgespan/pubsub/shellproto"
)

func TestSplitReadsQuotesCommentsAndSeveralCommands(t *testing.T) {
	for script, want := range map[string][][]string{
		"tree":                         {{"tree"}},
		" tree ;; events x\ntree":      {{"tree"}, {"events", "x"}, {"tree"}},
		`watch "a b" 'c;"d'`:           {{"watch", "a b", `c;"d`}},
		"watch '' # not; this\ntree#1": {{"watch", ""}, {"tree#1"}},
		"# only a comment":             nil,
		"":                             nil,
	} {
		if got, err := Split(script); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, %v; want %q", script, got, err, want)
		}
	}
	for _, script := range []string{"tree 'x", "tree \x1b[2J", strings.Repeat("x", maxLine+1)} {
		if _, err := Split(script); term.ExitCode(err) != term.ExitUsage {
			t.Errorf("%.20q: got %v, want a usage error", script, err)
		}
	}
}

func TestParseNamesTheWordTheProblemAndWhatIsExpected(t *testing.T) {
	for line, want := range map[string]struct {
		text string
		code int
	}{
		"tre":                      {`command: invalid value "tre": must be tree, `, term.ExitUsage},
		"inspect":                  {"inspect: 1 argument missing: must be inspect ACTOR", term.ExitUsage},
		"loglevel":                 {"loglevel: 2 arguments missing: must be loglevel SUBSYSTEM LEVEL", term.ExitUsage},
		"tree a b":                 {`"b": unexpected argument: must be tree [ACTOR]`, term.ExitUsage},
		"restart router":           {"restart: changes the node: must be in a shell that was started with --write", 7},
		"fault hang":               {"fault: 1 argument missing: must be fault KIND [NETWORK] DURATION", term.ExitUsage},
		"reconcile blue and green": {`"and": unexpected argument: must be reconcile NETWORK`, term.ExitUsage},
	} {
		_, err := Parse(strings.Fields(line), false)
		if err == nil || !strings.HasPrefix(err.Error(), want.text) || term.ExitCode(err) != want.code {
			t.Errorf("%s: got %v (%d), want %s (%d)", line, err, term.ExitCode(err), want.text, want.code)
		}
	}
	r, err := Parse([]string{"fault", "list"}, true)
	if err != nil || !r.Write || r.Version != shellproto.Version {
		t.Errorf("fault list: got %+v, %v", r, err)
	}
	if r, err := Parse([]string{"tree"}, true); err != nil || r.Write {
		t.Errorf("tree asks for the right to write: %+v, %v", r, err)
	}
}

func TestAfterSaysWhatMayComeNext(t *testing.T) {
	if next := After(nil); len(next.Ops) != len(shellproto.Ops) {
		t.Errorf("at the start: got %d commands, want all", len(next.Ops))
	}
	for line, want := range map[string]Next{
		"inspect": {Kind: shellproto.NamesActor, Help: "inspect ACTOR: state of an actor as data, without secrets"},
		"watch NIs": {Kind: shellproto.NamesKey, Of: "NIs",
			Help: "watch TOPIC [KEY]: values of a topic, now and as they change"},
		"tree router": {
			Help: "tree [ACTOR]: actors: state, restarts, mailbox, what each does now; nothing more may follow",
		},
		"nope": {Help: `"nope": unknown command: '?' lists them`},
	} {
		if got := After(strings.Fields(line)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", line, got, want)
		}
	}
}

var someActors = []shellproto.Actor{
	{ID: "router/ni-blue/applier", State: "running", Waiting: 3, Oldest: 1234567 * time.Microsecond,
		Now: "apply", NowSince: 15 * time.Second},
	{ID: "router/ni-blue", State: "restarting", Crashes: 2, Last: "index out of range",
		LastAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Next: "in 1.6s"},
	{ID: "router", State: "running"},
}

func TestTreeReadsWellAt80Columns(t *testing.T) {
	data, err := json.Marshal(someActors)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := render(&out, false, "tree", data); err != nil {
		t.Fatal(err)
	}
	const want = `ACTOR        STATE       CRASHES  MESSAGES  WAITING  OLDEST  NOW
router       running     0        0         0        -       -
  ni-blue    restarting  2        0         0        -       -
    applier  running     0        0         3        1.23s   apply for 15s
router/ni-blue: crashed 03:04:05.000: index out of range; restarts in 1.6s
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}

// A name or text of the daemon's may come from a hostile app: its hostname must not move the cursor, set the title or
// colour anything, in any operation and any format.
func TestNoControlCharacterReachesTheTerminal(t *testing.T) {
	const state = `"\u009b\u001b[2J` + "\u009b" + `"`
	const evil = "\x1b]0;owned\x07\x1b[2J\u009b31m\r\nroot# "
	answers := map[string]any{
		"tree":    []shellproto.Actor{{ID: evil, State: evil, Now: evil, Last: evil, Next: evil}},
		"inspect": shellproto.Inspection{Actor: shellproto.Actor{ID: evil}, State: json.RawMessage(state)},
		"tail":    shellproto.TailItem{Actor: evil, Type: evil, Text: evil},
		"watch":   shellproto.WatchItem{Topic: evil, Key: evil, Value: json.RawMessage("\"\u009b\"")},
		"trace":   shellproto.TraceItem{Where: evil, What: evil, Error: evil, Depth: 1 << 40},
		"events":  map[string]string{"kind": evil, "object": evil, "text": evil, "error": evil},
		"restart": shellproto.Done{Text: evil},
	}
	for op, answer := range answers {
		data, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		args := map[string]string{"inspect": " x", "tail": " x", "watch": " x", "restart": " x"}[op]
		for _, output := range scriptOutputs {
			var out, msg bytes.Buffer
			script := Script{Commands: op + args, Output: output, Write: true}
			with := &answering{frames: []shellproto.Frame{{Data: data}, {End: true}}}
			if err := script.Run(t.Context(), term.Streams{Out: &out, Err: &msg}, with); err != nil {
				t.Errorf("%s: %v", op, err)
			}
			if out.Len() == 0 || strings.ContainsFunc(out.String()+msg.String(), func(r rune) bool {
				return r != '\n' && (r < 0x20 || r >= 0x7f && r < 0xa0)
			}) {
				t.Errorf("%s -o %s: printed %q", op, output, out.String()+msg.String())
			}
		}
	}
}

// answering is a session that answers each request with the same frames.
type answering struct {
	frames []shellproto.Frame
	asked  []shellproto.Request
}

func (a *answering) Do(_ context.Context, r shellproto.Request, each func(shellproto.Frame) error) error {
	a.asked = append(a.asked, r)
	for _, f := range a.frames {
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

func (a *answering) Close() error { return nil }

func TestScriptStopsAtTheFirstFailure(t *testing.T) {
	for _, c := range []struct {
		name, commands string
		frames         []shellproto.Frame
		code, asked    int
	}{
		{"a mistake in the last command sends none", "tree; tree; nope", nil, term.ExitUsage, 0},
		{"nothing to do", " ; # nothing", nil, term.ExitUsage, 0},
		{"a write without --write sends none", "tree; restart router", nil, term.ExitPermission, 0},
		{"both commands", "tree; names actor", []shellproto.Frame{{Data: []byte("[]"), End: true}}, term.ExitOK, 2},
		{"the daemon refuses", "inspect x; tree", []shellproto.Frame{{End: true, Error: "no", Exit: 10}}, 10, 1},
		{"an error never exits 0", "tree", []shellproto.Frame{{End: true, Error: "no", Exit: 256}}, term.ExitError, 1},
		{"the daemon went away", "tree; tree", []shellproto.Frame{{Data: []byte("[]")}}, term.ExitPartial, 1},
		{"garbage", "tree; tree", []shellproto.Frame{{Data: []byte("{"), End: true}}, term.ExitError, 1},
	} {
		var out, msg bytes.Buffer
		with := &answering{frames: c.frames}
		err := Script{Commands: c.commands, Output: "table"}.Run(t.Context(), term.Streams{Out: &out, Err: &msg}, with)
		if term.ExitCode(err) != c.code || len(with.asked) != c.asked {
			t.Errorf("%s: exit %d (%v) after %d requests, want %d after %d", c.name, term.ExitCode(err), err,
				len(with.asked), c.code, c.asked)
		}
	}
}

func TestDroppedItemsAreCounted(t *testing.T) {
	var out, msg bytes.Buffer
	with := &answering{frames: []shellproto.Frame{{Dropped: 7}, {End: true}}}
	err := Script{Commands: "tail x", Output: "table"}.Run(t.Context(), term.Streams{Out: &out, Err: &msg}, with)
	if err != nil || msg.String() != "7 items dropped: this shell reads too slowly\n" {
		t.Errorf("got %q, %v", msg.String(), err)
	}
}

func FuzzSplitAndParse(f *testing.F) {
	for _, seed := range []string{"tree; events", `watch "a b" 'c'`, "fault hang blue 30s", "'", "#", "\x1b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script string) {
		commands, err := Split(script)
		if err != nil {
			return
		}
		for _, words := range commands {
			if r, err := Parse(words, true); err == nil && (r.Op != words[0] || len(r.Args) != len(words)-1) {
				t.Errorf("%q became %+v", words, r)
			}
			After(words)
		}
	})
}

// What completion types is read as the name that it stands for.
func TestACompletedNameIsReadAsItIs(t *testing.T) {
	for _, name := range []string{"blue", "blue two", "it's", `the "new" one`, "a;b", "#1"} {
		if got, err := Split("inspect " + quoteWord(name)); err != nil || len(got) != 1 || !slices.Equal(got[0],
			[]string{"inspect", name}) {
			t.Errorf("%s is typed as %s and read as %q, %v", name, quoteWord(name), got, err)
		}
	}
}
