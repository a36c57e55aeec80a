package offline

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/confdir"
)

const seedData = "../../../config/testdata/terragraph"

// cfgDir is a folder as the original controller's /data/cfg.
func cfgDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, from := range map[string]string{
		"network_config_overrides.json": "network_config_overrides_sample.json", // with a value that is deprecated
		"e2e_topology.conf":             "topology_conf/topology_figure0.conf",
	} {
		text, err := os.ReadFile(filepath.Join(seedData, from))
		if err != nil {
			t.Fatal(err)
		}
		ctltest.Put(t, dir, name, string(text))
	}
	ctltest.Put(t, dir, "node_config_overrides.json", `{
		"node-9": {"sysParams": {}, "popParams": {"POP_IFACE": "nic1"}, "topologyInfo": {"nodeName": "node-9"}},
		"node-that-is-in-no-topology": {"envParams": {"CPE_INTERFACE": "nic0"}}}`)
	ctltest.Put(t, dir, "auto_node_config_overrides.json",
		`{"node-10": {"topologyInfo": {"nodeName": "node-10", "nodeType": 2}}}`)
	ctltest.Put(t, dir, "controller_config.json",
		`{"flags": {"v": "1", "listen": "127.0.0.1:0", "vendor_flag": "x"}, "topologyParams": {"enabledChannels": "2"}}`)
	ctltest.Put(t, dir, "aggregator_config.json", `{"flags": {"v": "2"}}`)
	return dir
}

// canonical are the seed's files of a folder in canonical form, by name.
func canonical(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".bak") {
			continue
		}
		o, err := confdir.ReadObject(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(config.AppendCanonical(nil, o))
	}
	return out
}

// store are the flags of an offline command on a folder, with the seed's metadata.
func storeFlags(dir string) []string {
	return []string{"--data-dir", dir, "--metadata", seedData + "/config_metadata.json", "--base-dir", seedData +
		"/base_versions"}
}

func TestSeed_FilesOfDataCfgAreReadAndWrittenUnchanged(t *testing.T) {
	from, data, to := cfgDir(t), t.TempDir(), filepath.Join(t.TempDir(), "new")
	want := canonical(t, from)

	code, out, said := program.Command(t,
		append([]string{"import", "--cfg-dir", from, "--dry-run"}, storeFlags(data)...)...)
	if code != term.ExitOK || !strings.HasPrefix(out, "dry run: ") {
		t.Fatalf("dry run: %d: %s%s", code, out, said)
	}
	if code, out, said := program.Command(t, append([]string{"export", "--cfg-dir", to},
		storeFlags(data)...)...); code != term.ExitOK || strings.Contains(out, "network_config") {
		t.Fatalf("after a dry run: %d: %s%s", code, out, said)
	}
	if code, out, said := program.Command(t, append([]string{"import", "--cfg-dir", from, "-m", "from the old one"},
		storeFlags(data)...)...); code != term.ExitOK || !strings.HasPrefix(out, "revision 1: ") {
		t.Fatalf("import: %d: %s%s", code, out, said)
	}
	code, out, said = program.Command(t, append([]string{"export", "--cfg-dir", to}, storeFlags(data)...)...)
	if code != term.ExitOK || strings.Count(out, "\n") != len(want) {
		t.Fatalf("export: %d: %s%s", code, out, said)
	}
	if got := canonical(t, to); !maps.Equal(got, want) {
		t.Errorf("the round trip changed\n%v\ninto\n%v", want, got)
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || string(got) != text+"\n" {
			t.Errorf("%s is not in canonical form: %v", name, err)
		}
	}
	code, out, _ = program.Command(t, append([]string{"import", "--cfg-dir", to, "-o", "json"}, storeFlags(data)...)...)
	var w fleetapi.Written
	if err := json.Unmarshal([]byte(out), &w); code != term.ExitOK || err != nil || w.Changed || w.Revision != 1 {
		t.Errorf("the same again: %d, %v: %s", code, err, out)
	}
}

