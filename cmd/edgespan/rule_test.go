package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/term"
	"edgespan/config/httpapi"
)

func TestTheWordsOfCommitConfirm(t *testing.T) {
	f := &fake{items: map[string][]httpapi.Resource{"pending": {{ID: "node", Kind: "pending", Spec: map[string]any{}, Status: map[string]any{
		"pending": true, "generation": "c:2", "source": "controller", "remaining": "1m58s", "settled": true, "managed": true,
	}}}}}
	env := at(serve(t, f))
	for _, c := range []struct {
		line  string
		asked string
		says  string
	}{
		{"confirm", "confirm", "confirmed"},
		{"rollback", "rollback", "going back"},
		{"release", "release", "it was not held"},
		{"get pending", "list pending", ""},
	} {
		before := len(f.seen())
		got := cli(t, env, "", strings.Fields(c.line)...)
		if got.code != term.ExitOK || !strings.Contains(got.err, c.says) || strings.Join(f.seen()[before:], ";") != c.asked {
			t.Errorf("edgespan %s: %+v, asks %q", c.line, got, f.seen()[before:])
		}
	}
	if got := cli(t, env, "", "get", "pending"); !strings.Contains(got.out, "c:2") || !strings.Contains(got.out, "1m58s") {
		t.Errorf("get pending shows %s", got.out)
	}
	f.held = true
	if got := cli(t, env, "", "release"); !strings.Contains(got.err, "the controller rules") {
		t.Errorf("release: %+v", got)
	}
	f.err = fmt.Errorf("%w: nothing is pending", httpapi.ErrConflict)
	for _, word := range []string{"confirm", "rollback", "release"} {
		if got := cli(t, env, "", word); got.code != term.ExitConflict || !strings.Contains(got.err, "nothing is pending") {
			t.Errorf("%s of nothing: %+v", word, got)
		}
	}
}

func TestApplySaysHow(t *testing.T) {
	f := &fake{}
	env := at(serve(t, f))
	if got := cli(t, env, "{}", "apply", "-f", "-", "--local", "--confirm", "120s"); got.code != term.ExitOK || !strings.Contains(got.err, "undone in 2m0s") {
		t.Errorf("%+v", got)
	}
	if f.how.Confirm != 2*time.Minute || !f.how.Local || f.how.By == "" {
		t.Errorf("it was asked to apply %+v", f.how)
	}
	for _, wrong := range []string{"--confirm 0s", "--confirm 25h", "--confirm -1s", "--local --dry-run", "--confirm 1m --dry-run"} {
		if got := cli(t, env, "{}", append([]string{"apply", "-f", "-"}, strings.Fields(wrong)...)...); got.code != term.ExitUsage {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
}
