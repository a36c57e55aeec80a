package layerscli

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
)

const realLayers = "../../../config/testdata/terragraph/base_versions"

// inFolder writes files into a folder that becomes the current one, with the real base
// versions as "base" in it.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	real, err := filepath.Abs(realLayers)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(dir, "base")); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// layersOf runs one command of layers; args are words.
func layersOf(t *testing.T, args string) clitest.Said {
	t.Helper()
	return cli(t, nil, "", append([]string{"layers"}, strings.Fields(args)...)...)
}

var sampleLayers = map[string]string{
	"net.json":   `{"sysParams":{"managedConfig":true}}`,
	"nodes.json": `{"pop":{"popParams":{"POP_IFACE":"nic2"}},"empty":{}}`,
	"auto.json":  `{"pop":{"envParams":{"X":"1"}}}`,
}

// The digests of the reference (§1.3), each of one layer more.
func TestMD5OfTheRealLayers(t *testing.T) {
	inFolder(t, sampleLayers)
	args := ""
	for _, c := range []struct{ more, md5 string }{
		{"", "99914b932bd37a50b983c5e7c90ae93b"},
		{" --base-dir base --sw-version RELEASE_M81", "53ade77c24fde5ab5d0e8ab8d3da41ac"},
		{" --fw-version 10.11.0.5", "94a4d113400b69e5053aad278dd00718"},
		{" --hw-board NXP_LS1048A_PUMA", "650aed045e5fa80ba144a1395ad66275"},
		{" --network net.json", "09e10f0900a66f5b3e6d13caf2667336"},
		{" --node nodes.json --node-name nobody", "09e10f0900a66f5b3e6d13caf2667336"}, // not in the file: no layer
		{" --node nodes.json --node-name empty", "09e10f0900a66f5b3e6d13caf2667336"},
		{" --node nodes.json --node-name pop", "c10047ec3efac862ad025c0a5649e5db"},
	} {
		args += c.more
		if got := layersOf(t, "md5"+args); got != (clitest.Said{Code: 0, Out: c.md5 + "\n", Err: ""}) {
			t.Errorf("md5%s: %+v, want %s", args, got, c.md5)
		}
		// What effective prints, without its final newline, has that digest.
		got := layersOf(t, "effective"+args)
		text, cut := strings.CutSuffix(got.Out, "\n")
		if sum := fmt.Sprintf("%x", md5.Sum([]byte(text))); got.Code != 0 || got.Err != "" || !cut || sum != c.md5 {
			t.Errorf("effective%s: exit %d, %s, digest %s, want %s", args, got.Code, got.Err, sum, c.md5)
		}
	}
}

// What the flags name is read and checked, also where a command could do without it.
func TestFilesThatLayersAreCheckedBy(t *testing.T) {
	files := map[string]string{
		"topology.json": `{"nodes":[{"name":"pop","site_name":"a","pop_node":true}],"links":[]}`,
		"metadata.json": `{"popParams":{"POP_IFACE":{"desc":"d","type":"STRING","action":"NO_ACTION"}}}`,
		"broken.json":   `{"a":1,"a":2}`,
	}
	for name, text := range sampleLayers {
		files[name] = text
	}
	inFolder(t, files)
	for _, command := range []string{"effective", "md5", "versions", "explain popParams.POP_IFACE"} {
		args := command + " --base-dir base --sw-version RELEASE_M81 --node nodes.json --node-name "
		for _, c := range []struct {
			more string
			code int
			err  string
		}{
			{"pop --topology topology.json --metadata metadata.json", 0, ""},
			{"empty --topology topology.json", 4, "empty: not in the topology: must be one of the nodes of topology.json\n"},
			{"pop --topology nowhere", 10, "open nowhere: no such file or directory\n"},
			{"pop --topology broken.json", 4, "broken.json: a: duplicate key (2 times)\n"},
			{"pop --metadata nowhere", 10, "open nowhere: no such file or directory\n"},
			{"pop --metadata broken.json", 4, "broken.json: a: duplicate key (2 times)\n"},
			{"pop --topology - --metadata -", 2, "-: given for 2 files: only one of them can be stdin\n"},
		} {
			got := layersOf(t, args+c.more)
			if got.Code != c.code || got.Err != c.err || (got.Out == "") != (c.code != 0) {
				t.Errorf("%s%s: %+v, want exit %d, %s", args, c.more, got, c.code, c.err)
			}
		}
	}
}

