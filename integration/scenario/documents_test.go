package scenario

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/examples"
)

// example is a command line of a document, without its comment.
type example struct {
	at   string // such as "README.md:51"
	argv []string
}

func (e example) String() string { return e.at + ": " + strings.Join(e.argv, " ") }

var codeSpan = regexp.MustCompile("`([^`]+)`")

// examplesIn returns the lines of a document's fenced blocks that begin with one of the words, and such lines in
// backticks.
func examplesIn(name, text string, words ...string) []example {
	var out []example
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		lines := []string{line}
		if !fenced {
			lines = nil
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				lines = append(lines, m[1])
			}
		}
		for _, l := range lines {
			l, _, _ = strings.Cut(l, " #")
			if argv := strings.Fields(l); len(argv) > 1 && slices.Contains(words, argv[0]) {
				out = append(out, example{fmt.Sprintf("%s:%d", name, i+1), argv})
			}
		}
	}
	return out
}

// documented returns the examples of the documents for users.
func documented(t *testing.T, words ...string) []example {
	t.Helper()
	const root = "../.."
	files, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	for _, file := range append([]string{root + "/README.md", root + "/CONTRIBUTING.md"}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if name != "docs/quick-start.md" { // TestTheQuickStartRuns runs these in a shell
			out = append(out, examplesIn(name, string(text), words...)...)
		}
	}
	for _, e := range out {
		if strings.ContainsAny(strings.Join(e.argv, " "), "|&;<>\"'$*") {
			t.Fatalf("%s: this test runs no shell: write the example without one", e)
		}
	}
	return out
}

