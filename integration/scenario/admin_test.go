package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"edgespan/platform/lab"
)

// office is a controller process at the provider, with its operator.
type office struct {
	w     *world
	name  string
	port  int    // of the API; nodes use the next one
	dir   string // data folder
	extra []string
	asked []string // replaces all other arguments
	cmd   *exec.Cmd
	ended chan struct{}
}

// controllerBinary builds the controller once.
var controllerBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "edgespan-controller")
	build := exec.Command("go", "build", "-ldflags=-s", "-o", path, "edgespan/cmd/edgespan-controller")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build edgespan-controller: %w: %s", err, out)
	}
	return path, nil
})

// begin starts the process and waits until it serves.
func (o *office) begin() {
	o.w.Helper()
	program, err := controllerBinary()
	if err != nil {
		o.w.Fatal(err)
	}
	said, err := os.OpenFile(o.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		o.w.Fatal(err)
	}
	defer said.Close()
	before := len(o.said())
	args := o.asked
	if args == nil {
		args = append([]string{"--data-dir", o.dir, "--listen", fmt.Sprint("192.0.2.1:", o.port), "--node-listen", o.nodes()},
			o.extra...)
	}
	o.cmd = exec.Command("ip", append([]string{"netns", "exec", o.w.NS("isp"), program}, args...)...)
	o.cmd.Stdout, o.cmd.Stderr = said, said
	if err := o.cmd.Start(); err != nil {
		o.w.Fatal(err)
	}
	cmd, ended := o.cmd, make(chan struct{})
	o.ended = ended
	go func() {
		_ = cmd.Wait() // the log shows how it ended
		close(ended)
	}()
	o.w.eventually(o.name+" runs", func() bool {
		select {
		case <-ended:
			o.w.Fatalf("%s ended: %s", o.name, o.said())
		default:
		}
		return strings.Contains(o.said()[before:], `"msg":"controller runs"`)
	})
}

func (o *office) signal(s os.Signal) {
	o.w.Helper()
	if err := o.cmd.Process.Signal(s); err != nil {
		o.w.Fatal(err)
	}
}

// kill ends the process as a power failure does.
func (o *office) kill() {
	o.w.Helper()
	o.signal(syscall.SIGKILL)
	<-o.ended
}

func (o *office) nodes() string { return fmt.Sprint("192.0.2.1:", o.port+1) }
func (o *office) log() string   { return o.dir + ".log" }

func (o *office) said() string {
	text, err := os.ReadFile(o.log())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.w.Fatal(err)
	}
	return string(text)
}

// line returns the text after a word on stderr.
func (o *office) line(word string) string {
	o.w.Helper()
	for l := range strings.SplitSeq(o.said(), "\n") {
		if _, after, found := strings.Cut(l, word); found {
			return strings.TrimSpace(after)
		}
	}
	o.w.Fatalf("%s does not say %q:\n%s", o.name, word, o.said())
	return ""
}

// run runs a command of the operator.
func (o *office) run(args ...string) lab.Result {
	o.w.Helper()
	return o.shell(append([]string{o.w.Binary}, args...))
}

// argv returns a command with the operator's context.
func (o *office) argv(argv []string) []string {
	return append([]string{"env", "EDGESPAN_CONTEXTS=" + o.w.contexts(), "EDGESPAN_CONTEXT=" + o.name}, argv...)
}

// shell runs a command on the controller's machine.
func (o *office) shell(argv []string) lab.Result {
	o.w.Helper()
	r, err := o.w.Exec(o.w.ctx, "isp", o.argv(argv)...)
	if err != nil {
		o.w.Fatal(err)
	}
	return r
}

// ok runs a command that must succeed.
func (o *office) ok(args ...string) string {
	o.w.Helper()
	r := o.run(args...)
	if r.Code != 0 {
		o.w.Fatalf("edgespan %s: exit %d: %s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
	return r.Out + r.Err
}

// node returns what the controller knows about a node.
func (o *office) node(name string) (n nodeSeen) {
	o.w.Helper()
	if err := json.Unmarshal([]byte(o.run("nodes", "describe", name, "-o", "json").Out), &n); err != nil {
		return nodeSeen{State: "no answer"}
	}
	return n
}

type nodeSeen struct {
	State, Why, Held, Pending string
	Online, Ready             bool
	Explain                   []string
	Failures                  []struct{ Reason, Why string }
	Running                   struct{ MD5, Generation string }
	Desired                   struct{ MD5, Generation string } `json:"wanted"`
}

// is waits until a node has a state and fulfils more conditions.
func (o *office) is(name, state string, more ...func(nodeSeen) bool) (n nodeSeen) {
	o.w.Helper()
	defer func() {
		if o.w.Failed() {
			o.w.Logf("%s: %+v\n%s", name, n, o.run("nodes", "describe", name).Out)
		}
	}()
	o.w.eventually(name+" is "+state, func() bool {
		n = o.node(name)
		for _, ok := range more {
			if !ok(n) {
				return false
			}
		}
		return n.State == state
	})
	return n
}

func (w *world) contexts() string { return filepath.Join(w.Dir, "contexts.yaml") }

// join runs a printed join command on the node, with more flags.
func (w *world) join(printed string, more ...string) lab.Result {
	w.Helper()
	words := strings.Fields(printed)
	if len(words) < 2 || words[0] != "edgespan" || words[1] != "join" {
		w.Fatalf("no join command: %q", printed)
	}
	r, err := w.Exec(w.ctx, "node", append(append([]string{w.Binary}, words[1:]...), more...)...)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// open creates a controller, starts it, and adds a context with its name.
func (w *world) open(name string, port int, extra ...string) *office {
	w.Helper()
	o := &office{w: w, name: name, port: port, dir: filepath.Join(w.Dir, name), extra: extra}
	o.begin()
	w.Cleanup(func() { // before the lab and its log are removed
		if w.Failed() {
			w.Logf("%s's last words:\n%s", name, lastOf(o.said(), 30))
		}
	})
	return o
}

func (o *office) remember(pin string) {
	o.w.Helper()
	o.ok("context", "add", o.name, "--controller", fmt.Sprint("https://192.0.2.1:", o.port), "--token-file",
		filepath.Join(o.dir, "admin.token"), "--ca-sha256", pin)
}

func lastOf(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// with is run with stdin.
func (o *office) with(stdin string, args ...string) lab.Result {
	o.w.Helper()
	path := filepath.Join(o.w.TempDir(), "stdin")
	if err := os.WriteFile(path, []byte(stdin), 0o600); err != nil {
		o.w.Fatal(err)
	}
	return o.shell(append([]string{"sh", "-c", `f=$0; exec "$@" <"$f"`, path, o.w.Binary}, args...))
}
