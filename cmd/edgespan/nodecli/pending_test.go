package nodecli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

func TestTheWordsOfCommitConfirm(t *testing.T) {
	f := &clitest.Daemon{Items: map[string][]nodeapi.Resource{"pending": {{ID: "node", Kind: "pending",
		Spec: map[string]any{}, Status: map[string]any{
			"pending": true, "generation": "c:2", "source": "controller", "remaining": "1m58s", "settled": true, "managed": true,
		}}}}}
	env := clitest.At(clitest.ServeDaemon(t, f))
	for _, c := range []struct {
		line  string
		asked string
		says  string
	}{
		{"confirm", "confirm", "confirmed"},
		{"rollback", "rollback", "rolling back"},
		{"release", "release", "no local hold"},
		{"get pending", "list pending", ""},
	} {
		before := len(f.Requests())
		got := cli(t, env, "", strings.Fields(c.line)...)
		if got.Code != term.ExitOK || !strings.Contains(got.Err, c.says) ||
			strings.Join(f.Requests()[before:], ";") != c.asked {
			t.Errorf("edgespan %s: %+v, asks %q", c.line, got, f.Requests()[before:])
		}
	}
	if got := cli(t, env, "", "get", "pending"); !strings.Contains(got.Out, "c:2") || !strings.Contains(got.Out, "1m58s") {
		t.Errorf("get pending shows %s", got.Out)
	}
	f.Held = true
	if got := cli(t, env, "", "release"); !strings.Contains(got.Err, "the controller manages the node") {
		t.Errorf("release: %+v", got)
	}
	f.Err = fmt.Errorf("%w: nothing is pending", rest.ErrConflict)
	for _, word := range []string{"confirm", "rollback", "release"} {
		if got := cli(t, env, "", word); got.Code != term.ExitConflict || !strings.Contains(got.Err, "nothing is pending") {
			t.Errorf("%s of nothing: %+v", word, got)
		}
	}
}

func TestApplySaysHow(t *testing.T) {
	f := &clitest.Daemon{}
	env := clitest.At(clitest.ServeDaemon(t, f))
	if got := cli(t, env, "{}", "apply", "-f", "-", "--local", "--confirm", "120s"); got.Code != term.ExitOK ||
		!strings.Contains(got.Err, "rolled back in 2m0s") {
		t.Errorf("%+v", got)
	}
	if f.How.Confirm != 2*time.Minute || !f.How.Local || f.How.By == "" {
		t.Errorf("it was asked to apply %+v", f.How)
	}
	for _, wrong := range []string{"--confirm 0s", "--confirm 25h", "--confirm -1s", "--local --dry-run",
		"--confirm 1m --dry-run"} {
		if got := cli(t, env, "{}",
			append([]string{"apply", "-f", "-"}, strings.Fields(wrong)...)...); got.Code != term.ExitUsage {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
}