func TestExamplesOfADocumentAreFound(t *testing.T) {
	t.Parallel()
	text := "Say `edgespan get ni`, not `make run` or `edgespan`.\n```\nmake run\nedgespan wait app/UUID   # until it " +
		"is\n  edgespan x\n```\nedgespan is prose.\n"
	var got []string
	for _, e := range examplesIn("a.md", text, "edgespan") {
		got = append(got, e.String())
	}
	if want := []string{"a.md:1: edgespan get ni", "a.md:4: edgespan wait app/UUID",
		"a.md:5: edgespan x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// sick are the commands that use exit code 1 for findings on the machine, which may be unhealthy.
var sick = []string{"doctor"}

// fleets are the commands that need a controller, or a pending config from one. The tests of cmd/edgespan, which has
// one, and the fleet tests here run them. A replay needs a recording (TestTheTranscriptsOfReplaysRun).
var fleets = []string{
	"actions", "aggregator", "backup", "base", "bisect", "boards", "clusters", "confirm", "context", "controller", "firmware",
	"hardware", "history", "join", "metadata",
	"network", "nodes", "operators", "optimize", "peers", "release", "replay", "rollback", "rollout", "topology",
	"config", "env", "comp", "def", "lvl",
}

// ofAFleet reports whether an example is one of those; node alone is the daemon.
func ofAFleet(e example) bool {
	about := append(slices.Clone(e.argv[2:]), "")[0]
	return slices.Contains(fleets, e.argv[1]) || e.argv[1] == "shell" && slices.Contains(e.argv, "--node") || e.argv[1] == "node" && about != "" && !strings.HasPrefix(about, "-") ||
		e.argv[1] == "wait" && (strings.HasPrefix(about, "peer/") || strings.HasPrefix(about, "cluster/"))
}

// All examples of the documents run, from the first to the last.
func TestEveryExampleInTheDocumentsRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.WriteConfig(examples.Demo); err != nil {
		t.Fatal(err)
	}
	all := slices.DeleteFunc(documented(t, "edgespan"), ofAFleet)
	first := slices.IndexFunc(all, func(e example) bool { return e.argv[1] == "node" })
	if len(all) < 12 || first < 0 {
		t.Fatalf("%d examples, that of node is number %d: %v", len(all), first, all)
	}
	w.example(all[first])
	for _, e := range slices.Delete(all, first, first+1) {
		w.example(e)
	}
}

// example runs one example with its placeholders replaced: FILE and node.yaml by the lab's config, UUID by the app web
// of examples/demo.yaml, NETWORK by its network, LABEL by that network's port.
func (w *world) example(e example) {
	w.Helper()
	fill := strings.NewReplacer("UUID", app(1), "NETWORK", ni(1), "LABEL", "wan", "FILE", w.ConfigFile(), "node.yaml", w.ConfigFile())
	args := slices.Clone(e.argv[1:])
	for i := range args {
		args[i] = fill.Replace(args[i])
	}
	began := time.Now()
	defer func() { w.Logf("%s (%v)", e, time.Since(began).Round(time.Millisecond)) }()
	switch {
	case args[0] == "node":
		n, err := w.StartNode(w.NodeCmd(args[1:]...))
		if err != nil {
			w.Fatalf("%s: %v", e, err)
		}
		w.node = n
		if _, err := w.WaitControl(w.ctx, n); err != nil {
			w.Fatalf("%s: %v", e, err)
		}
		return
	case args[0] == "watch" || slices.Contains(args, "-w"):
		w.goesOn(e, args)
		return
	case args[0] == "support" && !slices.Contains(args, "-o"): // it writes into the current folder
		args = append(args, "--force", "-o", filepath.Join(w.Dir, "support.tar.gz"))
	case args[0] == "shell" && !slices.Contains(args, "-c"): // it reads from a terminal
		args = append(args, "-c", "tree")
	case args[0] == "top" && !slices.Contains(args, "--once"): // its screen wants a terminal
		args = append(args, "--once")
	}
	r, err := w.CLI(w.ctx, args...)
	found := slices.Contains(sick, args[0]) && r.Code == 1 && r.Err == "" && r.Out != ""
	if err != nil || r.Code != 0 && !found {
		w.Errorf("%s: exit %d, %v\n%s%s", e, r.Code, err, r.Out, r.Err)
	}
}

// goesOn starts a command that runs until it is interrupted, and renames an app, or lets it begin and end flows, until
// the command has printed something.
func (w *world) goesOn(e example, args []string) {
	w.Helper()
	said := w.stream(args...)
	change := func(i int) {
		w.apply(strings.Replace(string(examples.Demo), "displayName: web", fmt.Sprintf("displayName: web%d", i), 1))
	}
	if args[0] == "flows" {
		w.apply(strings.Replace(string(examples.Demo), "type: local", "type: local\n    flowLog: true", 1))
		w.lease("app-web")
		change = func(int) {
			w.in("app-web", "ping", "-c", "1", "-W", "5", "10.10.0.1")
			w.in("node", "conntrack", "-D", "-p", "icmp")
		}
	}
	for i := 0; said.text() == ""; i++ {
		if i == 50 {
			w.Fatalf("%s: says nothing of %d changes", e, i)
		}
		change(i)
		time.Sleep(100 * time.Millisecond)
	}
	w.apply(string(examples.Demo))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
}

// The lab of `demo up` has one name per machine: an existing one belongs to somebody else.
func TestTheExamplesOfTheKeptLabRun(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/run/netns/edgespan-demo-node"); err == nil {
		t.Skip("a lab of demo up stands on this machine: bin/edgespan demo down removes it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	env := os.Environ()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	all := slices.DeleteFunc(documented(t, "bin/edgespan", "export"),
		func(e example) bool { return !strings.HasPrefix(e.String(), "README.md:") })
	if len(all) < 6 || strings.Join(all[0].argv[1:], " ") != "demo up" ||
		strings.Join(all[len(all)-1].argv[1:], " ") != "demo down" {
		t.Fatalf("from demo up to demo down is expected: %v", all)
	}
	defer func() { _, _ = run("demo", "down") }() // after a failure; a missing lab is no error
	for _, e := range all {
		if e.argv[0] == "export" {
			env = append(env, e.argv[1:]...)
			continue
		}
		out, err := run(e.argv[1:]...)
		if err != nil || out == "" {
			t.Fatalf("%s: %v: %s", e, err, out)
		}
		if slices.Contains(e.argv, "curl") && !strings.Contains(out, "hello from") {
			t.Errorf("%s: %s", e, out)
		}
	}
}
