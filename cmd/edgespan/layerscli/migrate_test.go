package layerscli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/config/layers/migrate"
)

const oldNetwork = `{"radioParamsBase": {"wsecParams": {"eapolParams": {"radius_server_port": 1813}}}, "sysParams": {}}`

func contentOf(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func putFile(t testing.TB, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Seed, "Breaking Changes": migration modifies data files as needed, without the user.
func TestSeed_MigrateModifiesDataFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	putFile(t, "network.json", oldNetwork)
	nodes := `{"a.b": {"envParams": {"OPENR_IFACE_PREFIXES": "terra"}}, "c": {"envParams": {"OPENR_IFACE_PREFIXES": ` +
		`"nic", "OPENR_IFACE_REGEX_INCLUDE": "x.*"}}}`
	putFile(t, "nodes.json", nodes)
	putFile(t, "auto.json", `{"a.b":{}}`)
	want := clitest.Said{Code: 0, Out: `network.json: RELEASE_M78: radioParamsBase.wsecParams.eapolParams -> eapolParams
nodes.json: "a.b": RELEASE_M79: envParams.OPENR_IFACE_PREFIXES -> envParams.OPENR_IFACE_REGEX_INCLUDE
nodes.json: c: RELEASE_M79: envParams.OPENR_IFACE_PREFIXES is gone: envParams.OPENR_IFACE_REGEX_INCLUDE is set ` +
		`already and stays
`, Err: ""}
	args := []string{"layers", "migrate", "--auto", "auto.json", "--network", "network.json", "--node", "nodes.json"}
	dry := cli(t, nil, "", append(args, "--dry-run")...)
	if dry != (clitest.Said{Code: 0, Out: want.Out, Err: "dry run: nothing written\n"}) {
		t.Errorf("dry: %+v", dry)
	}
	if contentOf(t, "network.json") != oldNetwork || contentOf(t, "nodes.json") != nodes {
		t.Error("a dry run wrote")
	}
	if got := cli(t, nil, "", args...); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	after := `{
  "eapolParams": {
    "radius_server_port": 1813
  },
  "sysParams": {}
}
`
	if got := contentOf(t, "network.json"); got != after {
		t.Errorf("network.json is %s", got)
	}
	if contentOf(t, "network.json.bak") != oldNetwork || contentOf(t, "nodes.json.bak") != nodes {
		t.Error("the backup is not what was there")
	}
	if contentOf(t, "auto.json") != `{"a.b":{}}` {
		t.Error("a file with nothing to migrate was written")
	}
	if got := cli(t, nil, "", args...); got != (clitest.Said{Code: 0, Out: "", Err: "nothing to migrate\n"}) {
		t.Errorf("again: %+v", got)
	}
	if contentOf(t, "network.json.bak") != oldNetwork {
		t.Error("the second time made a backup")
	}
}

func TestMigrateAsJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	putFile(t, "n.json", `{"x": {"statsAgentParams": {"sources": {"openr": {"enabled": true, "zmq_url": "u"}}}}}`)
	got := cli(t, nil, "", "layers", "migrate", "--node", "n.json", "-o", "json", "--to", "RELEASE_M60")
	var changes []migrated
	if err := json.Unmarshal([]byte(got.Out), &changes); err != nil || got.Code != 0 || len(changes) != 2 {
		t.Fatalf("%+v: %v", got, err)
	}
	first := changes[0]
	if first.File != "n.json" || first.Node != "x" || first.Version != "RELEASE_M60" || first.To == nil ||
		*first.To != "statsAgentParams.collectors.openrStatsEnabled" || changes[1].To != nil {
		t.Errorf("%+v", changes)
	}
	if got := cli(t, nil, "", "layers", "migrate", "--node", "n.json", "-o", "json"); got.Out != "[]\n" {
		t.Errorf("nothing: %+v", got)
	}
}

// All files are written or none: one that is refused, or can't be written, leaves the
// others as they were; everything that is wrong is told.
func TestMigrateWritesAllFilesOrNone(t *testing.T) {
	t.Chdir(t.TempDir())
	putFile(t, "network.json", oldNetwork)
	putFile(t, "nodes.json", `{"n": {"envParams": {"OPENR_IFACE_PREFIXES": 5}}, "m": 1}`)
	putFile(t, "auto.json",
		`{"n": {"envParams": {"OPENR_IFACE_PREFIXES": 5}}, "m": {"envParams": {"OPENR_IFACE_PREFIXES": 6}}}`)
	got := cli(t, nil, "", "layers", "migrate", "--network", "network.json", "--node", "nodes.json", "--auto", "auto.json")
	if got.Code != 4 || got.Out != "" || strings.Count(got.Err, "\n") != 3 ||
		!strings.Contains(got.Err, "auto.json: m.envParams.OPENR_IFACE_PREFIXES: ") {
		t.Errorf("%+v", got)
	}
	if contentOf(t, "network.json") != oldNetwork {
		t.Error("network.json was written")
	}
	if err := os.Mkdir("sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../network.json", "sub/same.json"); err != nil {
		t.Fatal(err)
	}
	got = cli(t, nil, "", "layers", "migrate", "--network", "network.json", "--network", "sub/same.json")
	if got.Code == 0 || contentOf(t, "network.json") != oldNetwork {
		t.Errorf("one file twice: %+v", got)
	}
}

func TestMigrateUsage(t *testing.T) {
	dir := t.TempDir()
	file := putFile(t, filepath.Join(dir, "n.json"), oldNetwork)
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, 2},
		{[]string{"--network", "-"}, 2},
		{[]string{"--network", file, "--to", "x"}, 2},
		{[]string{"--network", file, "--from", "RELEASE_M3", "--to", "RELEASE_M2"}, 2},
		{[]string{"--network", file, "-o", "yaml"}, 2},
		{[]string{"--network", file, "extra"}, 2},
		{[]string{"--network", filepath.Join(dir, "none")}, 10},
		{[]string{"--network", file, "--to", "RELEASE_M77"}, 0},
		{[]string{"--network", file, "--from", "RELEASE_M78"}, 0},
	} {
		if got := cli(t, nil, "", append([]string{"layers", "migrate"}, c.args...)...); got.Code != c.code {
			t.Errorf("%v: %+v, want exit %d", c.args, got, c.code)
		}
	}
	if contentOf(t, file) != oldNetwork {
		t.Error("the file was written")
	}
	help := cli(t, nil, "", "layers", "migrate", "--help").Out
	for _, m := range migrate.All() {
		if !strings.Contains(help, m.Version+" (node): "+m.What) {
			t.Errorf("the help does not say what %s does", m.Version)
		}
	}
}
