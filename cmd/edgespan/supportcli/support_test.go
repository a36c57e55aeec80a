package supportcli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/platform/daemon"
	"edgespan/platform/support"
)

var program = clitest.RootOf(func(a *reach.App) []*cobra.Command { return []*cobra.Command{New(a, "v1.2.3")} })

// unpacked returns the files of an archive by their names below its folder.
func unpacked(t *testing.T, data []byte) map[string]string {
	t.Helper()
	if _, err := support.Check(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		files[name] = string(content)
	}
}

// place is the folders of a node.
type place struct{ run, state, config string }

func newPlace(t *testing.T) place {
	dir := clitest.Scratch(t)
	p := place{filepath.Join(dir, "run"), filepath.Join(dir, "state"), filepath.Join(dir, "node.yaml")}
	for _, d := range []string{p.run, p.state} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// collect runs the command and returns its files.
func (p place) collect(t *testing.T, args ...string) map[string]string {
	t.Helper()
	said := clitest.Run(t, program, nil, "", append([]string{"support", "-o", "-", "--run-dir", p.run, "--state-dir",
		p.state, "--config", p.config}, args...)...)
	if said.Code != 0 {
		t.Fatalf("code %d: %s", said.Code, said.Err)
	}
	return unpacked(t, []byte(said.Out))
}

func (p place) write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// secrets is a vendor's metadata with a secret of each type, and a config with a canary in each, and in other places
// where people put secrets.
const vendorMetadata = `{"vault": {
  "pin": {"desc": "x", "type": "STRING", "action": "NO_ACTION", "secret": true},
  "code": {"desc": "x", "type": "INTEGER", "action": "NO_ACTION", "secret": true},
  "keys": {"desc": "x", "type": "MAP", "action": "NO_ACTION", "secret": true, "mapVal": {"type": "STRING"}},
  "url": {"desc": "x", "type": "STRING", "action": "NO_ACTION"}}}`

// canaries returns a config with a different canary at each place that a metadata declares secret, and the canaries.
func canaries(t *testing.T, m *metadata.Metadata) (config.Object, []string) {
	doc, all := config.Object{}, []string{}
	for e := range m.All() {
		if !e.Secret {
			continue
		}
		canary := fmt.Sprintf("canary%d+/\"<é", len(all))
		path := append([]string(nil), e.Path...)
		for i, key := range path {
			if key == metadata.AnyKey {
				path[i] = "any"
			}
		}
		value := any(canary)
		switch e.Name() {
		case "vault.code":
			value, canary = int64(773311552), "773311552"
		case "vault.keys":
			value = config.Object{"a": canary}
		case "vault.keys.*":
			continue
		}
		doc, all = config.Set(doc, path, value), append(all, canary)
	}
	if len(all) < 3 {
		t.Fatalf("%d secrets", len(all))
	}
	return doc, all
}

// No secret is in an archive, in whatever form: every place that the metadata declares secret has a canary, as have
// URLs, environments, tokens, and the texts of log, status and events that repeat them.
func TestNoCanaryIsInAnArchive(t *testing.T) {
	p := newPlace(t)
	vendor := p.write(t, filepath.Join(p.state, "vendor.json"), vendorMetadata)
	embedded, _ := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
	object, _ := config.ParseObject([]byte(vendorMetadata))
	merged, _, faults := embedded.Merge(object)
	if faults != nil {
		t.Fatal(faults)
	}
	doc, all := canaries(t, merged)
	doc = config.Set(doc, []string{"vault", "url"}, "https://user:canary-url@host/x")
	doc = config.Set(doc, []string{"unknown", "what"}, "canary-unknown")
	doc = config.Set(doc, []string{"unknown", "dbPassword"}, "canary-named")
	all = append(all, "canary-url", "canary-unknown", "canary-named", "canary-env", "esj_canarycanarycanary",
		"canary-header", "canary-pem", "canary-file")
	text := string(config.AppendCanonical(nil, doc))
	p.write(t, p.config, text)
	slots := daemon.NewFiles("", p.state).Slots
	for _, s := range []commitconfirm.Slot{commitconfirm.SlotConfirmed, commitconfirm.SlotPending, commitconfirm.SlotCopy} {
		record := commitconfirm.EncodeRecord(&commitconfirm.ConfigRecord{Seq: 1, Source: commitconfirm.Push, Document: doc,
			Peer: `{"parameters":[{"executor":{"env":{"A":"canary-env"}}}]}`})
		if err := slots.Write(string(s), record); err != nil {
			t.Fatal(err)
		}
	}
	p.write(t, filepath.Join(p.state, "node-key.pem"), "canary-file")
	noise := strings.Join(all[:len(all)-8], " ") + " canary-named canary-env " +
		base64.StdEncoding.EncodeToString([]byte("u:"+all[0]+":tail")) + " " + hex.EncodeToString([]byte(all[1])) +
		" esj_canarycanarycanary Authorization: canary-header https://canary-url@host"
	logged, err := json.Marshal(map[string]string{"msg": noise, "field": "-----BEGIN PRIVATE KEY-----\ncanary-pem"})
	if err != nil {
		t.Fatal(err)
	}
	if err := support.WriteDaemon(support.Daemon{RunDir: p.run, Socket: filepath.Join(p.run, reach.SocketName),
		Node: "edge-1", Config: p.config, StateDir: p.state,
		Metadata: vendor, Log: p.write(t, filepath.Join(p.run, "log"), noise+"\n"+string(logged)+"\n")}); err != nil {
		t.Fatal(err)
	}
	d := clitest.Filled()
	d.Items["param"] = append(d.Items["param"], nodeapi.Resource{ID: "x", Kind: "param",
		Spec: clitest.Obj{"env": clitest.Obj{"A": "canary-env"}, "cmd": noise}})
	d.Items["ni"][0].Status.(clitest.Obj)["error"] = noise
	clitest.ServeAt(t, filepath.Join(p.run, reach.SocketName), nodeapi.Handler(d, nodeapi.WithVersion(noise)))

	files := p.collect(t)
	for _, name := range []string{"config/file.json", "config/confirmed.json", "config/pending.json", "config/copy.json",
		"status/param.json", "status/ni.json", "goroutines.txt", "doctor.json", "host/ip-address.txt"} {
		if files[name] == "" {
			t.Errorf("%s is missing: %s", name, files["README.txt"])
		}
	}
	for name, content := range files {
		for _, canary := range append(all, "canary", base64.StdEncoding.EncodeToString([]byte("canary"))[:7],
			hex.EncodeToString([]byte("canary"))) {
			if strings.Contains(content, canary) {
				t.Errorf("%s has %s:\n%.2000s", name, canary, content)
				break
			}
		}
	}
	for name, want := range map[string]string{"config/file.json": `"url": "https://[redacted]@host/x"`,
		"status/ni.json": "demo net", "config/confirmed.json": "$masked"} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %s:\n%s", name, want, files[name])
		}
	}
}

