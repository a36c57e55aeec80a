package guest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"edgespan/actors/node/api"
	"edgespan/actors/node/census"
	"edgespan/actors/node/console"
	"edgespan/actors/shell"
	"edgespan/platform/store"
	"edgespan/pubsub/shellproto"
)

// Records are the values that must survive a restart, by topic and key.
type Records struct {
	Known  map[string]string // what the daemon works with
	Stored map[string]string // what it would have after a restart
}

// unchanged is how long a topic's values must be silent to be complete.
const unchanged = time.Second

// recordsMain prints the records of a daemon.
func recordsMain() error {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	r, err := readRecords(ctx, "/run/edgespan/shell.sock", "/var/lib/edgespan")
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// readRecords reads the journal of a copy, as a daemon that starts does: the running one has locked its own.
func readRecords(ctx context.Context, socket, stateDir string) (r Records, err error) {
	daemon, err := shell.Dial(ctx, socket)
	if err != nil {
		return r, err
	}
	defer daemon.Close()
	dir, err := os.MkdirTemp("", "soak-records")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	stored, err := replayed(filepath.Join(stateDir, "journal"), dir)
	if err != nil {
		return r, err
	}
	if r.Stored, err = values(ctx, topicsOf(stored), func(ctx context.Context, q shellproto.Request, each emit) error {
		return (&console.Console{Topics: stored, Census: census.New()}).Do(ctx, shellproto.Who{}, q,
			func(item any, _ uint64) error { return each(item.(shellproto.WatchItem)) })
	}); err != nil {
		return r, err
	}
	r.Known, err = values(ctx, topicsOf(stored), func(ctx context.Context, q shellproto.Request, each emit) error {
		return daemon.Do(ctx, q, func(f shellproto.Frame) error {
			var item shellproto.WatchItem
			switch {
			case f.Error != "":
				return errors.New(f.Error)
			case f.Dropped > 0:
				return errors.New("the daemon has left out values")
			case f.End:
				return nil
			}
			return errors.Join(json.Unmarshal(f.Data, &item), each(item))
		})
	})
	return r, err
}

// replayed returns what a journal has, from a copy of it in dir.
func replayed(journal, dir string) (*api.Topics, error) {
	from, err := os.Open(journal) // #nosec G304 -- the node's
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600) // #nosec G304 -- ours
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(to, from); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	j, err := store.OpenJournal(dir)
	if err != nil {
		return nil, err
	}
	t, err := api.NewTopics(j, nil)
	return t, errors.Join(err, j.Close())
}

// topicsOf names the topics with a journal.
func topicsOf(t *api.Topics) (names []string) {
	v := reflect.ValueOf(t.Records)
	for i := range v.NumField() {
		names = append(names, v.Field(i).Interface().(interface{ Name() string }).Name())
	}
	return names
}

type emit = func(shellproto.WatchItem) error

// values returns the values of topics that watching them tells.
func values(ctx context.Context, topics []string,
	watch func(context.Context, shellproto.Request, emit) error,
) (map[string]string, error) {
	out := map[string]string{}
	var mu sync.Mutex
	var watching sync.WaitGroup
	var failed []error
	for _, topic := range topics {
		watching.Go(func() {
			silent, enough := context.WithCancel(ctx)
			defer enough()
			timer := time.AfterFunc(unchanged, enough)
			defer timer.Stop()
			q := shellproto.Request{Version: shellproto.Version, Op: "watch", Args: []string{topic}}
			err := watch(silent, q, func(i shellproto.WatchItem) error {
				timer.Reset(unchanged)
				mu.Lock()
				defer mu.Unlock()
				if key := topic + " " + i.Key; i.Deleted {
					delete(out, key)
				} else {
					out[key] = string(i.Value)
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() != nil || silent.Err() == nil { // else it has told all
				failed = append(failed, errors.Join(err, ctx.Err()))
			}
		})
	}
	watching.Wait()
	return out, errors.Join(failed...)
}
