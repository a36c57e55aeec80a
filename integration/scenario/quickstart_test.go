package scenario

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// shellBlock is one block of commands of a page.
var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// mustFail is a command that the page expects to fail, which errexit overlooks.
var mustFail = regexp.MustCompile(`(?m)^! (.*)$`)

// ownFolders hides the machine's folders from a shell and its children, so that the page's default paths and namespace
// names belong to this test alone.
const ownFolders = `mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir /run/netns
trap 'for job in $(jobs -p); do kill $job || true; done; wait' EXIT
set -x
`

// TestTheQuickStartRuns runs the blocks of docs/quick-start.md, first to last, in one shell on a lab's node. It asks
// make only whether the targets exist: the programs are built already.
func TestTheQuickStartRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/quick-start.md")
	if err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	script := ownFolders
	blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
	for _, b := range blocks {
		commands := strings.ReplaceAll(b[1], "make setup build", "make -n -C "+repository+" setup build")
		script += mustFail.ReplaceAllString(commands, "if $1; then exit 1; fi")
	}
	if len(blocks) < 15 {
		t.Fatalf("the page has %d blocks", len(blocks))
	}
	w := newWorld(t)
	controller, err := controllerBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.Dir, "repository")
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{binary, controller} {
		if err := os.Symlink(program, filepath.Join(dir, "bin", filepath.Base(program))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	r, err := w.Exec(ctx, "node", "env", "-C", dir, "HOME="+dir, "bash", "-eu", "-c", script)
	if err != nil || r.Code != 0 {
		t.Errorf("exit %d, %v: the last command failed:\n%s%s", r.Code, err, r.Out, r.Err)
	}
	for _, want := range []string{"client", "Present", "NeedsAdoption", "debug edge-1"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("stdout has no %q", want)
		}
	}
}