func TestEffectiveWithOrigins(t *testing.T) {
	inFolder(t, sampleLayers)
	args := "effective --base-dir base --sw-version RELEASE_M81 --fw-version 10.11.0 --hw-board NXP_LS1048A_PUMA " +
		"--auto auto.json --network net.json --node nodes.json --node-name pop"
	got := layersOf(t, args+" -o json")
	var answer struct {
		Config  map[string]any
		Origins map[string]string
	}
	if err := json.Unmarshal([]byte(got.Out), &answer); err != nil || got.Code != 0 || got.Err != "" {
		t.Fatalf("%v: %+v", err, got)
	}
	var plain map[string]any
	if err := json.Unmarshal([]byte(layersOf(t, args).Out), &plain); err != nil ||
		!reflect.DeepEqual(plain, answer.Config) {
		t.Errorf("%v: the config of -o json is another one", err)
	}
	for path, want := range map[string]string{
		"popParams.POP_IFACE": "node", "sysParams.managedConfig": "network", "envParams.X": "auto",
		"timingParams.PTP_DEVICE":           "hardware",
		"timingParams.PPS_TIMESTAMP_SOURCE": "base", "sysParams.dnsServers": "base", "popParams": "", "sysParams": "",
	} {
		if answer.Origins[path] != want {
			t.Errorf("%s is from %q, want %q", path, answer.Origins[path], want)
		}
	}
	seen := map[string]bool{}
	for _, layer := range answer.Origins {
		seen[layer] = true
	}
	if len(seen) != 6 {
		t.Errorf("layers %v", seen)
	}
	if got := layersOf(t, "effective --network net.json -o json"); got.Out != `{
  "config": {
    "sysParams": {
      "managedConfig": true
    }
  },
  "origins": {
    "sysParams.managedConfig": "network"
  }
}
` {
		t.Errorf("%s", got.Out)
	}
}

// A clash: exit 4, nothing on stdout, the path and both layers named.
func TestAClashOfLayersIsRefused(t *testing.T) {
	inFolder(t, map[string]string{
		"scalar.json": `{"envParams":5,"sysParams":{"dnsServers":[]}}`, "null.json": `{"n":{"popParams":null}}`,
		"object.json": `{"envParams":{"X":{}}}`,
		"below.json":  `{"n":{"envParams":{"X":"y"}}}`,
	})
	const base = " --base-dir base --sw-version RELEASE_M81"
	const tail = ": must be an object\n"
	for _, c := range []struct{ args, err string }{
		{base + " --network scalar.json",
			"envParams: invalid type int64 in the network layer over an object in the base layer" + tail +
				"sysParams.dnsServers: invalid type array in the network layer over an object in the base layer" + tail},
		{base + " --node null.json --node-name n",
			"popParams: invalid type null in the node layer over an object in the base layer" + tail},
		{base + " --auto null.json --node-name n",
			"popParams: invalid type null in the auto layer over an object in the base layer" + tail},
		{" --network object.json --node below.json --node-name n",
			"envParams.X: invalid type string in the node layer over an object in the network layer" + tail},
	} {
		for _, command := range []string{"effective", "effective -o json", "md5", "explain envParams"} {
			if got := layersOf(t, command+c.args); got != (clitest.Said{Code: 4, Out: "", Err: c.err}) {
				t.Errorf("%s%s: %+v, want %s", command, c.args, got, c.err)
			}
		}
	}
	// A scalar below an object is no clash, nor is either order of files that don't meet.
	if got := layersOf(t, "effective --auto below.json --node-name n --network object.json"); got.Code != 0 ||
		!strings.Contains(got.Out, `"X": {}`) {
		t.Errorf("%+v", got)
	}
}

