package layerscli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
)

const topologies = "../../../config/testdata/terragraph/topology_conf/"

// files makes a folder with some files.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLayersOptimizePrintsTheAutoLayer(t *testing.T) {
	got := cli(t, nil, "", "layers", "optimize", "polarity", "--topology", topologies+"topology_1dn_1dn.conf")
	want := clitest.Said{Code: 0, Out: `{
  "node-1": {
    "radioParamsOverride": {
      "02:08:02:00:01:00": {
        "fwParams": {
          "polarity": 2
        }
      }
    }
  },
  "node-2": {
    "radioParamsOverride": {
      "02:08:02:00:01:02": {
        "fwParams": {
          "polarity": 1
        }
      }
    }
  }
}
`, Err: "auto layer: polarity: 2 set, on 2 nodes\n"}
	if got != want {
		t.Errorf("got %+v", got)
	}
}

// What a user set stays until clearing is asked for; then it goes from the node's file, and
// both files are written with the old ones beside them.
func TestLayersOptimizeWritesBothFiles(t *testing.T) {
	const node = `{"node-1": {"radioParamsOverride": {"02:08:02:00:01:00": {"fwParams": {"polarity": 1}}}}}`
	dir := files(t, map[string]string{"node.json": node, "auto.json": `{"node-1": {"a": 1}}`})
	auto, user := filepath.Join(dir, "auto.json"), filepath.Join(dir, "node.json")
	args := []string{"layers", "optimize", "polarity", "--topology", topologies + "topology_1dn_1dn.conf", "--auto", auto,
		"--node", user, "--write"}

	if got := cli(t, nil, "", append(args, "--dry-run")...); got.Code != 0 || !strings.HasPrefix(got.Out, "{\n") ||
		readFile(t, auto) != `{"node-1": {"a": 1}}` {
		t.Errorf("dry run: %+v, file %s", got, readFile(t, auto))
	}
	if got := cli(t, nil, "", args...); got != (clitest.Said{Code: 0,
		Out: "", Err: "auto layer: polarity: 2 set, on 2 nodes\n"}) || readFile(t, user) != node {
		t.Errorf("respecting users: %+v, node file %s", got, readFile(t, user))
	}
	if text := readFile(t, auto); !strings.Contains(text, `"polarity": 1`) || !strings.Contains(text, `"a": 1`) {
		t.Errorf("auto file: %s", text)
	}
	if text := readFile(t, auto+".bak"); text != `{"node-1": {"a": 1}}` {
		t.Errorf("backup: %s", text)
	}
	want := clitest.Said{Code: 0, Out: "", Err: "node layer: polarity: 1 cleared, on 1 node\n"}
	if got := cli(t, nil, "", append(args, "--clear-user")...); got != want || readFile(t, user) != "{}\n" ||
		readFile(t, user+".bak") != node {
		t.Errorf("clearing: %+v, node file %s", got, readFile(t, user))
	}
	if got := cli(t, nil, "",
		append(args, "--clear-user")...); got != (clitest.Said{Code: 0, Out: "", Err: "no changes\n"}) {
		t.Errorf("again: %+v", got)
	}
}

// A node file that can't be written leaves the auto file as it was.
func TestLayersOptimizeWritesBothFilesOrNone(t *testing.T) {
	const auto, node = `{"node-1": {"a": 1}}`,
		`{"node-1": {"radioParamsOverride": {"02:08:02:00:01:00": {"fwParams": {"polarity": 1}}}}}`
	dir := files(t, map[string]string{"auto.json": auto, "node.json": node})
	a, n := filepath.Join(dir, "auto.json"), filepath.Join(dir, "node.json")
	if err := os.Mkdir(n+".bak", 0o700); err != nil {
		t.Fatal(err)
	}
	got := cli(t, nil, "", "layers", "optimize", "polarity", "--topology", topologies+"topology_1dn_1dn.conf", "--auto", a,
		"--node", n, "--clear-user", "--write")
	if got.Code != 1 || got.Out != "" || !strings.Contains(got.Err, "back up layer: ") {
		t.Errorf("%+v", got)
	}
	if readFile(t, a) != auto || readFile(t, n) != node {
		t.Errorf("auto file %s, node file %s", readFile(t, a), readFile(t, n))
	}
}

