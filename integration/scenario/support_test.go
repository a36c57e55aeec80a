package scenario

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"edgespan/platform/support"
)

// files returns the files of a support archive by their names below its folder.
func (w *world) files(data []byte) map[string]string {
	w.Helper()
	if _, err := support.Check(bytes.NewReader(data)); err != nil {
		w.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		w.Fatal(err)
	}
	out := map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		content, readErr := io.ReadAll(in)
		if err = errors.Join(err, readErr); err != nil {
			w.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		out[name] = string(content)
	}
}

// archived runs edgespan support and returns the archive's files.
func (w *world) archived(args ...string) map[string]string {
	w.Helper()
	path := filepath.Join(w.TempDir(), "a.tar.gz")
	w.cli(append([]string{"support", "-o", path}, args...)...)
	data, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	return w.files(data)
}

// As an operator I send one file to somebody who knows more: it has what the node and the host know, without my secrets, and
// also if the daemon is frozen or dead.
func TestASupportArchiveOfANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "app/"+app(1))
	files := w.archived()
	for name, want := range map[string]string{
		"README.txt": "config/confirmed.json", "about.json": `"stateDir"`, "config/confirmed.json": ni(1),
		"config/file.json": ni(1), "status/ni.json": `"Present"`, "status/app.json": app(1), "diff.json": "[]",
		"events.jsonl": app(1), "metrics.txt": "edgespan_", "goroutines.txt": "goroutine ", "doctor.json": `"check"`,
		"host/processes.txt": "dnsmasq", "host/ip-address.txt": "es1", "host/ip-rule.txt": "lookup",
		"host/daemon-threads.txt": "wchan", "host/sysctl.txt": "net.netfilter.nf_conntrack_count",
		"log.txt": "node runs", "plan.json": "[]",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q: %.600s", name, want, files[name])
		}
	}
	if _, there := files["flows.jsonl"]; there {
		t.Error("the flow log is there unasked")
	}
	if t.Failed() {
		t.Logf("%s", files["README.txt"])
	}

	if err := w.node.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	frozen := w.archived()
	if err := w.node.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
	}
	if !strings.Contains(frozen["README.txt"], "runs and does not answer") || frozen["status/ni.json"] != "" ||
		!strings.Contains(frozen["config/confirmed.json"], ni(1)) || !strings.Contains(frozen["host/ip-address.txt"], "es1") ||
		!strings.Contains(frozen["host/daemon-threads.txt"], "state T") {
		t.Errorf("of a frozen daemon: %s", frozen["README.txt"])
	}
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	dead := w.archived("--no-logs")
	if !strings.Contains(dead["README.txt"], "daemon not reachable") || dead["log.txt"] != "" ||
		!strings.Contains(dead["config/confirmed.json"], ni(1)) || !strings.Contains(dead["host/processes.txt"], "dnsmasq") ||
		!strings.Contains(dead["host/ip-address.txt"], "es1") {
		t.Errorf("of a dead daemon: %s", dead["README.txt"])
	}
}

// As an operator of a fleet I get a node's archive through the controller; both record that, and a viewer gets none.
func TestASupportArchiveThroughTheController(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	c := w.open("one", 8443, quick...)
	c.remember(c.line("CA sha256:"))
	if r := w.join(c.run("nodes", "invite", "edge-1").Out, "--state-dir", w.StateDir()); r.Code != 0 {
		t.Fatalf("join: %+v", r)
	}
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "app/"+app(1))
	w.eventually("the node is connected", func() bool {
		return strings.Contains(c.ok("nodes", "list"), "edge-1") &&
			strings.Contains(c.ok("nodes", "describe", "edge-1", "-o", "json"), `"online": true`)
	})
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	c.ok("nodes", "support", "edge-1", "-o", path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := w.files(data)
	for name, want := range map[string]string{"status/ni.json": `"Present"`, "host/ip-address.txt": "es1",
		"config/confirmed.json": ni(1), "log.txt": "support archive requested through the controller"} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q: %.600s", name, want, files[name])
		}
	}
	audited := false
	if err := filepath.WalkDir(c.dir, func(path string, _ os.DirEntry, err error) error {
		if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(filepath.Base(path), "audit") {
			audited = audited || strings.Contains(string(text), "nodes/edge-1/support")
		}
		return err
	}); err != nil || !audited {
		t.Errorf("the controller's audit log does not have it: %v", err)
	}
	for name, content := range files {
		for _, secret := range []string{"PRIVATE KEY-----\n", "esj_", "eso_"} {
			if strings.Contains(content, secret) {
				t.Errorf("%s has %q", name, secret)
			}
		}
	}
}
