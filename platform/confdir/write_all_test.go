package confdir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"edgespan/config"
)

func put(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func has(t *testing.T, name, want string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil || string(text) != want {
		t.Errorf("%s: %q %v, want %q", name, text, err, want)
	}
}

func hasNot(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s is there", name)
		}
	}
}

func TestWriteAllWritesEachWithABackup(t *testing.T) {
	dir := t.TempDir()
	a := put(t, filepath.Join(dir, "a.json"), `{"x":1}`, 0o640)
	b := put(t, filepath.Join(dir, "b.json"), "{}\n", 0o600)
	c := filepath.Join(dir, "c.json")
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	err := WriteAll([]File{{link, config.Object{"x": int64(2)}}, {b, config.Object{}}, {c, config.Object{"y": true}}})
	if err != nil {
		t.Fatal(err)
	}
	has(t, a, "{\n  \"x\": 2\n}\n")
	has(t, a+".bak", `{"x":1}`)
	has(t, c, "{\n  \"y\": true\n}\n")
	hasNot(t, b+".bak", c+".bak", link+".bak")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v %v", info, err)
	}
	if info, err := os.Stat(a); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v %v", info, err)
	}
}

func TestWriteAllPutsBackWhatItWrote(t *testing.T) {
	dir := t.TempDir()
	a := put(t, filepath.Join(dir, "a.json"), `{"x":1}`, 0o600)
	b := filepath.Join(dir, "b.json")
	lost := filepath.Join(dir, "none", "c.json")
	err := WriteAll([]File{{a, config.Object{}}, {b, config.Object{}}, {lost, config.Object{}}})
	if err == nil {
		t.Fatal("a folder that is not there was written to")
	}
	has(t, a, `{"x":1}`)
	hasNot(t, b)
	if err := WriteAll([]File{{a, config.Object{}}, {filepath.Join(dir, ".", "a.json"), config.Object{}}}); err == nil {
		t.Error("one file was written twice")
	}
	has(t, a, `{"x":1}`)
}

func TestAWriteKeepsOwnerAndGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file away")
	}
	dir := t.TempDir()
	a := put(t, filepath.Join(dir, "a.json"), `{"x":1}`, 0o640)
	if err := os.Chown(a, 12, 34); err != nil {
		t.Fatal(err)
	}
	if err := WriteObject(a, config.Object{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{a, a + ".bak"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 12 || stat.Gid != 34 || info.Mode().Perm() != 0o640 {
			t.Errorf("%s is of %d:%d, %v", name, stat.Uid, stat.Gid, info.Mode())
		}
	}
}

func TestListTellsTheFaultsOfTypesApart(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"hw_versions/A", "hw_versions/B"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, "hw_versions/hw_types.json"), `{"A": ["one"], "B": ["one", "two"]}`, 0o600)
	put(t, filepath.Join(dir, "hw_versions/B/V_1.json"), `{}`, 0o600)
	d, faults, err := List(dir)
	if err != nil || len(faults) != 1 || len(d.Library.Hardware["B"]) != 1 || d.Library.Boards["two"] != "B" {
		t.Errorf("%+v, faults %v, %v", d, faults, err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("Open takes a board id in two types")
	}
}
