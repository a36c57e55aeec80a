package layerscli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
)

func TestTheOwnSchemaHasNoFindings(t *testing.T) {
	if got := cli(t, nil, "", "layers", "lint"); got != (clitest.Said{Code: 0, Out: "", Err: "no findings\n"}) {
		t.Errorf("%+v", got)
	}
	if got := cli(t, nil, "", "layers", "lint", "-o",
		"json"); got != (clitest.Said{Code: 0, Out: "[]\n", Err: "no findings\n"}) {
		t.Errorf("%+v", got)
	}
}

// layers lint: field without metadata, metadata without default, hardware file without its
// base version, board id in two types; each by a folder that has just that.
func TestLintFindsEachKind(t *testing.T) {
	const meta = `{"a": {"desc": "d", "type": "INTEGER", "action": "NO_ACTION"}}`
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"sound", map[string]string{"V_1.json": `{"a": 1}`, "hw_versions/T/V_1.json": `{}`}, ""},
		{"no metadata", map[string]string{"V_1.json": `{"a": 1, "b": 2}`},
			"unknown: b: no metadata: in V_1.json: every field must have an entry\n"},
		{"no default", map[string]string{"V_1.json": `{}`},
			"default: a: no default: must have a value in a base, firmware or hardware file\n"},
		{
			"no base version",
			map[string]string{"V_1.json": `{"a": 1}`, "hw_versions/T/V_2.json": `{}`},
			"base: no base file of its version: in hw_versions/T/V_2.json: both must have a file for " +
				"each supported version\n",
		},
		{
			"a board in two types",
			map[string]string{"V_1.json": `{"a": 1}`, "hw_versions/hw_types.json": `{"T": ["one"], "U": ["one"]}`},
			"board: U.0: duplicate board id \"one\", also of type T: in hw_versions/hw_types.json: must be unique\n",
		},
		{"a wrong default", map[string]string{"V_1.json": `{"a": "x"}`},
			"invalid: a: invalid type string: in V_1.json: must be an integer\n"},
	} {
		dir := t.TempDir()
		if c.files["hw_versions/hw_types.json"] == "" {
			c.files["hw_versions/hw_types.json"] = `{"T": ["one"]}`
		}
		for name, text := range c.files {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			putFile(t, file, text)
		}
		m := putFile(t, filepath.Join(t.TempDir(), "m.json"), meta)
		want := clitest.Said{Code: 4, Out: c.want, Err: "findings: 1\n"}
		if c.want == "" {
			want = clitest.Said{Code: 0, Out: "", Err: "no findings\n"}
		}
		if got := cli(t, nil, "", "layers", "lint", "--metadata", m, "--base-dir", dir); got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

// A vendor's file is described by the vendor's metadata.
func TestLintWithAVendorsMetadata(t *testing.T) {
	dir, base := t.TempDir(), t.TempDir()
	putFile(t, filepath.Join(base, "V_1.json"), `{"a": 1, "acme": true}`)
	own := putFile(t, filepath.Join(dir, "m.json"), `{"a": {"desc": "d", "type": "INTEGER", "action": "NO_ACTION"}}`)
	vendor := putFile(t, filepath.Join(dir, "v.json"),
		`{"acme": {"desc": "d", "type": "BOOLEAN", "action": "ACME_RELOAD"}}`)
	if got := cli(t, nil, "", "layers", "lint", "--metadata", own, "--base-dir", base); got.Code != 4 {
		t.Errorf("ours alone: %+v", got)
	}
	if got := cli(t, nil, "", "layers", "lint", "--metadata", own, "--metadata", vendor, "--base-dir",
		base); got != (clitest.Said{Code: 0, Out: "", Err: "no findings\n"}) {
		t.Errorf("%+v", got)
	}
}

func TestLintOfTheRealFiles(t *testing.T) {
	const real = "../../../config/testdata/terragraph/"
	args := []string{"layers", "lint", "--metadata", real + "config_metadata.json", "--base-dir", real + "base_versions"}
	text := cli(t, nil, "", args...)
	if text.Code != 4 || text.Err != "findings: 250\n" || strings.Count(text.Out, "\n") != 250 {
		t.Errorf("exit %d, %d lines, %s", text.Code, strings.Count(text.Out, "\n"), text.Err)
	}
	const line = "unknown: envParams.MARVELL_SFP_SPEED: no metadata: in RELEASE_M44.json to RELEASE_M78.json and 16 " +
		"between: every field must have an entry\n"
	if !strings.Contains(text.Out, line) ||
		!strings.Contains(text.Out, "default: linkParamsOverride.*.fwParams.mcs: no default: ") {
		t.Error(text.Out)
	}
	var list []lintFinding
	got := cli(t, nil, "", append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil || got.Code != 4 || len(list) != 250 ||
		len(list[0].Files) != 18 {
		t.Errorf("exit %d, %v, %d findings: %.500s", got.Code, err, len(list), got.Out)
	}
}

func TestLintUsage(t *testing.T) {
	dir := t.TempDir()
	good, bad := putFile(t, filepath.Join(dir, "m.json"), `{}`),
		putFile(t, filepath.Join(dir, "b.json"), `{"a": {"desc": 1}}`)
	broken := t.TempDir()
	putFile(t, filepath.Join(broken, "V_1.json"), `{`)
	putFile(t, filepath.Join(broken, "V_2.json"), `[]`)
	for _, c := range []struct {
		args []string
		code int
		err  int // lines
	}{
		{[]string{"--metadata", good}, 2, 1},
		{[]string{"--base-dir", dir}, 2, 1},
		{[]string{"extra"}, 2, 1},
		{[]string{"-o", "yaml"}, 2, 1},
		{[]string{"--metadata", bad, "--base-dir", t.TempDir()}, 4, 1},
		{[]string{"--metadata", good, "--base-dir", filepath.Join(dir, "none")}, 10, 1},
		{[]string{"--metadata", good, "--base-dir", broken}, 4, 2},
	} {
		got := cli(t, nil, "", append([]string{"layers", "lint"}, c.args...)...)
		if got.Code != c.code || got.Out != "" || strings.Count(got.Err, "\n") != c.err {
			t.Errorf("%v: %+v, want exit %d and %d lines", c.args, got, c.code, c.err)
		}
	}
}
