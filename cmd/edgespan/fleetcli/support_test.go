package fleetcli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers/redact"
	"edgespan/platform/support"
)

// The archive of a node appears if it is complete and harmless; whatever else a node sends leaves no file.
func TestTheArchiveOfANodeIsWholeOrNotThere(t *testing.T) {
	var whole strings.Builder
	if _, err := support.Write(t.Context(), &whole, support.Options{Node: "pop-1", Redactor: &redact.Redactor{},
		Now: time.Unix(1, 0)}, nil); err != nil {
		t.Fatal(err)
	}
	f := clitest.SmallFleet()
	f.Role, f.ArchiveText = fleetapi.Operator, whole.String()
	env := clitest.ServeFleet(t, f)
	file := filepath.Join(t.TempDir(), "a.tar.gz")
	code, out, said := three(cli(t, env, "", "nodes", "support", "pop-1", "-o", file, "--since", "2h", "--no-logs"))
	if asked := f.TakeRequests(); code != 0 || out != "" || !strings.Contains(said, "0 files, 0 left out") ||
		len(asked) != 1 || !strings.HasPrefix(asked[0], "support pop-1 {Since:2h0m0s NoLogs:true Flows:false By:") {
		t.Errorf("%d %q %s, asked %q", code, out, said, asked)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != whole.String() {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if code, out, _ := three(cli(t, env, "", "nodes", "support", "pop-1", "-o", "-")); code != 0 || out != whole.String() {
		t.Errorf("%d, %d bytes", code, len(out))
	}
	if code, _, said := three(cli(t, env, "", "nodes", "support", "pop-1", "-o", file)); code != 5 {
		t.Errorf("%d %s", code, said)
	}
	f.TakeRequests()
	for want, text := range map[string]string{"is no archive": "\x1b[2Jgarbage", "what the node sent is": whole.String()[:60],
		"behind its end": whole.String() + "x", "EOF": ""} {
		f.ArchiveText = text
		lost := filepath.Join(t.TempDir(), "b.tar.gz")
		code, _, said := three(cli(t, env, "", "nodes", "support", "pop-1", "-o", lost))
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(lost), "*")); code != 1 || !strings.Contains(said, want) ||
			len(left) != 0 || strings.Contains(said, "\x1b") {
			t.Errorf("want %q: %d %q, left %q", want, code, said, left)
		}
	}
	f.Role = fleetapi.Viewer
	if code, _, said := three(cli(t, env, "", "nodes", "support", "pop-1", "-o", "-")); code != 7 {
		t.Errorf("a viewer: %d %s", code, said)
	}
	if asked := f.TakeRequests(); slices.ContainsFunc(asked[4:], func(s string) bool { return strings.HasPrefix(s, "support") }) {
		t.Errorf("%q", asked)
	}
}

// A terminal could obey what a hostile node sends: it gets nothing, and the node is not asked.
func TestAnArchiveIsNotWrittenToATerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	f := clitest.SmallFleet()
	f.Role, f.ArchiveText = fleetapi.Operator, "\x1b[2J"
	env := clitest.ServeFleet(t, f)
	var said strings.Builder
	code := clitest.RunStreams(t.Context(), program, term.Streams{In: strings.NewReader(""), Out: terminal, Err: &said,
		Env: func(k string) string { return env[k] }}, "nodes", "support", "pop-1", "-o", "-")
	if asked := f.TakeRequests(); code != 2 || !strings.Contains(said.String(), "is a terminal") || len(asked) != 0 {
		t.Errorf("%d %s, asked %q", code, said.String(), asked)
	}
}

// A controller of an older version has no such route.
func TestAnOlderControllerIsNamed(t *testing.T) {
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"type":"urn:edgespan:problem:no-such-route","status":404,"detail":"no such route"}`))
	}))
	defer old.Close()
	env := map[string]string{"EDGESPAN_CONTROLLER": old.URL}
	code, _, said := three(cli(t, env, "", "nodes", "support", "pop-1", "-o", "-"))
	if code != 1 || !strings.Contains(said, "not supported by the controller's version") {
		t.Errorf("%d %s", code, said)
	}
}
