package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"edgespan/cmd/term"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/platform/store/bolt"
)

// A store of a newer form is refused by the controller and by what works on it; it may be backed up.
func TestNoCommandOpensAStoreOfANewerForm(t *testing.T) {
	dir := t.TempDir()
	s, err := bolt.Open(filepath.Join(dir, "store.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	form := []byte(`{"format":3,"least":2,"by":"9.0.0"}`)
	if _, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put(history.FormatKey(), form)}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"},
		{"token", "add", "x", "--role", "admin"}} {
		code, _, said := program.Command(t, append(args, "--data-dir", dir)...)
		if code != term.ExitError || !strings.Contains(said, "written by version 9.0.0") ||
			!strings.Contains(said, "upgrade it") {
			t.Errorf("%v: %d: %s", args, code, said)
		}
	}
	file := filepath.Join(t.TempDir(), "b")
	if code, _, said := program.Command(t, "backup", "--data-dir", dir, file); code != term.ExitOK {
		t.Errorf("a backup: %d: %s", code, said)
	}
	if code, _, said := program.Command(t, "restore", "--data-dir", t.TempDir(), file); code != term.ExitError ||
		!strings.Contains(said, "written by version 9.0.0") {
		t.Errorf("a restore: %d: %s", code, said)
	}
}

// A store that can't be opened is told with its reason, by every command that opens one, and its
// exit code is none of a command line.
func TestAStoreThatCannotBeOpenedIsTold(t *testing.T) {
	garbage := func(t *testing.T, file string) {
		if err := os.WriteFile(file, bytes.Repeat([]byte("no store "), 10_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := func(t *testing.T, file string) {
		if err := os.Mkdir(file, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	newer := func(t *testing.T, file string) {
		if code, _, said := program.Command(t, "token", "add", "anna", "--role", "admin", "--data-dir",
			filepath.Dir(file)); code != term.ExitOK {
			t.Fatalf("%d: %s", code, said)
		}
		db, err := bbolt.Open(file, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("format"), []byte{0, 0, 0, 0, 0, 0, 0, 99})
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(*testing.T, string) {}
	away := []string{"--etcd", "http://127.0.0.1:1"}
	for name, one := range map[string]struct {
		spoil func(*testing.T, string)
		flags []string
		want  string
		code  int
	}{
		"etcd refuses": {nothing, away, "open store at [\"http://127.0.0.1:1\"]", term.ExitTimeout},
		"random bytes": {garbage, nil, "store.db: invalid database", term.ExitError},
		"a folder":     {folder, nil, "store.db: is a directory", term.ExitError},
		"a newer one":  {newer, nil, "unknown format 99", term.ExitError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, command := range map[string][]string{
				"run":   {"--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"},
				"token": {"token", "add", "anna", "--role", "admin"}, "export": {"export", "--cfg-dir", t.TempDir()},
			} {
				dir := t.TempDir()
				one.spoil(t, filepath.Join(dir, "store.db"))
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				code, _, said := program.Type(ctx, "", append(append(command, "--data-dir", dir), one.flags...)...)
				cancel()
				if code != one.code || !strings.Contains(said, one.want) {
					t.Errorf("%s: %d: %s", what, code, said)
				}
			}
		})
	}
}
