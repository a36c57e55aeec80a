package wireguard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAKeyIsMadeOnceAndKept(t *testing.T) {
	dir := keys(filepath.Join(t.TempDir(), "wireguard"))
	first, err := dir.get("n1")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(string(dir), "n1")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if folder, err := os.Stat(string(dir)); err != nil || folder.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", folder, err)
	}
	if again, err := dir.get("n1"); err != nil || again != first || first != first.clamped() {
		t.Errorf("another key: %v", err)
	}
	if other, err := dir.get("n2"); err != nil || other == first {
		t.Errorf("the same key: %v", err)
	}
	for range 2 { // a missing one is no error
		if err := dir.forget("n1"); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := dir.get("n1"); err != nil || again == first {
		t.Errorf("a forgotten key: %v", err)
	}
}

func TestAKeyThatCannotBeReadIsNotReplaced(t *testing.T) {
	dir := keys(t.TempDir())
	path := filepath.Join(string(dir), "n1")
	const text = "half of a ke"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.get("n1"); err == nil || strings.Contains(err.Error(), text) {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"", "..", "a/b", ".hidden"} {
		if _, err := dir.get(name); err == nil {
			t.Errorf("identity %q is taken", name)
		}
		if err := dir.forget(name); err == nil {
			t.Errorf("identity %q is forgotten", name)
		}
	}
}