func TestLayersOptimizeAsJSON(t *testing.T) {
	got := cli(t, nil, `{"node-1": {"radioParamsOverride": {"02:08:02:00:01:00": {"fwParams": {"channel": 1}}}}}`,
		"layers", "optimize", "all",
		"--topology", topologies+"topology_1dn_2cn.conf", "--node", "-", "--clear-user", "--channels", "3", "-o", "json")
	var out struct {
		Auto, Node map[string]any
		Changes    []optimizedChange
		Notes      []string
	}
	if err := json.Unmarshal([]byte(got.Out), &out); err != nil || got.Code != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	first := optimizedChange{"auto", "node-1.linkParamsOverride.02:08:02:00:01:02.fwParams.controlSuperframe", nil, 255.0}
	last := optimizedChange{"node", "node-1.radioParamsOverride.02:08:02:00:01:00.fwParams.channel", 1.0, nil}
	if n := len(out.Changes); n != 19 || out.Changes[0] != first || out.Changes[n-1] != last || out.Notes == nil ||
		len(out.Node) != 0 || len(out.Auto) != 3 {
		t.Errorf("%+v", out)
	}
}

// An error names the conflict: the file, the values and the link.
func TestLayersOptimizeNamesConflicts(t *testing.T) {
	dir := files(t, map[string]string{
		"node.json": `{"node-1": {"radioParamsOverride": {"02-08-02-00-01-00": {"fwParams": {"polarity": 1}}}},
			"node-2": {"radioParamsBase": {"fwParams": {"polarity": 3}}}}`,
		"bad.json": `{"node-1": 5}`, "broken.json": `{`,
	})
	node, bad, broken := filepath.Join(dir, "node.json"), filepath.Join(dir, "bad.json"), filepath.Join(dir, "broken.json")
	with := func(args ...string) clitest.Said {
		return cli(t, nil, "",
			append([]string{"layers", "optimize", "polarity", "--topology", topologies + "topology_1dn_1dn.conf"}, args...)...)
	}
	for _, c := range []struct {
		got  clitest.Said
		want string
		code int
	}{
		{with("--node", node), node +
			": node-2.radioParamsBase.fwParams.polarity: invalid value 3, which can't be respected: links join it to " +
			"02:08:02:00:01:00, " +
			"where node.node-1.radioParamsOverride.02-08-02-00-01-00.fwParams.polarity is 1: a link has an odd and an even end\n", 4},
		{with("--auto", bad), bad + ": node-1: invalid type int64: must be an object\n", 4},
		{with("--auto", broken, "--node", bad), broken + ": ", 4},
		{with("--auto", filepath.Join(dir, "none")), "open " + filepath.Join(dir, "none"), 10},
		{with("--channels", "1,5"), "--channels: invalid value 5: must be 1 to 4\n", 2},
		{with("--write"), "--write: requires --auto with a file to write\n", 2},
		{with("--auto", "-", "--node", "-"), "-: given for more than one file: only one can be stdin\n", 2},
		{cli(t, nil, "", "layers", "optimize", "colour"),
			"optimization: invalid value \"colour\": must be polarity, channel, golay, superframe or all\n", 2},
		{cli(t, nil, "", "layers", "optimize", "all"), "--topology: required: a topology file\n", 2},
	} {
		if c.got.Code != c.code || c.got.Out != "" || !strings.HasPrefix(c.got.Err, c.want) {
			t.Errorf("exit %d, %q, want %d, %q", c.got.Code, c.got.Err, c.code, c.want)
		}
	}
}
