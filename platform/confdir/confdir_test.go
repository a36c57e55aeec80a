package confdir

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/layers"
)

const real = "../../config/testdata/terragraph/base_versions"

// tree makes a folder with files in it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The real files, and the digest of the reference (§1.3).
func TestSeed_BaseFirmwareAndHardwareFilesAreFoundByVersion(t *testing.T) {
	d := open(t, real)
	l := d.Library
	if len(l.Base) != 20 || l.Base[0] != "RELEASE_M44" || l.Base[19] != "RELEASE_M81" ||
		!slices.Equal(l.Firmware, []string{"10.9.0", "10.11.0"}) ||
		len(l.Hardware["NXP"]) != 36 || len(l.Hardware) != 1 || len(l.Boards) != 3 {
		t.Errorf("%+v", l)
	}
	s, err := d.Read(l.Choose(layers.Versions{Software: "RELEASE_M81-3-gabc", Firmware: "10.11.0.5",
		Board: "NXP_LS1088A_RDB"}))
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := s.Effective(); config.MD5(o) != "650aed045e5fa80ba144a1395ad66275" {
		t.Errorf("MD5 %s", config.MD5(o))
	}
}

// Every real file parses.
func TestEveryRealLayerParses(t *testing.T) {
	d := open(t, real)
	for _, c := range []struct {
		layer layers.Layer
		names []string
	}{{layers.Base, d.Library.Base}, {layers.Firmware, d.Library.Firmware}, {layers.Hardware, d.Library.Hardware["NXP"]}} {
		for _, name := range c.names {
			choice := map[layers.Layer]layers.Choice{
				layers.Base: {Base: name}, layers.Firmware: {Firmware: name}, layers.Hardware: {Hardware: name, Type: "NXP"},
			}[c.layer]
			if s, err := d.Read(choice); err != nil || len(s[c.layer]) == 0 {
				t.Errorf("%s %s: %v", c.layer, name, err)
			}
		}
	}
}

