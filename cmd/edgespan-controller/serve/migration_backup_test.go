package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"edgespan/config/fleet/backup"
	"edgespan/config/kv"
	"edgespan/platform/datadir"
	"edgespan/platform/store/bolt"
)

func TestBackupsBeforeMigrationsAreWholeAndFew(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	dir, err := datadir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(filepath.Join(folder, "store.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &foundation{dir: dir, store: s}
	defer func() { _ = g.close() }()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var files []string
	for n := range maxBackups + 2 {
		if _, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("head", fmt.Append(nil, n))}}); err != nil {
			t.Fatal(err)
		}
		file, err := g.backUpBeforeMigration(t.Context(), now.Add(time.Duration(n)*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for n, file := range files {
		f, err := os.Open(file)
		if n < 2 {
			if !os.IsNotExist(err) {
				t.Errorf("%s is kept: %v", file, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := backup.Read(f)
		_ = f.Close()
		if err != nil || string(c.Value("head")) != fmt.Sprint(n) {
			t.Errorf("%s: %v", file, err)
		}
		if info, _ := os.Stat(file); info.Mode().Perm() != backupMode {
			t.Errorf("%s has mode %v: there are secrets in it", file, info.Mode())
		}
	}
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(folder, 0o700) }()
	if os.Getuid() == 0 { // may write all the same
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := g.backUpBeforeMigration(t.Context(), now); err == nil {
		t.Errorf("written into a folder that takes nothing: %s", file)
	}
}
