package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/term"

	"go.etcd.io/bbolt"
	"go.uber.org/zap"
)

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
		if code, _, said := command(t, "token", "add", "anna", "--role", "admin", "--data-dir",
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
		"a newer one":  {newer, nil, "its format is 99", term.ExitError},
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
				var said bytes.Buffer
				a := &app{Streams: term.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &said,
					Env: func(string) string { return "" }}, host: thisHost(), tree: startTree}
				code := runApp(ctx, a, append(append(command, "--data-dir", dir), one.flags...))
				cancel()
				if code != one.code || !strings.Contains(said.String(), one.want) {
					t.Errorf("%s: %d: %s", what, code, said.String())
				}
			}
		})
	}
}

// hung is a controller whose store hangs, and whose actors may.
type hung struct {
	running
	alive error
}

func (h hung) Ready(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h hung) Alive(context.Context) error { return h.alive }

// The watchdog hears of us while the store hangs, and does not while the actors do.
func TestTheWatchdogAsksTheActorsAndNotTheStore(t *testing.T) {
	for _, one := range []struct {
		alive error
		beats int
	}{{nil, 1}, {context.DeadlineExceeded, 0}} {
		var said []string
		s := &service{fleet: hung{alive: one.alive}, notify: func(state string) { said = append(said, state) },
			log: zap.NewNop()}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		s.beat(ctx, time.Second)
		if ctx.Err() != nil || len(said) != one.beats {
			t.Errorf("%v: said %q", one.alive, said)
		}
		cancel()
	}
}