func TestOnlyChosenFilesAreRead(t *testing.T) {
	d := open(t, tree(t, map[string]string{
		"RELEASE_M1.json": `{"a":1}`, "RELEASE_M2.json": `{`, "README": "", ".hidden.json": "", ".json": "", "sub.json/x": "",
		"fw_versions/1.0.0.json": "nonsense", "fw_versions/2.0.0.json": `{"b":1,"b":2}`,
		"hw_versions/hw_types.json": `{"T":["x"],"U":["y"]}`, "hw_versions/T/RELEASE_M1.json": `[]`,
		"hw_versions/V/RELEASE_M1.json": `[]`,
	}))
	if !slices.Equal(d.Library.Base, []string{"RELEASE_M1", "RELEASE_M2"}) ||
		!slices.Equal(d.Library.Types(), []string{"T", "U"}) {
		t.Errorf("%+v", d.Library)
	}
	s, err := d.Read(d.Library.Choose(layers.Versions{Software: "RELEASE_M1"}))
	if err != nil || s[layers.Base]["a"] != int64(1) || s[layers.Firmware] != nil || s[layers.Hardware] != nil {
		t.Errorf("%v, %v", s, err)
	}
	// A file that does not parse stops the operation, and all that is wrong is told.
	s, err = d.Read(d.Library.Choose(layers.Versions{Software: "RELEASE_M3", Firmware: "2.0.0.9", Board: "x"}))
	var broken *Broken
	if s[layers.Base] != nil || !errors.As(err, &broken) {
		t.Fatalf("%v, %v", s, err)
	}
	got := strings.ReplaceAll(err.Error(), d.path+"/", "")
	want := `RELEASE_M2.json: invalid JSON: line 1 column 2: it ends too early
fw_versions/2.0.0.json: b: duplicate key (2 times)
hw_versions/T/RELEASE_M1.json: invalid type array: must be one JSON object`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestFoldersThatAreMissing(t *testing.T) {
	d := open(t, tree(t, map[string]string{"RELEASE_M1.json": `{}`, "hw_versions/T/RELEASE_M1.json": `{}`}))
	if len(d.Library.Firmware) != 0 || len(d.Library.Hardware) != 0 || len(d.Library.Boards) != 0 {
		t.Errorf("without hw_types.json there is no hardware: %+v", d.Library)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is missing: %v", err)
	}
	for _, text := range []string{`{"A":["x"],"B":["x"]}`, `{"A":`, `{"../x":["y"]}`} {
		dir := tree(t, map[string]string{"hw_versions/hw_types.json": text})
		var broken *Broken
		if _, err := Open(dir); !errors.As(err, &broken) || !strings.Contains(err.Error(), "hw_types.json: ") {
			t.Errorf("hw_types.json %s: %v", text, err)
		}
	}
}

func TestOverridesOfNodes(t *testing.T) {
	nodes := filepath.Join(tree(t, nil), "nodes.json")
	want := map[string]config.Object{"x": {"a": int64(1)}, "y": {}}
	if err := WriteNodes(nodes, want); err != nil {
		t.Fatal(err)
	}
	o, err := ReadObject(nodes)
	got, faults := layers.NodeLayers(o)
	if err != nil || faults != nil ||
		!maps.EqualFunc(got, want, func(a, b config.Object) bool { return config.Equal(a, b) }) {
		t.Errorf("%v, %v, %v", got, err, faults)
	}
	dir := tree(t, map[string]string{"m": `5`})
	refusal := "m: invalid type int64: must be one JSON object"
	if _, err := ReadObject(filepath.Join(dir, "m")); err == nil ||
		strings.ReplaceAll(err.Error(), dir+"/", "") != refusal {
		t.Errorf("%v, want %s", err, refusal)
	}
}

func TestAWriteIsWholeAndLeavesABackup(t *testing.T) {
	dir := tree(t, map[string]string{"n.json": `{ "b": 1.0, "a": {} }`})
	file := filepath.Join(dir, "n.json")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write := func(name string, o config.Object) {
		t.Helper()
		if err := WriteObject(filepath.Join(dir, name), o); err != nil {
			t.Fatal(err)
		}
	}
	write("n.json", config.Object{"b": 1.0, "a": config.Object{}})
	for range 2 { // the second says the same, and the backup stays what it is
		if got := read("n.json"); got != "{\n  \"a\": {},\n  \"b\": 1\n}\n" {
			t.Errorf("%q", got)
		}
		if got := read("n.json.bak"); got != `{ "b": 1.0, "a": {} }` {
			t.Errorf("backup %q", got)
		}
		write("n.json", config.Object{"b": 1.0, "a": config.Object{}})
	}
	for _, name := range []string{"n.json", "n.json.bak"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := os.Symlink("n.json", filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	write("link.json", config.Object{})
	if got := read("n.json"); got != "{}\n" {
		t.Errorf("by a link: %q", got)
	}
	if err := os.Symlink("nowhere.json", filepath.Join(dir, "dangling.json")); err != nil {
		t.Fatal(err)
	}
	if err := WriteObject(filepath.Join(dir, "dangling.json"), config.Object{}); err == nil {
		t.Error("a link to nothing was replaced")
	}
	if err := os.Remove(filepath.Join(dir, "dangling.json")); err != nil {
		t.Error(err)
	}
	write("new.json", config.Object{})
	if info, err := os.Stat(filepath.Join(dir, "new.json")); err != nil || info.Mode().Perm() != newFileMode {
		t.Errorf("new.json: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 { // n.json, n.json.bak, link.json, new.json
		t.Errorf("%v, %v", entries, err)
	}
	if err := WriteObject(filepath.Join(dir, "no", "x.json"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is missing: %v", err)
	}
	if err := WriteObject(dir, nil); err == nil {
		t.Error("a folder was replaced")
	}
}
