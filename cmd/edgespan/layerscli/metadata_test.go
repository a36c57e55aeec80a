package layerscli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config"
)

const realMetadata = "../../../config/testdata/terragraph/config_metadata.json"

// metaFile writes a file of a test and answers with its name.
func metaFile(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// layersCommand runs a command of `layers`; folders of tests are left out of what it said.
func layersCommand(t *testing.T, args ...string) clitest.Said {
	t.Helper()
	s := cli(t, nil, "", append([]string{"layers"}, args...)...)
	for _, a := range args {
		if dir := filepath.Dir(a); dir != "." {
			s.Err = strings.ReplaceAll(s.Err, dir+string(filepath.Separator), "")
		}
	}
	return s
}

const (
	oneMetadata    = `{"a":{"x":{"desc":"d","action":"REBOOT","type":"INTEGER","intVal":{"allowedValues":[1]}}},"c":{"__copy_block__":"a.x","action":"RESTART_KEA"}}`
	vendorMetadata = `{"a":{"x":{"desc":"other","action":"REBOOT","type":"INTEGER"}},"v":{"desc":"d","action":"BREW","type":"STRING"}}`
)

func TestLayersMetadata(t *testing.T) {
	own, theirs := metaFile(t, "ours.json", oneMetadata), metaFile(t, "vendor.json", vendorMetadata)
	circle := metaFile(t, "circle.json",
		`{"one":{"__copy_block__":"two"},"two":{"p":{"__copy_block__":"three"}},"three":{"__copy_block__":"one"}}`)
	brew := metaFile(t, "brew.json", `{"v":{"desc":"d","action":"BREW","type":"STRING"},"w":5}`)
	warns := metaFile(t, "warns.json", `{"v":{"desc":"d","action":"SET_FW_PARAMS","type":"STRING"}}`)
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
		err  string
	}{
		{"expanded", []string{"--metadata", own}, 0,
			compacted(t, `{"a":{"x":{"action":"REBOOT","desc":"d","intVal":{"allowedValues":[1]},"type":"INTEGER"}},
			"c":{"action":"RESTART_KEA","desc":"d","intVal":{"allowedValues":[1]},"type":"INTEGER"}}`), ""},
		{
			"a vendor's after it",
			[]string{"--metadata", own, "--metadata", theirs},
			0, compacted(t, `{"a":{"x":{"action":"REBOOT","desc":"d","intVal":{"allowedValues":[1]},"type":"INTEGER"}},
			"c":{"action":"RESTART_KEA","desc":"d","intVal":{"allowedValues":[1]},"type":"INTEGER"},"v":{"action":"BREW","desc":"d","type":"STRING"}}`),
			"vendor.json: a.x: is described otherwise already: the first description is kept, and this one dropped\n",
		},
		{"a circle", []string{"--metadata", circle}, 4, "",
			"circle.json: one: its __copy_block__ goes round in a circle: two -> three -> one -> two: must be a source that " +
				"does not need the block itself\n"},
		{
			"a warning",
			[]string{"--metadata", warns},
			0, compacted(t, `{"v":{"action":"SET_FW_PARAMS","desc":"d","type":"STRING"}}`),
			"warns.json: v: its action SET_FW_PARAMS has no effect on an entry: must be on a property of an object\n",
		},
		{"none", nil, 2, "", "--metadata: required: at least one file\n"},
		{"no such file", []string{"--metadata", "/nonexistent/x.json"}, 10, "", "open x.json: no such file or directory\n"},
	} {
		if got := layersCommand(t,
			append([]string{"metadata"}, c.args...)...); got != (clitest.Said{Code: c.code, Out: c.out, Err: c.err}) {
			t.Errorf("%s: exit %d, %q\n%s", c.name, got.Code, got.Err, got.Out)
		}
	}
	// An action that is unknown in the first file is a fault, with all others of the file.
	got := layersCommand(t, "metadata", "--metadata", brew)
	lines := strings.Split(strings.TrimSuffix(got.Err, "\n"), "\n")
	if got.Code != 4 || got.Out != "" || len(lines) != 2 || !strings.HasPrefix(lines[0],
		`brew.json: v.action: invalid value "BREW": `) || !strings.HasPrefix(lines[1], "brew.json: w: invalid type int64: ") {
		t.Errorf("exit %d, %s%s", got.Code, got.Err, got.Out)
	}
}

// compacted is the canonical form of a text, and a line's end.
func compacted(t *testing.T, text string) string {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	return string(config.AppendCanonical(nil, o)) + "\n"
}