// Without a record of the daemon the vendor's metadata is unknown: its values are masked all the same.
func TestWithoutMetadataUnknownValuesAreMasked(t *testing.T) {
	p := newPlace(t)
	p.write(t, p.config, "vault: {pin: canary1}\nsysParams: {managedConfig: true}\n")
	files := p.collect(t)
	if got := files["config/file.json"]; strings.Contains(got, "canary") || !strings.Contains(got, `"managedConfig": true`) {
		t.Errorf("%s\n%s", got, files["README.txt"])
	}
}

// A file that can't be read as a config is left out: nothing says what is secret in it.
func TestAConfigFileThatCanNotBeReadIsLeftOut(t *testing.T) {
	p := newPlace(t)
	for _, text := range []string{"pin: [canary", "canary", strings.Repeat("#canary\n", 1<<20)} {
		p.write(t, p.config, text)
		files := p.collect(t)
		if _, there := files["config/file.json"]; there || !strings.Contains(files["README.txt"], "config/file.json") {
			t.Errorf("%.30q: %s", text, files["README.txt"])
		}
		for name, content := range files {
			if strings.Contains(content, "canary") {
				t.Errorf("%s: %s", name, content)
			}
		}
	}
}

// A daemon that is dead, or that accepts connections and answers nothing, leaves the rest.
func TestAnArchiveWithoutADaemonSaysWhatIsMissing(t *testing.T) {
	p := newPlace(t)
	files := p.collect(t)
	if !strings.Contains(files["README.txt"], "daemon not reachable") || files["host/machine.txt"] == "" ||
		!strings.Contains(files["doctor.json"], `"daemon"`) {
		t.Errorf("%s", files["README.txt"])
	}
	frozen, err := net.Listen("unix", filepath.Join(p.run, reach.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = frozen.Close() }()
	if err := support.WriteDaemon(support.Daemon{RunDir: p.run, Socket: filepath.Join(p.run, reach.SocketName),
		Node: "edge-1"}); err != nil {
		t.Fatal(err)
	}
	files = p.collect(t)
	if !strings.Contains(files["README.txt"], "runs and does not answer within 3s") ||
		!strings.Contains(files["host/daemon-threads.txt"], "thread ") {
		t.Errorf("%s", files["README.txt"])
	}
}

func TestTheFileIsWholeAndNeverReplacedUnasked(t *testing.T) {
	p := newPlace(t)
	out := filepath.Join(p.state, "a.tar.gz")
	run := func(args ...string) clitest.Said {
		return clitest.Run(t, program, nil, "", append([]string{"support", "--run-dir", p.run, "-o", out}, args...)...)
	}
	if said := run(); said.Code != 0 || said.Out != "" || !strings.Contains(said.Err, "left out") {
		t.Fatalf("%+v", said)
	}
	before, err := os.ReadFile(out)
	if info, _ := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	unpacked(t, before)
	if said := run(); said.Code != 5 || !strings.Contains(said.Err, "exists: use --force") {
		t.Errorf("%+v", said)
	}
	if now, _ := os.ReadFile(out); !bytes.Equal(now, before) {
		t.Error("the file was replaced")
	}
	if said := run("--force", "--no-logs"); said.Code != 0 {
		t.Errorf("%+v", said)
	}
	now, _ := os.ReadFile(out)
	if !strings.Contains(unpacked(t, now)["README.txt"], "--no-logs") {
		t.Error("the file was not replaced")
	}
	for want, args := range map[string][]string{"more than 0s": {"--since", "-1h"}, "at most": {"--since", "99999h"}} {
		if said := run(args...); said.Code != 2 || !strings.Contains(said.Err, want) {
			t.Errorf("%q: %+v", args, said)
		}
	}
	failed := errors.New("no")
	lost := filepath.Join(p.state, "b.tar.gz")
	if err := WriteArchive(lost, false, func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return failed
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.state, "*b.tar.gz*")); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
	if left, _ := filepath.Glob(filepath.Join(p.state, ".*b.tar.gz*")); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
	if err := WriteArchive(lost, false, func(io.Writer) error { // another one creates it meanwhile
		return os.WriteFile(lost, []byte("theirs"), 0o600)
	}); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Error(err)
	}
	if text, _ := os.ReadFile(lost); string(text) != "theirs" {
		t.Errorf("%s", text)
	}
}
