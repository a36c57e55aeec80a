package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"edgespan/config/fleet/backup"
	"edgespan/platform/store"
	"edgespan/platform/store/backend"
)

// maxBackups is the number of backups before migrations that are kept. The oldest is deleted after a new one is
// written.
const maxBackups = 3

// migrationBackups matches the names of these files, which contain the time and sort by it.
const migrationBackups = "migration-*.backup"

// backUpBeforeMigration writes a backup of the store into the data folder before a migration of layers.
func (g *foundation) backUpBeforeMigration(ctx context.Context, now time.Time) (string, error) {
	source, err := backup.Open(backend.NewReader(ctx, g.store),
		backup.Header{Version: g.version, Store: g.store.ID(), Time: now})
	if err != nil {
		return "", err
	}
	file := g.dir.Path("migration-" + now.UTC().Format("20060102T150405.000000000Z") + ".backup")
	err = WriteBackup(file, func(w io.Writer) error { return source.Write(backend.NewReader(ctx, g.store), w) })
	if err != nil {
		return "", fmt.Errorf("back up: %w", err)
	}
	all, err := filepath.Glob(g.dir.Path(migrationBackups))
	if err != nil {
		return "", fmt.Errorf("back up: look for older backups: %w", err)
	}
	slices.Sort(all)
	for _, old := range all[:max(len(all)-maxBackups, 0)] {
		if err := os.Remove(old); err != nil {
			return "", fmt.Errorf("back up: remove an older backup: %w", err)
		}
	}
	return file, nil
}

// backupMode is the file mode of a backup, which contains secrets and hashes of tokens.
const backupMode = 0o600

// WriteBackup writes a backup to a file. It replaces the file once the backup is complete and on the disk.
func WriteBackup(file string, write func(io.Writer) error) error {
	return store.WriteStream(file, backupMode, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<20)
		return errors.Join(write(out), out.Flush())
	})
}