// When no base matches, also when every known version is newer, the latest is used and one
// line on stderr says so; hardware: none when every version is newer, the latest for a
// version that does not parse; firmware: no fallback.
func TestTheLatestIsUsedAndSaid(t *testing.T) {
	inFolder(t, nil)
	for _, c := range []struct{ args, same, err string }{
		{"--sw-version RELEASE_M5", "--sw-version RELEASE_M81",
			`--sw-version: no match for "RELEASE_M5": using the latest: base RELEASE_M81` + "\n"},
		{"--sw-version asdf", "--sw-version RELEASE_M81",
			`--sw-version: no match for "asdf": using the latest: base RELEASE_M81` + "\n"},
		{"", "--sw-version RELEASE_M81", `--sw-version: no match for "": using the latest: base RELEASE_M81` + "\n"},
		{
			"--sw-version RELEASE_M5 --hw-board NXP_LS1048A_PUMA", "--sw-version RELEASE_M81",
			`--sw-version: no match for "RELEASE_M5": using the latest: base RELEASE_M81` + "\n",
		},
		{
			"--sw-version asdf --hw-board NXP_LS1048A_PUMA", "--sw-version RELEASE_M81 --hw-board NXP_LS1048A_PUMA",
			`--sw-version: no match for "asdf": using the latest: base RELEASE_M81, hardware NXP/RELEASE_M81` + "\n",
		},
		{"--sw-version RELEASE_M45 --hw-board NXP_LS1048A_PUMA", "--sw-version RELEASE_M44", ""},
		{"--sw-version RELEASE_M81 --fw-version 10.10.0.1", "--sw-version RELEASE_M81", ""},
		{"--sw-version RELEASE_M99", "--sw-version RELEASE_M81", ""},
		{"--sw-version RELEASE_M80-12-gabc", "--sw-version RELEASE_M80", ""},
		{"--sw-version RELEASE_M80 --hw-board other", "--sw-version RELEASE_M80",
			`--hw-board: "other" is in no hardware type: using no hardware layer` + "\n"},
	} {
		want := layersOf(t, "md5 --base-dir base "+c.same)
		if got := layersOf(t, "md5 --base-dir base "+c.args); got != (clitest.Said{Code: 0, Out: want.Out, Err: c.err}) ||
			want.Err != "" {
			t.Errorf("%s: %+v, want %s and %q", c.args, got, want.Out, c.err)
		}
	}
}

// A file that does not parse stops the operation, and all that is wrong is told at once.
func TestABrokenFileOfALayerStopsTheCommand(t *testing.T) {
	inFolder(t, map[string]string{
		"b/RELEASE_M1.json": `{"a":1,"a":2}`, "b/RELEASE_M2.json": `{"a":2}`, "b/fw_versions/1.0.0.json": ``,
		"b/hw_versions/T/RELEASE_M1.json": `[]`, "b/hw_versions/hw_types.json": `{"T":["x"]}`,
		"twice/hw_versions/hw_types.json": `{"T":["x"],"U":["x"]}`, "notypes/hw_versions/T/RELEASE_M1.json": `[]`,
		"notypes/RELEASE_M1.json": `{}`,
		"bare.json":               `{"sysParams":{},"x":5}`, "net.json": `{"n":9223372036854775808}`,
	})
	for _, c := range []struct {
		args string
		want clitest.Said
	}{
		{"--base-dir b --sw-version RELEASE_M1 --fw-version 1.0.0 --hw-board x --auto bare.json --node bare.json " +
			"--node-name n --network net.json", clitest.Said{
			Code: 4, Out: "",
			Err: "b/RELEASE_M1.json: a: duplicate key (2 times)\n" +
				"b/fw_versions/1.0.0.json: invalid JSON: line 1 column 1: it is empty\n" +
				"b/hw_versions/T/RELEASE_M1.json: invalid type array: must be one JSON object\n" +
				"bare.json: x: invalid type int64: must be {node: {…}}\n" +
				"net.json: n: invalid value 9223372036854775808: must be an integer of 64 bits\n" +
				"bare.json: x: invalid type int64: must be {node: {…}}\n",
		}},
		// the others are not read
		{"--base-dir b --sw-version RELEASE_M2", clitest.Said{Code: 0, Out: "{\n  \"a\": 2\n}\n", Err: ""}},
		{"--base-dir twice",
			clitest.Said{Code: 4, Out: "",
				Err: `twice/hw_versions/hw_types.json: U.0: duplicate board id "x", also of type T: must be unique` +
					"\n"}},
		{"--base-dir notypes --sw-version RELEASE_M1", clitest.Said{Code: 0, Out: "{}\n", Err: ""}},
		{"--base-dir none", clitest.Said{Code: 10, Out: "", Err: "list layers: open none: no such file or directory\n"}},
		{"--network none.json", clitest.Said{Code: 10, Out: "", Err: "open none.json: no such file or directory\n"}},
		{"--node none.json --node-name n",
			clitest.Said{Code: 10, Out: "", Err: "open none.json: no such file or directory\n"}},
		{"--node bare.json", clitest.Said{Code: 2,
			Out: "", Err: "--node: requires --node-name, the name of a node in bare.json\n"}},
		{"--auto bare.json", clitest.Said{Code: 2,
			Out: "", Err: "--auto: requires --node-name, the name of a node in bare.json\n"}},
		{"--network - --node - --node-name n",
			clitest.Said{Code: 2, Out: "", Err: "-: given for 2 files: only one of them can be stdin\n"}},
		{"-o yaml", clitest.Said{Code: 2, Out: "", Err: "-o: invalid value \"yaml\": must be canonical or json\n"}},
		{"x", clitest.Said{Code: 2, Out: "",
			Err: "effective: got 1 argument: takes none: see 'edgespan layers effective --help'\n"}},
	} {
		if got := layersOf(t, "effective "+c.args); got != c.want {
			t.Errorf("effective %s: %+v\nwant %+v", c.args, got, c.want)
		}
	}
	if got := cli(t, nil, `{"a":1.0}`, "layers", "effective", "--network",
		"-"); got != (clitest.Said{Code: 0, Out: "{\n  \"a\": 1\n}\n", Err: ""}) {
		t.Errorf("from stdin: %+v", got)
	}
}