func TestImportAndExportOverREST(t *testing.T) {
	from, to := cfgDir(t), t.TempDir()
	ctltest.Put(t, from, "controller_config.json", `{"flags": {"v": "1", "vendor_flag": "x"}}`) // nothing that restarts it
	ctltest.Put(t, from, "network_config_overrides.json", `{}`)
	if err := os.Remove(filepath.Join(from, "auto_node_config_overrides.json")); err != nil {
		t.Fatal(err) // a controller that runs writes the topology's facts there
	}
	want := canonical(t, from)
	c := program.Start(t, t.TempDir(), storeFlags("")[2:]...)
	reach := []string{"--controller", "https://" + c.API, "--token-file", filepath.Join(c.Dir, "admin.token"),
		"--ca-sha256", c.Pin()}
	if code, out, said := program.Command(t,
		append([]string{"import", "--cfg-dir", from}, reach...)...); code != term.ExitOK {
		t.Fatalf("import: %d: %s%s", code, out, said)
	}
	if code, out, said := program.Command(t,
		append([]string{"export", "--cfg-dir", to}, reach...)...); code != term.ExitOK {
		t.Fatalf("export: %d: %s%s", code, out, said)
	}
	got := canonical(t, to)
	delete(got, "auto_node_config_overrides.json")
	if !maps.Equal(got, want) {
		t.Errorf("the round trip changed\n%v\ninto\n%v", want, got)
	}
	code, out, said := program.Command(t, append([]string{"token", "add", "anna", "--role", "viewer"}, reach...)...)
	if code != term.ExitOK {
		t.Fatalf("token: %d: %s", code, said)
	}
	viewer := filepath.Join(t.TempDir(), "token")
	ctltest.Put(t, filepath.Dir(viewer), "token", out)
	reach[3] = viewer
	if code, _, said := program.Command(t,
		append([]string{"import", "--cfg-dir", from}, reach...)...); code != term.ExitPermission {
		t.Errorf("a viewer's import: %d: %s", code, said)
	}
	ctltest.Put(t, filepath.Dir(viewer), "token", "eso_wrong")
	if code, _, said := program.Command(t,
		append([]string{"export", "--cfg-dir", to}, reach...)...); code != term.ExitPermission {
		t.Errorf("an export by nobody: %d: %s", code, said)
	}
}

// TestAFaultyImportChangesNothing has a fault in each of three files.
func TestAFaultyImportChangesNothing(t *testing.T) {
	from, data := cfgDir(t), t.TempDir()
	if code, _, said := program.Command(t,
		append([]string{"import", "--cfg-dir", from}, storeFlags(data)...)...); code != term.ExitOK {
		t.Fatal(said)
	}
	before := t.TempDir()
	program.Command(t, append([]string{"export", "--cfg-dir", before}, storeFlags(data)...)...)

	ctltest.Put(t, from, "network_config_overrides.json", `{"sysParams": {"managedConfig": "maybe"}}`)
	ctltest.Put(t, from, "node_config_overrides.json", `{"node-9": 5}`)
	ctltest.Put(t, from, "controller_config.json", `{"flags": {"v": "much"}}`)
	code, _, said := program.Command(t, append([]string{"import", "--cfg-dir", from}, storeFlags(data)...)...)
	if code != term.ExitRejected {
		t.Fatalf("%d: %s", code, said)
	}
	for _, part := range []string{"managedConfig", "node-9", "v"} {
		if !slices.ContainsFunc(strings.Split(said, "\n"), func(l string) bool { return strings.Contains(l, part) }) {
			t.Errorf("no fault of %s in\n%s", part, said)
		}
	}
	ctltest.Put(t, from, "e2e_topology.conf", `{"nodes": `)
	ctltest.Put(t, from, "aggregator_config.json", `[]`)
	code, _, said = program.Command(t, append([]string{"import", "--cfg-dir", from}, storeFlags(data)...)...)
	if code != term.ExitRejected || !strings.Contains(said, "e2e_topology.conf") ||
		!strings.Contains(said, "aggregator_config.json") {
		t.Errorf("files that don't parse: %d: %s", code, said)
	}
	after := t.TempDir()
	program.Command(t, append([]string{"export", "--cfg-dir", after}, storeFlags(data)...)...)
	if !maps.Equal(canonical(t, before), canonical(t, after)) {
		t.Error("a refused import changed something")
	}
}

// TestAStartTakesTheFlagsOfItsConfig imports a config before the first start.
func TestAStartTakesTheFlagsOfItsConfig(t *testing.T) {
	from, data := cfgDir(t), t.TempDir()
	ctltest.Put(t, from, "controller_config.json", `{"flags": {"v": "1", "auth": "none"}}`)
	if code, _, said := program.Command(t,
		append([]string{"import", "--cfg-dir", from}, storeFlags(data)...)...); code != term.ExitOK {
		t.Fatal(said)
	}
	c := program.Start(t, data, storeFlags("")[2:]...)
	for _, part := range []string{`"auth":"token"`, `"flag":"auth","why":"cannot be set in the stored config`} {
		if !strings.Contains(c.Err.String(), part) {
			t.Errorf("no %s in\n%s", part, c.Err)
		}
	}
}
