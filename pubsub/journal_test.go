package pubsub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"

	"edgespan/pubsub"
)

// memory is a journal whose disk is a map. enter, if set, is called before a
// change is "on disk"; fail makes every change an error.
type memory struct {
	mu    sync.Mutex
	disk  map[string][]byte
	puts  int
	enter func(op, key string)
	fail  error
}

func newMemory() *memory { return &memory{disk: map[string][]byte{}} }

func (m *memory) Load(topic string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	found := map[string][]byte{}
	for k, v := range m.disk {
		if name, key, _ := strings.Cut(k, "|"); name == topic {
			found[key] = v
		}
	}
	return found, nil
}

func (m *memory) Put(topic, key string, value []byte) error {
	return m.change("put", topic+"|"+key, func(at string) { m.disk[at] = value; m.puts++ })
}

func (m *memory) Delete(topic, key string) error {
	return m.change("delete", topic+"|"+key, func(at string) { delete(m.disk, at) })
}

func (m *memory) change(op, at string, do func(at string)) error {
	if m.enter != nil {
		m.enter(op, at)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	do(at)
	return nil
}

func encode(d doc) ([]byte, error) { return json.Marshal(d) }

func decode(data []byte) (d doc, err error) {
	err = json.Unmarshal(data, &d)
	return d, err
}

func journalled(j pubsub.Journal) *pubsub.Topic[doc] {
	return pubsub.NewTopic("lasting", pubsub.WithJournal(j, encode, decode))
}

func TestAJournalledChangeIsOnDiskBeforeAnyReaderSeesIt(t *testing.T) {
	disk := newMemory()
	topic := journalled(disk)
	p := topic.Publisher("app")
	s := topic.Subscribe(pubsub.Selector{}, nil)
	s.Drain()
	calls := ""
	disk.enter = func(op, key string) {
		v, ok := topic.Get("", "k")
		calls += fmt.Sprintf("%s %s: retained %q %v, told %q\n", op, key, v.Name, ok, say(s.Drain()))
	}
	must(t, p.Publish("", "k", text("1")))
	must(t, p.Publish("", "k", text("1")))
	must(t, p.Publish("", "k", text("2")))
	must(t, p.Resend("", "k"))
	must(t, p.Unpublish("", "k"))
	must(t, p.Unpublish("", "k"))
	expect(t, "at each write", calls, `put lasting|0:/k: retained "" false, told ""
put lasting|0:/k: retained "1" true, told "Created k 1"
delete lasting|0:/k: retained "2" true, told "Modified k 1>2"
`)
	expect(t, "at the end", say(s.Drain()), "Deleted k 2")
	if len(disk.disk) != 0 {
		t.Errorf("left on disk: %v", disk.disk)
	}
}

func TestAChangeThatCannotBeStoredDidNotHappen(t *testing.T) {
	disk := newMemory()
	topic := journalled(disk)
	p := topic.Publisher("app")
	must(t, p.Publish("", "k", text("1")))
	s := topic.Subscribe(pubsub.Selector{}, nil)
	s.Drain()
	disk.fail = errors.New("disk full")
	for name, err := range map[string]error{
		"store lasting k":   p.Publish("", "k", text("2")),
		"store lasting new": topic.Publisher("b").Publish("", "new", text("1")),
		"erase lasting k":   p.Unpublish("", "k"),
	} {
		if !errors.Is(err, disk.fail) || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	expect(t, "told", say(s.Drain()), "")
	expect(t, "retained", owners(topic), "k:app")
	disk.fail = nil
	must(t, p.Publish("", "new", text("1"))) // the failed publish of b claimed nothing
}

func TestAValueThatCannotBeEncodedIsAnError(t *testing.T) {
	fault := errors.New("no spelling")
	topic := pubsub.NewTopic("lasting",
		pubsub.WithJournal(newMemory(), func(doc) ([]byte, error) { return nil, fault }, decode))
	err := topic.Publisher("app").Publish("nat1", "k", text("1"))
	if !errors.Is(err, fault) {
		t.Fatalf("got %v", err)
	}
	expect(t, "message", err.Error(), "encode lasting nat1/k: no spelling")
}

func TestRestore(t *testing.T) {
	disk := newMemory()
	before := journalled(disk)
	must(t, before.Publisher("app/web").Publish("nat1", "web#0", text("a")))
	must(t, before.Publisher("app/db").Publish("nat1", "db#0", text("b")))
	must(t, before.Publisher("app/db").Publish("3:odd/scope", "", text("c")))

	topic := journalled(disk)
	s := topic.Subscribe(pubsub.Selector{AllScopes: true}, nil)
	must(t, topic.Restore())
	expect(t, "told", say(s.Drain()), "Synchronized, Created 3:odd/scope/ c, Created nat1/db#0 b, Created nat1/web#0 a")
	expect(t, "owners", owners(topic), "3:odd/scope/: nat1/db#0: nat1/web#0:")

	puts := disk.puts
	must(t, topic.Publisher("app/web").Publish("nat1", "web#0", text("a")))
	topic.Publisher("app/db").Adopt("nat1", "db#0")
	must(t, topic.Publisher("router").Unpublish("3:odd/scope", ""))
	expect(t, "claimed", owners(topic), "nat1/db#0:app/db nat1/web#0:app/web")
	expect(t, "told by claiming", say(s.Drain()), "Deleted 3:odd/scope/ c")
	if disk.puts != puts {
		t.Error("claiming by an equal publish wrote to the disk")
	}
	if err := topic.Publisher("x").Publish("nat1", "web#0", text("z")); err == nil {
		t.Error("a claimed key may be taken by publishing")
	}
}

func TestRestoreClaimedByResend(t *testing.T) {
	disk := newMemory()
	must(t, journalled(disk).Publisher("app").Publish("", "k", text("1")))
	topic := journalled(disk)
	must(t, topic.Restore())
	must(t, topic.Publisher("app").Resend("", "k"))
	expect(t, "owners", owners(topic), "k:app")
}

func TestRestoreKeepsWhatIsPublishedAlready(t *testing.T) {
	disk := newMemory()
	must(t, journalled(disk).Publisher("app").Publish("", "k", text("old")))
	topic := journalled(disk)
	must(t, topic.Publisher("app").Publish("", "k", text("new")))
	must(t, topic.Restore())
	if v, _ := topic.Get("", "k"); v.Name != "new" {
		t.Errorf("retained %v", v)
	}
}

func TestRestoreNamesAllFaultsAndRestoresNothing(t *testing.T) {
	disk := newMemory()
	must(t, journalled(disk).Publisher("app").Publish("", "good", text("1")))
	maps.Copy(disk.disk, map[string][]byte{
		"lasting|4:nat1/web": []byte("{"),
		"lasting|0:/db":      []byte("[]"),
		"lasting|web":        []byte("{}"),
		"lasting|04:nat1/ab": []byte("{}"), // would be a second spelling of one ref
		"other|web":          []byte("{"),  // of another topic: none of ours
	})
	topic := journalled(disk)
	err := topic.Restore()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"decode nat1/web: ", "decode db: ", `key "web": `, `key "04:nat1/ab": `} {
		if !strings.Contains(err.Error(), "restore topic lasting: "+want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 4 {
		t.Errorf("%d faults, want 4: %v", n, err)
	}
	if len(topic.All()) != 0 {
		t.Errorf("retained: %v", topic.All())
	}
}

func TestRestoreWithoutAJournalIsNothing(t *testing.T) {
	must(t, pubsub.NewTopic[doc]("test").Restore())
}

func TestRestoreOfAnUnreadableJournal(t *testing.T) {
	disk := newMemory()
	disk.fail = errors.New("corrupt")
	if err := journalled(disk).Restore(); !errors.Is(err, disk.fail) {
		t.Fatalf("got %v", err)
	}
}

// Each Put waits for the other, so this ends only if changes of two keys are on
// their way to the disk at the same time; meanwhile readers are not blocked.
func TestChangesOfDifferentKeysShareASync(t *testing.T) {
	disk := newMemory()
	topic := journalled(disk)
	var both sync.WaitGroup
	both.Add(2)
	disk.enter = func(string, string) {
		both.Done()
		both.Wait()
		topic.All()
		topic.Subscribe(pubsub.Selector{AllScopes: true}, nil).Drain()
	}
	var writers sync.WaitGroup
	for _, key := range []string{"a", "b"} {
		writers.Go(func() { must(t, topic.Publisher("app").Publish("", key, text(key))) })
	}
	writers.Wait()
	expect(t, "owners", owners(topic), "a:app b:app")
}

// Two want the same restored key at once: who came first has it, on disk too.
func TestARestoredKeyIsClaimedByOne(t *testing.T) {
	disk := newMemory()
	must(t, journalled(disk).Publisher("before").Publish("", "k", text("1")))
	topic := journalled(disk)
	must(t, topic.Restore())
	second := make(chan error, 1)
	disk.enter = func(string, string) {
		go func() { second <- topic.Publisher("second").Resend("", "k") }()
		for topic.Holding("", "k") < 2 && len(second) == 0 {
			runtime.Gosched()
		}
	}
	must(t, topic.Publisher("first").Publish("", "k", text("2")))
	var owned *pubsub.OwnedError
	if err := <-second; !errors.As(err, &owned) || owned.Owner != "first" {
		t.Errorf("the second: %v", err)
	}
	if n := topic.Holding("", "k"); n != 0 {
		t.Errorf("%d still hold the key", n)
	}
}

// Two incarnations of one owner publish the same key: what is retained at the
// end is what is on disk, and a key that passes does not change afterwards.
func TestChangesOfOneKeyReachDiskAndReadersInOneOrder(t *testing.T) {
	disk := newMemory()
	topic := journalled(disk)
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			p := topic.Publisher("app")
			for n := range 50 {
				if err := p.Publish("", "k", text(fmt.Sprint(i, ".", n))); err != nil {
					var owned *pubsub.OwnedError
					if !errors.As(err, &owned) {
						t.Error(err)
					}
					return
				}
				if i == 0 && n == 25 {
					topic.Publisher("router").AdoptAll("")
				}
			}
		})
	}
	writers.Wait()
	v, _ := topic.Get("", "k")
	stored, err := decode(disk.disk["lasting|0:/k"])
	must(t, err)
	expect(t, "on disk", stored.Name, v.Name)
	expect(t, "owners", owners(topic), "k:router")
}

