package layerscli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config"
)

// layerFiles is a folder with a network and a node file to write, and the flags that name
// them beside the real base and metadata.
func layerFiles(t *testing.T, network, nodes string) (dir string, flags []string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"network.json": network, "nodes.json": nodes} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, []string{
		"--base-dir", realLayers, "--sw-version", "RELEASE_M81", "--metadata", realMetadata,
		"--network", filepath.Join(dir, "network.json"), "--node", filepath.Join(dir, "nodes.json"),
	}
}

// flat is a file without its blanks, "" for one that there is not.
func flat(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(text)), "")
}

func write(t *testing.T, flags []string, stdin string, words ...string) clitest.Said {
	t.Helper()
	return cli(t, nil, stdin, append(append([]string{"layers", words[0]}, flags...), words[1:]...)...)
}

const (
	networkBefore = `{"sysParams": {"managedConfig": false}, "popParams": {"POP_IFACE": "nic1"}}`
	nodesBefore   = `{"n1": {"popParams": {"POP_IFACE": "nic2"}}, "n2": {}}`
)

// TestWritesOfLayers tells for each write what the file holds after it and what is printed.
func TestWritesOfLayers(t *testing.T) {
	for _, tt := range []struct {
		name, stdin string
		words       []string
		file, want  string // the file after it, without blanks
		out         string
	}{
		{
			"modify merges", "",
			[]string{"modify", "--layer", "network", "sysParams.managedConfig=true"},
			"network.json", `{"popParams":{"POP_IFACE":"nic1"},"sysParams":{"managedConfig":true}}`,
			"n1, n2:\n  sysParams.managedConfig: false -> true (origin network)\n",
		},
		{
			"set replaces", `{"sysParams": {"managedConfig": true}}`,
			[]string{"set", "--layer", "network", "-"},
			"network.json", `{"sysParams":{"managedConfig":true}}`,
			"n1:\n  sysParams.managedConfig: false -> true (origin network)\n" +
				"n2:\n  popParams.POP_IFACE: \"nic1\" -> \"\" (origin base)\n  sysParams.managedConfig: false -> true (origin " +
				"network)\n" +
				"  action REDO_POP_CONFIG: popParams.POP_IFACE\n",
		},
		{
			"set of keys replaces too", "",
			[]string{"set", "--layer", "node", "--node-name", "n1", "sysParams.managedConfig=true"},
			"nodes.json", `{"n1":{"sysParams":{"managedConfig":true}},"n2":{}}`,
			"n1:\n  popParams.POP_IFACE: \"nic2\" -> \"nic1\" (origin network)\n  sysParams.managedConfig: false -> true " +
				"(origin node)\n" +
				"  action REDO_POP_CONFIG: popParams.POP_IFACE\n",
		},
		{
			"unset removes", "",
			[]string{"unset", "--layer", "node", "--node-name", "n1", "popParams.POP_IFACE"},
			"nodes.json", `{"n2":{}}`,
			"n1:\n  popParams.POP_IFACE: \"nic2\" -> \"nic1\" (origin network)\n  action REDO_POP_CONFIG: popParams.POP_IFACE\n",
		},
		{
			"many nodes at once", `{"n1": {}, "n3": {"popParams": {"POP_IFACE": "x"}}}`,
			[]string{"set", "--layer", "node", "-"},
			"nodes.json", `{"n1":{},"n2":{},"n3":{"popParams":{"POP_IFACE":"x"}}}`,
			"n1:\n  popParams.POP_IFACE: \"nic2\" -> \"nic1\" (origin network)\n  action REDO_POP_CONFIG: popParams.POP_IFACE\n" +
				"n3:\n  popParams.POP_IFACE: \"nic1\" -> \"x\" (origin node)\n  action REDO_POP_CONFIG: popParams.POP_IFACE\n",
		},
		{
			"a file is bare with --node-name", `{"popParams": {"POP_IFACE": "x"}}`,
			[]string{"modify", "--layer", "node", "--node-name", "n2", "-"},
			"nodes.json", `{"n1":{"popParams":{"POP_IFACE":"nic2"}},"n2":{"popParams":{"POP_IFACE":"x"}}}`,
			"n2:\n  popParams.POP_IFACE: \"nic1\" -> \"x\" (origin node)\n  action REDO_POP_CONFIG: popParams.POP_IFACE\n",
		},
		{"nothing new", "", []string{"modify", "--layer", "network", "sysParams.managedConfig=false"}, "network.json",
			strings.ReplaceAll(networkBefore, " ", ""), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, flags := layerFiles(t, networkBefore, nodesBefore)
			dry := write(t, flags, tt.stdin, append(tt.words, "--dry-run")...)
			if flat(t, filepath.Join(dir, "network.json"))+
				flat(t, filepath.Join(dir, "nodes.json")) != strings.ReplaceAll(networkBefore+nodesBefore, " ", "") {
				t.Error("--dry-run has written")
			}
			got := write(t, flags, tt.stdin, tt.words...)
			if got.Code != term.ExitOK || got.Out != tt.out || dry.Out != got.Out || dry.Code != got.Code {
				t.Errorf("exit %d:\n%s\n%s\ndry:\n%s", got.Code, got.Err, got.Out, dry.Out)
			}
			if held := flat(t, filepath.Join(dir, tt.file)); held != tt.want {
				t.Errorf("%s holds %s", tt.file, held)
			}
			if kept := flat(t, filepath.Join(dir, tt.file+".bak")); (kept == "") != (tt.out == "") {
				t.Errorf("the backup is %s", kept)
			}
		})
	}
}

