package scenario

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"edgespan/examples"
)

// transcript is one command of a document, and what it prints there.
type transcript struct {
	at      string
	command string
	lines   []string
	goesOn  bool // it ends with ^C
}

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// transcriptsIn returns the transcripts of a document: commands behind "$ ", each with its output. A last line "exit N"
// is its exit status.
func transcriptsIn(t *testing.T, name string) (out []transcript) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(b[1]) {
			line = strings.TrimSuffix(line, "\n")
			if command, is := strings.CutPrefix(line, "$ "); is {
				out = append(out, transcript{at: fmt.Sprintf("%s: %s", name, command), command: command})
				continue
			}
			last := &out[len(out)-1]
			if last.goesOn = line == "^C"; !last.goesOn {
				last.lines = append(last.lines, line)
			}
		}
	}
	return out
}

var (
	digits = regexp.MustCompile(`[0-9]+`)
	spaces = regexp.MustCompile(` +`)
)

// pattern returns what output must match: numbers match any number, as do the widths of columns; "…" matches anything,
// on a line of its own any number of lines.
func (x transcript) pattern() *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	for _, line := range x.lines {
		if line == "…" {
			b.WriteString(`(?s:.*)`)
			continue
		}
		text := regexp.QuoteMeta(line)
		text = digits.ReplaceAllString(text, "[0-9]+")
		text = spaces.ReplaceAllString(text, " +")
		b.WriteString(strings.ReplaceAll(text, "…", ".*") + "\n")
	}
	if !x.goesOn {
		b.WriteString("$")
	}
	return regexp.MustCompile(b.String())
}

// The transcripts of docs/shell.md are what the shell prints, from the first to the last, on the lab of the examples.
func TestTheTranscriptsOfTheShellRun(t *testing.T) {
	t.Parallel()
	all := transcriptsIn(t, "shell.md")
	if len(all) < 14 {
		t.Fatalf("%d transcripts", len(all))
	}
	w := newWorld(t)
	w.withFaults(string(examples.Demo))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	path := "PATH=" + binaryFolder(t) + ":" + os.Getenv("PATH")
	for _, x := range all {
		if x.goesOn {
			w.streams(x, path)
			continue
		}
		cmd := w.command("sh", "-c", x.command+` 2>&1; code=$?; test $code = 0 || echo exit $code`)
		cmd.Env = append(cmd.Env, path)
		if out, err := cmd.Output(); err != nil || !x.pattern().Match(out) {
			t.Errorf("%s: %v\n%s\nwant\n%s", x.at, err, out, strings.Join(x.lines, "\n"))
		}
	}
}

// streams checks that a stream shows a transcript while a network is reconciled again and again. One that begins in the
// middle of a change, and so with another line, is begun anew.
func (w *world) streams(x transcript, path string) {
	w.Helper()
	want, end := x.pattern(), time.Now().Add(20*time.Second)
	for shown := false; !shown; {
		cmd := w.command("sh", "-c", "exec "+x.command+` 2>&1`)
		cmd.Env = append(cmd.Env, path)
		out := &reader{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			w.Fatal(err)
		}
		for anew := time.Now().Add(2 * time.Second); !shown && time.Now().Before(anew); {
			time.Sleep(50 * time.Millisecond) // the stream is likely to begin before the first change
			w.shell("reconcile "+ni(1), "--write")
			shown = want.MatchString(out.text())
		}
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			w.Errorf("%s: interrupted: %v", x.at, err)
		}
		if !shown && time.Now().After(end) {
			w.Errorf("%s:\n%s\nwant\n%s", x.at, out.text(), strings.Join(x.lines, "\n"))
			return
		}
	}
}

// binaryFolder returns a folder in which the program has its name.
func binaryFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(binary, dir+"/edgespan"); err != nil {
		t.Fatal(err)
	}
	return dir
}