func TestLayersValidate(t *testing.T) {
	strict := metaFile(t, "strict.json", `{"strict":true,`+oneMetadata[1:])
	for _, c := range []struct {
		name, meta, in string
		code           int
		err            string
	}{
		{"a valid config", realMetadata, `{"sysParams":{"managedConfig":true}}`, 0, "-: valid\n"},
		{
			"all faults", realMetadata,
			`{"sysParams":5,"envParams":{"TIMEZONE":null},"bgpParams":{"keepalive":1.0,"neighbors":{"a.b":{"asn":1}}}}`, 4,
			`-: bgpParams.keepalive: invalid type double: must be an integer from 1 to 65535
-: bgpParams.neighbors."a.b".ipv6: required: must be a string
-: envParams.TIMEZONE: invalid type null: must be "Africa/Cairo", "America/Anchorage", "America/Caracas", ` +
				`"America/Chicago", "America/Denver", "America/Los_Angeles", "America/New_York", "America/Sao_Paulo", ` +
				`"Asia/Bangkok", "Asia/Dhaka", "Asia/Dubai" or 74 others
-: sysParams: invalid type int64: must be an object
`,
		},
		{
			"unknown keys, the shallowest only", realMetadata, `{"envParams":{"x":{"y":1}},"z":1}`, 0,
			"-: envParams.x: unknown field (warning): kept, but not validated\n-: z: unknown field (warning): kept, " +
				"but not validated\n-: valid\n",
		},
		{"unknown below strict", strict, `{"a":{"x":1,"y":{"z":1}}}`, 4, "-: a.y: unknown field: must be x\n"},
		{"read-only and deprecated at rest", realMetadata, `{"topologyInfo":{"nodeName":"n"},"envParams":{"FW_IF2IF":"1"}}`,
			0, "-: valid\n"},
		{"an entry made absent", "../../../config/layers/schema/node_metadata.json",
			`{"ports":{"lan":{"ifName":"eth1","$absent":true},"wan":{"ifName":"eth0","$absent":false}}}`, 0, "-: valid\n"},
		{"no entry made absent", "../../../config/layers/schema/node_metadata.json",
			`{"ports":{"lan":{"ifName":"eth1","mtu":"x"}}}`,
			4, "-: ports.lan.mtu: invalid type string: must be an integer from 68 to 65535\n"},
		{"no object", realMetadata, `[]`, 4, "-: invalid type array: must be one JSON object\n"},
	} {
		got := cli(t, nil, c.in, "layers", "validate", "--metadata", c.meta, "-")
		if got != (clitest.Said{Code: c.code, Out: "", Err: c.err}) {
			t.Errorf("%s: exit %d, %s%s", c.name, got.Code, got.Err, got.Out)
		}
	}
}

func TestLayersActions(t *testing.T) {
	before := metaFile(t, "old.json",
		`{"cpeConfig":{"X":{"policers":{"0":{"cir":1,"eir":1}}}},"popParams":{"POP_IFACE":"nic1"}}`)
	after := metaFile(t, "new.json",
		`{"cpeConfig":{"X":{"policers":{"0":{"cir":2,"eir":1}}}},"popParams":{"POP_IFACE":"nic2"},"sysParams":{"managedConfig":true}}`)
	for _, c := range []struct {
		args []string
		want clitest.Said
	}{
		{[]string{before, after},
			clitest.Said{Code: 0, Out: "RELOAD_VPP_CONFIG_AND_MONITOR\nREDO_POP_CONFIG\nREBOOT\n", Err: ""}},
		{[]string{"-o", "json", before, after}, clitest.Said{Code: 0, Out: `[
  {
    "action": "RELOAD_VPP_CONFIG_AND_MONITOR",
    "keys": [
      "cpeConfig.X.policers"
    ]
  },
  {
    "action": "REDO_POP_CONFIG",
    "keys": [
      "popParams.POP_IFACE"
    ]
  },
  {
    "action": "REBOOT",
    "keys": [
      "cpeConfig"
    ]
  }
]
`, Err: ""}},
		{[]string{before, before}, clitest.Said{Code: 0, Out: "", Err: ""}},
		{[]string{"-o", "json", before, before}, clitest.Said{Code: 0, Out: "[]\n", Err: ""}},
		{[]string{"-o", "yaml", before, before},
			clitest.Said{Code: 2, Out: "", Err: "--output: invalid value \"yaml\": must be json\n"}},
		{[]string{before}, clitest.Said{Code: 2, Out: "",
			Err: "actions: got 1 argument: must be two configs: see 'edgespan layers actions --help'\n"}},
	} {
		if got := layersCommand(t, append([]string{"actions", "--metadata", realMetadata}, c.args...)...); got != c.want {
			t.Errorf("%v: exit %d, %s%s", c.args, got.Code, got.Err, got.Out)
		}
	}
}

// What the daemon takes, our metadata takes too, YAML included.
func TestTheExamplesAreValidByOurMetadata(t *testing.T) {
	for _, example := range []string{"demo", "many-networks", "one-app"} {
		got := cli(t, nil, "", "layers", "validate", "--metadata", "../../../config/layers/schema/node_metadata.json",
			"../../../examples/"+example+".yaml")
		if got.Code != term.ExitOK {
			t.Errorf("%s: %+v", example, got)
		}
	}
}