// TestARefusedWriteLeavesTheFileAsItIs, byte for byte, and says why in the seed's order.
func TestARefusedWriteLeavesTheFileAsItIs(t *testing.T) {
	for _, tt := range []struct {
		name, stdin string
		words       []string
		code        int
		want        string // the lines of stderr, each to its beginning
	}{
		{"all faults", "", []string{"modify", "--layer", "network", "sysParams.managedConfig=yes", "envParams=5"},
			term.ExitRejected, "n1, n2: envParams: invalid type int64 in the network layer over an object in the base " +
				"layer\nn1, n2: sysParams.managedConfig: invalid type string: must be true or false (type, network layer)"},
		{"read-only", "", []string{"modify", "--layer", "node", "--node-name", "n1", "topologyInfo.nodeName=x"},
			term.ExitRejected, "n1: topologyInfo.nodeName: is read-only"},
		{"deprecated", "", []string{"modify", "--layer", "network", "envParams.FW_IF2IF=1"}, term.ExitRejected,
			"envParams.FW_IF2IF: is deprecated"},
		{"topology", "", []string{"modify", "--layer", "node", "--topology", topologyFile + "1dn_1dn.conf",
			"node-1.sysParams.managedConfig=true", "n1.sysParams.managedConfig=true"}, term.ExitRejected,
			"n1: not in the topology"},
		{"the order", "", []string{"modify", "--layer", "node", "--topology", topologyFile + "1dn_1dn.conf",
			"n1.envParams.FW_IF2IF=1", "n1.topologyInfo.nodeName=x", "n1.sysParams=1"}, term.ExitRejected,
			"n1: topologyInfo.nodeName: is read-only\nn1: envParams.FW_IF2IF: is deprecated\nn1: not in the topology\nn1: " +
				"sysParams: invalid type int64 in the node layer over an object in the network layer"},
		{"a node that is no object", `{"n1": 5}`, []string{"set", "--layer", "node", "-"}, term.ExitRejected,
			"n1: invalid type int64"},
		{"null over an object", `{"envParams": null}`, []string{"set", "--layer", "network", "-"}, term.ExitRejected,
			"n1, n2: envParams: invalid type null in the network layer over an object in the base layer"},
		{"nodes that are none", `[]`, []string{"set", "--layer", "node", "-"}, term.ExitRejected,
			"-: invalid type array"},
		{"nodes that are a number", `5`, []string{"set", "--layer", "node", "-"}, term.ExitRejected,
			"-: invalid type number"},
		{"a document that is none", `[]`, []string{"set", "--layer", "network", "-"}, term.ExitRejected,
			"-: invalid type array"},
		{"a YAML document that is none", `5`, []string{"set", "--layer", "network", "-"}, term.ExitRejected,
			"-: invalid type number"},
		{"a key twice", `{"sysParams": 1, "sysParams": 2}`, []string{"set", "--layer", "network", "-"}, term.ExitRejected,
			"-: sysParams: duplicate key (2 times)"},
		{"a huge number", "", []string{"set", "--layer", "network", "zz.y=99999999999999999999"}, term.ExitRejected,
			"zz.y: invalid value 99999999999999999999: must be an integer of 64 bits"},
		{"no such key", "", []string{"unset", "--layer", "network", "sysParams.managedConfig", "sysParams.other"},
			term.ExitRejected, "sysParams.other: not in the network layer"},
		{"no layer", "", []string{"set", "a=1"}, term.ExitUsage, `--layer: invalid value "": must be network or node`},
		{"another layer", "", []string{"set", "--layer", "auto", "a=1"}, term.ExitUsage,
			`--layer: invalid value "auto": must be network or node`},
		{"no argument", "", []string{"set", "--layer", "network"}, term.ExitUsage, "set: got no arguments"},
		{"a file and more", "", []string{"set", "--layer", "network", "f.json", "g.json"}, term.ExitUsage,
			`FILE: "f.json" and 1 more argument`},
		{"a place twice", "", []string{"set", "--layer", "network", "a.b=1", "a=2"}, term.ExitUsage,
			"a: overlaps with a: give each key once"},
		{"a place within another", "", []string{"set", "--layer", "network", "a=1", "a.b=2"}, term.ExitUsage,
			"a.b: overlaps with a: give each key once"},
		{"no key", "", []string{"set", "--layer", "network", "=1"}, term.ExitUsage, "KEY: empty segment in a path"},
		{"a form that there is not", "", []string{"set", "--layer", "network", "-o", "yaml", "a=1"}, term.ExitUsage,
			"-o: invalid value \"yaml\": must be text or json"},
		{"stdin twice", "{}", []string{"set", "--layer", "network", "--auto", "-", "-"}, term.ExitUsage,
			"-: given for 2 files"},
		{"no such file", "", []string{"set", "--layer", "network", "nowhere.json"}, term.ExitNotFound, "open nowhere.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, flags := layerFiles(t, networkBefore, nodesBefore)
			got := write(t, flags, tt.stdin, tt.words...)
			if got.Code != tt.code || got.Out != "" {
				t.Errorf("exit %d, on stdout %q", got.Code, got.Out)
			}
			lines, want := strings.Split(strings.TrimSuffix(got.Err, "\n"), "\n"), strings.Split(tt.want, "\n")
			ok := len(lines) == len(want)
			for i := range min(len(lines), len(want)) {
				ok = ok && strings.HasPrefix(lines[i], want[i])
			}
			if !ok {
				t.Errorf("got:\n%s\nwanted:\n%s", got.Err, tt.want)
			}
			for name, was := range map[string]string{"network.json": networkBefore, "nodes.json": nodesBefore} {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != was {
					t.Errorf("%s: %v: %s", name, err, text)
				}
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 2 {
				t.Errorf("there are files now: %v", entries)
			}
		})
	}
}