func TestVersionsOfLayers(t *testing.T) {
	inFolder(t, map[string]string{
		"b/RELEASE_M11.json": ``, "b/RELEASE_M2_1.json": ``, "b/RELEASE_M2.json": ``, "b/fw_versions/10.9.0.json": ``,
		"b/fw_versions/10.11.0.json":      ``,
		"b/hw_versions/A/RELEASE_M2.json": ``, "b/hw_versions/hw_types.json": `{"A":["a"],"B":["b"]}`, "e/x": "",
	})
	var got versionsAnswer
	all := layersOf(t, "versions --base-dir base --sw-version RELEASE_M47_2 --fw-version 10.9.0.4 --hw-board "+
		"NXP_LS1088A_RDB -o json")
	if err := json.Unmarshal([]byte(all.Out), &got); err != nil || all.Err != "" || len(got.Base) != 20 ||
		len(got.Hardware["NXP"]) != 36 ||
		got.Match != (versionsMatch{"RELEASE_M46", "10.9.0", "RELEASE_M47"}) {
		t.Errorf("%v: %+v", err, all)
	}
	for _, c := range []struct {
		args string
		want clitest.Said
	}{
		{"--base-dir b --sw-version RELEASE_M9 --hw-board a -o json", clitest.Said{Code: 0, Out: `{
  "base": [
    "RELEASE_M2",
    "RELEASE_M2_1",
    "RELEASE_M11"
  ],
  "firmware": [
    "10.9.0",
    "10.11.0"
  ],
  "hardware": {
    "A": [
      "RELEASE_M2"
    ],
    "B": []
  },
  "match": {
    "base": "RELEASE_M2_1",
    "firmware": "",
    "hardware": "RELEASE_M2"
  }
}
`, Err: ""}},
		{"--base-dir e --sw-version RELEASE_M9 -o json", clitest.Said{Code: 0, Out: `{
  "base": [],
  "firmware": [],
  "hardware": {},
  "match": {
    "base": "",
    "firmware": "",
    "hardware": ""
  }
}
`, Err: ""}},
		{"--base-dir e", clitest.Said{Code: 0, Out: "", Err: "no layers\n"}},
		{"--base-dir b --sw-version RELEASE_M2 --fw-version 10.11.0.1 --hw-board a -o name", clitest.Said{
			Code: 0, Out: "base/RELEASE_M2\nbase/RELEASE_M2_1\nbase/RELEASE_M11\nfirmware/10.9.0\nfirmware/10.11.0\nhardware/A/RELEASE_M2\n", Err: "",
		}},
		{"--base-dir b --sw-version RELEASE_M1 --hw-board a", clitest.Said{Code: 0, Out: `LAYER     TYPE  VERSION       MATCH
base      -     RELEASE_M2    -
base      -     RELEASE_M2_1  -
base      -     RELEASE_M11   match
firmware  -     10.9.0        -
firmware  -     10.11.0       -
hardware  A     RELEASE_M2    -
`, Err: `--sw-version: no match for "RELEASE_M1": using the latest: base RELEASE_M11` + "\n"}},
		{"-o xml", clitest.Said{Code: 2, Out: "",
			Err: "-o: invalid value \"xml\": must be table, wide, json, yaml or name\n"}},
		{"--base-dir none", clitest.Said{Code: 10, Out: "", Err: "list layers: open none: no such file or directory\n"}},
	} {
		if got := layersOf(t, "versions "+c.args); got != c.want {
			t.Errorf("versions %s: %+v\nwant %+v", c.args, got, c.want)
		}
	}
}