// What can't be decoded is set aside, and the rest is restored.
func TestSalvageTakesWhatCanBeDecoded(t *testing.T) {
	disk := newMemory()
	topic := func() *pubsub.Topic[int] {
		return pubsub.NewTopic("t", pubsub.WithJournal(disk,
			func(v int) ([]byte, error) { return json.Marshal(v) },
			func(b []byte) (v int, err error) { err = json.Unmarshal(b, &v); return v, err }))
	}
	if err := topic().Publisher("a").Publish("s", "good", 1); err != nil {
		t.Fatal(err)
	}
	disk.disk["t|1:s/bad"], disk.disk["t|no key"] = []byte("{"), []byte("2")
	if err := topic().Restore(); err == nil {
		t.Error("Restore takes it")
	}
	for round, want := range []int{2, 0} {
		again := topic()
		lost, err := again.Salvage()
		if err != nil || len(lost) != want {
			t.Fatalf("round %d: lost %v, %v", round, lost, err)
		}
		if got := again.List("s"); len(got) != 1 || got["good"] != 1 {
			t.Errorf("round %d: %v", round, got)
		}
	}
	if string(disk.disk["t.unreadable|1:s/bad"]) != "{" || string(disk.disk["t.unreadable|no key"]) != "2" {
		t.Errorf("aside are %v", disk.disk)
	}
}