// TestANetworkWriteIsCheckedOnEveryNodeThatIsNamed, in whatever file.
func TestANetworkWriteIsCheckedOnEveryNodeThatIsNamed(t *testing.T) {
	dir, flags := layerFiles(t, `{}`, `{"n1": {}}`)
	auto := filepath.Join(dir, "auto.json")
	if err := os.WriteFile(auto, []byte(`{"n1": {"x": {"y": 1}}, "n2": {"x": 1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	words := []string{"modify", "--layer", "network", "--auto", auto, "--node-name", "n3", "--topology", topologyFile +
		"1dn_1dn.conf", "--dry-run"}
	got := write(t, flags, "", append(words, "sysParams.managedConfig=true")...)
	if got.Code != term.ExitOK || !strings.HasPrefix(got.Out, "n1, n2, n3, node-1, node-2:\n") {
		t.Errorf("exit %d: %s%s", got.Code, got.Err, got.Out)
	}
	got = write(t, flags, "", append(words, "x=2")...)
	if got.Code != term.ExitRejected || !strings.HasPrefix(got.Err,
		"n1: x: invalid type int64 in the network layer over an object in the auto layer") {
		t.Errorf("exit %d: %s%s", got.Code, got.Err, got.Out)
	}
}

// TestOnlyTheFileToWriteMayBeMissing: a name with a typing error must not leave checks out.
func TestOnlyTheFileToWriteMayBeMissing(t *testing.T) {
	dir, _ := layerFiles(t, `{}`, `{}`)
	got := cli(t, nil, "", "layers", "set", "--layer", "network", "--network", filepath.Join(dir, "network.json"),
		"--node", filepath.Join(dir, "typo.json"), "a=1")
	if got.Code != term.ExitNotFound || flat(t, filepath.Join(dir, "network.json")) != "{}" {
		t.Errorf("exit %d: %s", got.Code, got.Err)
	}
	got = cli(t, nil, "", "layers", "set", "--layer", "network", "a=1")
	if got.Code != term.ExitUsage || !strings.HasPrefix(got.Err, "--network: required") {
		t.Errorf("exit %d: %s", got.Code, got.Err)
	}
	got = cli(t, nil, "", "layers", "set", "--layer", "node", "--node", "-", "a=1")
	if got.Code != term.ExitUsage || !strings.HasPrefix(got.Err, "--node: is stdin") {
		t.Errorf("exit %d: %s", got.Code, got.Err)
	}
}

// TestEveryPathCanBeAssigned: KEY is cut off where config.FormatPath ends.
func TestEveryPathCanBeAssigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "path")
		text := rapid.String().Draw(t, "value")
		key, value, found := CutAssignment(config.FormatPath(path) + "=" + text)
		got, err := config.ParsePath(key)
		if !found || err != nil || value != text || !slices.Equal(got, path) {
			t.Fatalf("%q %q: %v, %v", key, value, got, err)
		}
	})
}

// TestAFlagIsAString whatever its type.
func TestAFlagIsAString(t *testing.T) {
	dir := t.TempDir()
	described, file := filepath.Join(dir, "metadata.json"), filepath.Join(dir, "controller.json")
	if err := os.WriteFile(described,
		[]byte(`{"flags": {"on": {"desc": "d", "action": "UPDATE_GFLAG", "type": "BOOLEAN"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := cli(t, nil, "", "layers", "set", "--layer", "network", "--network", file, "--metadata", described,
		"flags.on=true")
	if held := flat(t, file); got.Code != term.ExitOK || held != `{"flags":{"on":"true"}}` {
		t.Errorf("exit %d: %s: %s", got.Code, got.Err, held)
	}
}

// TestABrokenLayerFileStopsAWrite: what does not parse is never taken for an empty layer.
func TestABrokenLayerFileStopsAWrite(t *testing.T) {
	for _, tt := range []struct{ network, nodes, want string }{
		{`{`, `{}`, "network.json: invalid JSON"},
		{`{}`, `{"n1": 5}`, "nodes.json: n1: invalid type int64"},
	} {
		dir, flags := layerFiles(t, tt.network, tt.nodes)
		got := write(t, flags, "", "set", "--layer", "network", "sysParams.managedConfig=true")
		if got.Code != term.ExitRejected || !strings.Contains(got.Err, tt.want) ||
			flat(t, filepath.Join(dir, "network.json")) != tt.network {
			t.Errorf("exit %d: %s", got.Code, got.Err)
		}
	}
}

// TestTheTypeOfAValue: the metadata decides, else JSON, else text.
func TestTheTypeOfAValue(t *testing.T) {
	for assignment, want := range map[string]string{
		`popParams.POP_IFACE=1`:            `{"popParams":{"POP_IFACE":"1"}}`,
		`popParams.POP_IFACE="1"`:          `{"popParams":{"POP_IFACE":"1"}}`,
		`popParams.POP_IFACE="1`:           `{"popParams":{"POP_IFACE":"\"1"}}`,
		`popParams.POP_IFACE=`:             `{"popParams":{"POP_IFACE":""}}`,
		`popParams.POP_IFACE=a=b`:          `{"popParams":{"POP_IFACE":"a=b"}}`,
		`sysParams={"managedConfig":true}`: `{"sysParams":{"managedConfig":true}}`,
		`mine.x=1`:                         `{"mine":{"x":1}}`,
		`mine.x=1.5`:                       `{"mine":{"x":1.5}}`,
		`mine.x=word`:                      `{"mine":{"x":"word"}}`,
		`mine.x="1"`:                       `{"mine":{"x":"1"}}`,
		`mine.a"b=1`:                       `{"mine":{"a\"b":1}}`,
		`mine."a.b=c".d=null`:              `{"mine":{"a.b=c":{"d":null}}}`,
	} {
		dir, flags := layerFiles(t, `{}`, `{}`)
		got := write(t, flags, "", "set", "--layer", "network", assignment)
		if held := flat(t, filepath.Join(dir, "network.json")); got.Code != term.ExitOK || held != want {
			t.Errorf("%s: exit %d, %s: %s", assignment, got.Code, got.Err, held)
		}
	}
}

func TestAWriteAsJSON(t *testing.T) {
	dir, flags := layerFiles(t, networkBefore, nodesBefore)
	got := write(t, flags, "", "modify", "--layer", "network", "-o", "json", "popParams.POP_IFACE=x", "mine.y=1")
	var answer any
	if err := json.Unmarshal([]byte(got.Out), &answer); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(answer)
	file, _ := json.Marshal(filepath.Join(dir, "network.json"))
	want := `{"changed":true,"effects":[` +
		`{"actions":[],"nodes":["n1"],"values":[{"key":"mine.y","new":1,"origin":"network"}]},` +
		`{"actions":[{"action":"REDO_POP_CONFIG","keys":["popParams.POP_IFACE"]}],"nodes":["n2"],"values":[{"key":"mine.y","new":1,"origin":"network"},` +
		`{"key":"popParams.POP_IFACE","new":"x","old":"nic1","origin":"network"}]}],` +
		`"file":` + string(file) +
		`,"layer":"network","warnings":[{"key":"mine","nodes":["n1","n2"],"rule":"unknown","what":"unknown ` +
		`field"}],"written":true}`
	if string(text) != want {
		t.Errorf("%s\nwanted %s", text, want)
	}
	if !strings.Contains(got.Err,
		"warning: n1, n2: mine: unknown field: kept, but not validated (unknown, network layer)") {
		t.Error(got.Err)
	}
}

// TestOnlyWhatIsNamedIsUsed: a file of its own needs no base, metadata or topology.
func TestOnlyWhatIsNamedIsUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new.json")
	got := cli(t, nil, "", "layers", "set", "--layer", "network", "--network", file, "sysParams.managedConfig=1")
	if got.Code != term.ExitOK || flat(t, file) != `{"sysParams":{"managedConfig":1}}` ||
		got.Out != "a node without overrides:\n  sysParams.managedConfig: none -> 1 (origin network)\n" {
		t.Errorf("exit %d: %s%s", got.Code, got.Err, got.Out)
	}
	for _, line := range []string{file + ": not found", "--metadata: not given", file + ": written"} {
		if !strings.Contains(got.Err, line) {
			t.Errorf("%q is missing:\n%s", line, got.Err)
		}
	}
	got = cli(t, nil, "", "layers", "unset", "--layer", "network", "--network", file+"x", "a")
	if got.Code != term.ExitNotFound {
		t.Errorf("exit %d: %s", got.Code, got.Err)
	}
}

// TestWhatNoFileCouldHoldIsNotWritten: the file could not be read again.
func TestWhatNoFileCouldHoldIsNotWritten(t *testing.T) {
	for _, arg := range []string{"a.b=\xff", "a\xff.b=1", `a.b="` + "\xff\""} {
		dir, flags := layerFiles(t, networkBefore, nodesBefore)
		got := write(t, flags, "", "modify", "--layer", "network", arg)
		if got.Code == 0 || got.Out != "" || !strings.Contains(got.Err, "UTF-8") {
			t.Errorf("%q: %+v", arg, got)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "network.json")); err != nil || string(text) != networkBefore {
			t.Errorf("%q: the file has %q now, %v", arg, text, err)
		}
	}
}
