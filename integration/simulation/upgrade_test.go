package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/platform/fake"
	"edgespan/platform/store"
)

// releases is where former releases have left their state folders (make release-testdata).
const releases = "../scenario/testdata/release"

// topicsOfReleases are the journalled topics of a node.
var topicsOfReleases = []string{"network-instance-number", "network-instance-leases", "network-instance-stood", "app-record",
	"node-record", "uplink-choice", "port-drain", "port-lease", "probe-budget"}

// disk is what a release left in its state folder.
type disk struct {
	name    string
	journal map[string]map[string][]byte
	slots   map[string]string
}

// disksOfReleases reads each release's state folder once, from a copy: to open a journal locks and may mend it.
var disksOfReleases = sync.OnceValues(func() (list []disk, err error) {
	dirs, err := filepath.Glob(filepath.Join(releases, "*", "state"))
	if err != nil || len(dirs) == 0 {
		return nil, fmt.Errorf("no releases in %s: %w", releases, err)
	}
	for _, dir := range dirs {
		d, err := readDisk(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		list = append(list, d)
	}
	return list, nil
})

func readDisk(dir string) (d disk, err error) {
	folder, err := os.MkdirTemp("", "release")
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.CopyFS(folder, os.DirFS(dir)); err != nil {
		return d, err
	}
	j, err := store.OpenJournal(folder)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	d = disk{filepath.Base(filepath.Dir(dir)), map[string]map[string][]byte{}, map[string]string{}}
	for _, topic := range topicsOfReleases {
		if d.journal[topic], err = j.Load(topic); err != nil {
			return d, err
		}
	}
	slots := store.NewSlots(filepath.Join(folder, "config"))
	for _, slot := range []commitconfirm.Slot{commitconfirm.SlotConfirmed, commitconfirm.SlotCopy, commitconfirm.SlotPending,
		commitconfirm.SlotClock} {
		switch text, err := slots.Read(string(slot)); {
		case err == nil:
			d.slots[string(slot)] = string(text)
		case !errors.Is(err, fs.ErrNotExist):
			return d, err
		}
	}
	return d, nil
}

// becomeOld gives the machine the disk that a former release left, and boots it: its networks and apps must be ready
// again, with the numbers, addresses and MACs that they had.
func (w *town) becomeOld(rng *rand.Rand) {
	all, err := disksOfReleases()
	if err != nil {
		w.fault("%v", err)
		return
	}
	old := all[rng.IntN(len(all))]
	w.kill()
	w.mend()
	w.boots()
	w.host.Reboot()
	w.journal, w.files = fake.NewJournal(), fake.NewFiles()
	for topic, values := range old.journal {
		for key, v := range values {
			_ = w.journal.Put(topic, key, v)
		}
	}
	for slot, text := range old.slots {
		w.files.SetSlot(slot, text)
	}
	for _, ns := range []string{"web", "db"} {
		w.host.SetNetns("/mnt/netns/"+ns, true)
	}
	w.known = false
	w.start()
	var wrong []string
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Second) {
		synctest.Wait()
		if wrong = w.wrongOf(old); len(wrong) == 0 {
			break
		}
		if time.Now().After(end) {
			w.fault("%v after an upgrade from %s: %s", patience, old.name, strings.Join(wrong, "; "))
			return
		}
	}
	w.settle() // a person's config takes its place
}

// wrongOf returns what is not as the former release left it.
func (w *town) wrongOf(old disk) (list []string) {
	for topic, kind := range map[string]string{"network-instance-number": "ni", "app-record": "app"} {
		for key := range old.journal[topic] {
			list = append(list, w.unready(kind, strings.TrimPrefix(key, "0:/"))...)
		}
	}
	for _, topic := range []string{"network-instance-number", "network-instance-leases", "app-record"} {
		for key, v := range old.journal[topic] {
			if got := w.journal.Get(topic, key); !sameJSON(v, got) {
				list = append(list, fmt.Sprintf("%s of %s is %s, was %s", topic, key, got, v))
			}
		}
	}
	return list
}

// sameJSON reports whether a value has all that another one had.
func sameJSON(was, is []byte) bool {
	var before, after any
	return json.Unmarshal(was, &before) == nil && json.Unmarshal(is, &after) == nil && has(after, before)
}

func has(is, was any) bool {
	before, nested := was.(map[string]any)
	if !nested {
		return reflect.DeepEqual(is, was)
	}
	after, _ := is.(map[string]any)
	for k, v := range before {
		if !has(after[k], v) {
			return false
		}
	}
	return true
}

// beDowngraded lets a newer release have run: it left fields and topics that this one does not know. Nothing is to be done.
func (w *town) beDowngraded(rng *rand.Rand) {
	if w.settle(); len(w.faults) > 0 {
		return
	}
	time.Sleep(patience) // until hold-downs are over
	w.restartInPeace(func() {
		for _, topic := range w.journal.Topics() {
			for _, key := range w.journal.Keys(topic) {
				var v map[string]any
				if json.Unmarshal(w.journal.Get(topic, key), &v) != nil || len(v) == 0 {
					continue // no object, or one of no adapters
				}
				grow(v, rng.IntN(9))
				text, _ := json.Marshal(v)
				_ = w.journal.Put(topic, key, text)
			}
		}
		_ = w.journal.Put("of-a-newer-release", "0:/node", []byte(`{"a": 1}`))
	})
	if !slices.Contains(w.journal.Topics(), "of-a-newer-release") {
		w.fault("what a newer release keeps is gone")
	}
}

// grow adds a field to an object; one whose keys are adapters gets it in each of them.
func grow(v map[string]any, number int) {
	for key, inner := range v {
		if object, is := inner.(map[string]any); is && strings.Contains(key, "#") {
			grow(object, number)
		}
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(v)), func(k string) bool { return strings.Contains(k, "#") }) {
		v["future"] = []any{"a", map[string]any{"b": number}}
	}
}

// restartInPeace kills the process, changes what is on its disk, and starts the next one, which must have nothing to do.
func (w *town) restartInPeace(change func()) {
	before := w.actors()
	w.host.Done()
	w.kill()
	change()
	if w.start(); len(w.faults) > 0 {
		return
	}
	time.Sleep(quiet)
	synctest.Wait()
	if done := w.host.Done(); len(done) > 0 {
		w.fault("a restart did %d ops:\n%s", len(done), strings.Join(done, "\n"))
	}
	if wrong := w.wrong(); len(wrong) > 0 {
		w.fault("after a restart: %s", strings.Join(wrong, "; "))
	}
	if after := w.actors(); !slices.Equal(before, after) {
		w.fault("actors before a restart: %v\nafter it: %v", before, after)
	}
}
