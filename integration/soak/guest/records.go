package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
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

// watchLimit is how long the values of one topic may take.
const watchLimit = 5 * time.Second

var errIncomplete = errors.New("a value does not come: it may just have been deleted")

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
	if r.Stored, err = values(ctx, topicsOf(stored), func(ctx context.Context, q shellproto.Request,
		each func(json.RawMessage) error,
	) error {
		return (&console.Console{Topics: stored, Census: census.New()}).Do(ctx, shellproto.Who{}, q,
			func(answer any, _ uint64) error {
				text, err := json.Marshal(answer)
				return errors.Join(err, each(text))
			})
	}); err != nil {
		return r, err
	}
	r.Known, err = values(ctx, topicsOf(stored), func(ctx context.Context, q shellproto.Request,
		each func(json.RawMessage) error,
	) error {
		return daemon.Do(ctx, q, func(f shellproto.Frame) error {
			switch {
			case f.Error != "":
				return errors.New(f.Error)
			case f.Dropped > 0:
				return errors.New("the daemon has left out values")
			case len(f.Data) == 0:
				return nil
			}
			return each(f.Data)
		})
	})
	return r, err
}

// replayed returns what a journal has, from a copy of it in dir.
func replayed(journal, dir string) (*api.Topics, error) {
	data, err := os.ReadFile(journal) // #nosec G304 -- the node's
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "journal"), data, 0o600); err != nil {
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

// ask carries out a request of the debug shell, and passes on what is answered.
type ask = func(context.Context, shellproto.Request, func(answer json.RawMessage) error) error

// values returns the values of topics. Watching a topic never ends: what has a value is asked for before.
func values(ctx context.Context, topics []string, do ask) (map[string]string, error) {
	out := map[string]string{}
	for _, topic := range topics {
		missing := map[string]bool{}
		names := shellproto.Request{Version: shellproto.Version, Op: "names", Args: []string{shellproto.NamesKey, topic}}
		if err := do(ctx, names, func(answer json.RawMessage) error {
			var keys []string
			err := json.Unmarshal(answer, &keys)
			for _, key := range keys {
				missing[key] = true
			}
			return err
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", topic, err)
		}
		if len(missing) == 0 {
			continue
		}
		watching, enough := context.WithTimeoutCause(ctx, watchLimit, errIncomplete)
		err := do(watching, shellproto.Request{Version: shellproto.Version, Op: "watch", Args: []string{topic}},
			func(answer json.RawMessage) error {
				var i shellproto.WatchItem
				if err := json.Unmarshal(answer, &i); err != nil {
					return err
				}
				out[topic+" "+i.Key] = string(i.Value)
				if delete(missing, i.Key); len(missing) == 0 {
					enough()
				}
				return nil
			})
		enough()
		if len(missing) > 0 {
			return nil, fmt.Errorf("%s: %w", topic, cmp.Or(err, errIncomplete))
		}
	}
	return out, nil
}