func TestExplainOfAKey(t *testing.T) {
	inFolder(t, map[string]string{"net.json": `{"s":7,"a":{"b":{},"x.y":"\u0007"}}`,
		"nodes.json": `{"n":{"s":{"t":[1,{"u":null}]},"a":{"x.y":"z"}}}`})
	const args = " --network net.json --node nodes.json --node-name n"
	for _, c := range []struct {
		keys string
		want clitest.Said
	}{
		{"s a", clitest.Said{Code: 0,
			Out: "s.t = [1,{\"u\": null}] from node\n  over 7 from network at s\na.b = {} from network\na.\"x.y\" = \"z\" " +
				"from node\n  over \"\\u0007\" from network\n", Err: ""}},
		{`a."x.y" -o json`, clitest.Said{Code: 0, Out: `[
  {
    "key": "a.\"x.y\"",
    "value": "z",
    "origin": "node",
    "shadowed": [
      {
        "layer": "network",
        "key": "a.\"x.y\"",
        "value": "\u0007"
      }
    ]
  }
]
`, Err: ""}},
		{"a.b -o json", clitest.Said{Code: 0,
			Out: "[\n  {\n    \"key\": \"a.b\",\n    \"value\": {},\n    \"origin\": \"network\",\n    \"shadowed\": []\n  " +
				"}\n]\n", Err: ""}},
		{"a s.x q", clitest.Said{Code: 10, Out: "", Err: "s.x: not set in any layer\nq: not set in any layer\n"}},
		{"a..b", clitest.Said{Code: 2, Out: "",
			Err: "empty segment in a path: keys are joined by '.', one with a '.' in it is quoted in \"\"\n"}},
		{"", clitest.Said{Code: 2, Out: "",
			Err: "explain: got no arguments: must be one KEY or more: see 'edgespan layers explain --help'\n"}},
	} {
		if got := layersOf(t, "explain "+c.keys+args); got != c.want {
			t.Errorf("explain %s: %+v\nwant %+v", c.keys, got, c.want)
		}
	}
}

func TestExplainSaysWhatMetadataSays(t *testing.T) {
	inFolder(t, map[string]string{
		"m.json": `{"a":{"b":{"desc":"of b","type":"OBJECT","action":"RESTART_MINION","objVal":{"properties":{
			"c":{"desc":"of c","type":"STRING","action":"RESTART_KEA"},"m":{"desc":"of ` +
			`m","type":"MAP","mapVal":{"type":"INTEGER"}}}}},
			"n":{"desc":"of n","type":"INTEGER","action":"NO_ACTION"}}}`,
		"net.json": `{"a":{"b":{"c":"x","m":{"k":1}},"n":1,"u":2}}`, "bad.json": `{"a":5}`,
	})
	const args = " --network net.json --metadata m.json"
	for _, c := range []struct {
		args string
		want clitest.Said
	}{
		{"a" + args, clitest.Said{Code: 0, Out: `a.b.c = "x" from network
  means: of c
  a change asks for RESTART_KEA RESTART_MINION
a.b.m.k = 1 from network
  means: of m
  a change asks for RESTART_MINION
a.n = 1 from network
  means: of n
  a change asks for no action
a.u = 2 from network
  unknown to the metadata
`, Err: ""}},
		{"a.b.c -o json" + args, clitest.Said{Code: 0, Out: `[
  {
    "key": "a.b.c",
    "value": "x",
    "origin": "network",
    "shadowed": [],
    "description": "of c",
    "actions": [
      "RESTART_KEA",
      "RESTART_MINION"
    ]
  }
]
`, Err: ""}},
		{"a --network net.json --metadata none.json",
			clitest.Said{Code: 10, Out: "", Err: "open none.json: no such file or directory\n"}},
	} {
		if got := layersOf(t, "explain "+c.args); got != c.want {
			t.Errorf("explain %s: %+v\nwant %+v", c.args, got, c.want)
		}
	}
	if got := layersOf(t, "explain a --network net.json --metadata bad.json"); got.Code != 4 || got.Out != "" ||
		!strings.HasPrefix(got.Err, "bad.json: a: ") {
		t.Errorf("metadata that is none: %+v", got)
	}
}
