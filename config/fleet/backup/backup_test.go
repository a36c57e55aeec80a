package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// reader adapts a model to the reader that config/fleet/history expects.
type reader struct{ *kv.Model }

func (r reader) Get(keys ...kv.Key) ([]kv.Entry, error) {
	out := make([]kv.Entry, len(keys))
	for i, k := range keys {
		out[i], _, _ = r.Model.Get(k)
	}
	return out, nil
}

const (
	oldStore = "6a0c0f2e-0000-4000-8000-000000000001"
	newStore = "6a0c0f2e-0000-4000-8000-000000000002"
	nodeOne  = "11111111-0000-4000-8000-000000000001"
	nodeTwo  = "11111111-0000-4000-8000-000000000002"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func store(t testing.TB, m *kv.Model, k kv.Key, v any) kv.Revision {
	t.Helper()
	text, ok := v.([]byte)
	if !ok {
		text, _ = json.Marshal(v)
	}
	o, err := m.Commit(kv.Txn{Then: []kv.Op{kv.Put(k, text)}})
	if err != nil {
		t.Fatal(err)
	}
	return o.Revision
}

// small is a store with one key of each kind that matters.
func small(t testing.TB) *kv.Model {
	m := kv.NewModel()
	store(t, m, history.FleetKey(), []byte(`{"caSha256":"x"}`))
	store(t, m, "objects/aa", []byte{0, 1, 0xff, '\n'})
	store(t, m, "objects/none", []byte{})
	store(t, m, history.GenerationKey(nodeOne),
		fleet.Counted{Generation: fleet.Generation{Authority: oldStore, Counter: 7}, Digest: fleet.Digest{Config: "d1"}})
	store(t, m, history.PushKey(nodeOne),
		fleet.Memory{Push: fleet.Attempt{Number: 12, Digest: fleet.Digest{Config: "d1"}}, Adopted: true})
	store(t, m, history.HeadKey(), []byte(`{"number":1}`))
	lease, err := m.Grant(noon, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Commit(kv.Txn{Then: []kv.Op{kv.PutLeased(history.OwnerKey(nodeOne), []byte("r1/4"),
		lease)}}); err != nil {
		t.Fatal(err)
	}
	return m
}

func taken(t testing.TB, m *kv.Model) []byte {
	t.Helper()
	s, err := Open(reader{m}, Header{Version: "1.2.3", Store: oldStore, Time: noon})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.Write(reader{m}, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(t testing.TB, text []byte) *Copy {
	t.Helper()
	c, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bring restores a backup into a store, as the program does, until limit transactions are done.
func bring(t testing.TB, m *kv.Model, c *Copy, id string, limit int) (ended bool) {
	t.Helper()
	r, err := c.Restore(Mark{ID: id, Time: noon})
	if err != nil {
		t.Fatal(err)
	}
	have, _, err := m.Get(history.RestoringKey())
	if err != nil {
		t.Fatal(err)
	}
	do := func(txn kv.Txn) kv.Revision {
		o, err := m.Commit(txn)
		if err != nil || !o.Succeeded {
			t.Fatalf("%v: %+v, %v", txn, o, err)
		}
		limit--
		return o.Revision
	}
	at := do(r.Begin(have))
	for limit > 0 {
		p, err := m.List("", kv.ListOptions{Limit: page})
		if err != nil {
			t.Fatal(err)
		}
		txn, some := r.Clear(p.Entries)
		if !some {
			break
		}
		at = do(txn)
	}
	r.SetTarget(newStore)
	for limit > 0 {
		txn, more, err := r.Next(at)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return true
		}
		at = do(txn)
	}
	return false
}

func values(t testing.TB, m *kv.Model) map[kv.Key]string {
	t.Helper()
	p, err := m.List("", kv.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[kv.Key]string{}
	for _, e := range p.Entries {
		out[e.Key] = string(e.Value)
	}
	return out
}

const ever = 1 << 30

// TestABackupComesBack compares the restored store with the original: everything permanent is there, unchanged except
// for what another store counts anew.
func TestABackupComesBack(t *testing.T) {
	old, restored := small(t), kv.NewModel()
	c := read(t, taken(t, old))
	if c.Header.Keys != 6 || c.Header.Store != oldStore || c.Header.Revision != 7 || c.Header.Version != "1.2.3" ||
		!c.Header.Time.Equal(noon) {
		t.Errorf("%+v", c.Header)
	}
	if string(c.Fleet()) != `{"caSha256":"x"}` {
		t.Errorf("fleet is %s", c.Fleet())
	}
	if !bring(t, restored, c, "a", ever) {
		t.Fatal("it did not end")
	}
	want, got := values(t, old), values(t, restored)
	delete(want, history.OwnerKey(nodeOne))
	want[history.GenerationKey(nodeOne)] = fmt.Sprintf(`{"generation":"%s:1","digest":{"config":"d1"}}`, newStore)
	m, err := fleet.ParseMemory([]byte(got[history.PushKey(nodeOne)]))
	if err != nil || m.Push.Number != 12+ahead || m.Push.Digest.Config != "d1" || !m.Adopted {
		t.Errorf("pushes: %+v, %v", m, err)
	}
	want[history.PushKey(nodeOne)] = got[history.PushKey(nodeOne)]
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestAnEmptyStoreIsABackupToo is a store without a key.
func TestAnEmptyStoreIsABackupToo(t *testing.T) {
	m := kv.NewModel()
	if c := read(t, taken(t, kv.NewModel())); !bring(t, m, c, "a", ever) || len(values(t, m)) != 0 {
		t.Error(values(t, m))
	}
}

// TestABackupIsOfOneRevision writes while the pages are read.
func TestABackupIsOfOneRevision(t *testing.T) {
	m := kv.NewModel()
	for i := range 2*page + 10 {
		store(t, m, kv.Key(fmt.Sprintf("k/%04d", i)), []byte("old"))
	}
	busy := writing{reader{m}, t}
	s, err := Open(busy, Header{Store: oldStore})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.Write(busy, &out); err != nil {
		t.Fatal(err)
	}
	c := read(t, out.Bytes())
	for _, e := range c.entries {
		if l, err := c.readLine(e); err != nil || string(l.Value) != "old" {
			t.Fatalf("%s is %s, %v", e.key, l.Value, err)
		}
	}
	if len(c.entries) != 2*page+10 {
		t.Errorf("%d keys", len(c.entries))
	}
}

// writing writes after each page that it reads.
type writing struct {
	reader
	t *testing.T
}

func (w writing) List(p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	out, err := w.reader.List(p, o)
	store(w.t, w.Model, "k/0700", []byte("new"))
	store(w.t, w.Model, kv.Key(fmt.Sprint("k/more", out.Revision, o.After == "")), []byte("new"))
	return out, err
}

// TestADamagedBackupIsRefused cuts a backup at each byte, and changes each byte.
func TestADamagedBackupIsRefused(t *testing.T) {
	text := taken(t, small(t))
	for at := range text {
		if _, err := Read(bytes.NewReader(text[:at])); !errors.As(err, new(config.Faults)) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		changed := bytes.Clone(text)
		changed[at] ^= 1
		if _, err := Read(bytes.NewReader(changed)); !errors.As(err, new(config.Faults)) {
			t.Fatalf("byte %d changed to %q: %v\n%s", at, changed[at], err, changed)
		}
	}
}

// TestWhatIsWrongWithABackup has a message for each kind of damage, and reports several at once.
func TestWhatIsWrongWithABackup(t *testing.T) {
	whole := strings.SplitAfter(strings.TrimSuffix(string(taken(t, small(t))), "\n"), "\n")
	whole[len(whole)-1] += "\n"
	with := func(i int, old, now string) string {
		if !strings.Contains(whole[i], old) {
			t.Fatalf("%s has no %s", whole[i], old)
		}
		out := append([]string{}, whole...)
		out[i] = strings.Replace(out[i], old, now, 1)
		return strings.Join(out, "")
	}
	all := strings.Join(whole, "")
	for _, c := range []struct {
		what, text string
		said       []string
	}{
		{"nothing", "", []string{"is empty"}},
		{"another file", "{\"network\":{}}\n",
			[]string{"line 1", "invalid first line of a backup: must be a file that edgespan-controller backup wrote"}},
		{"a newer form", with(0, `"format":1`, `"format":2`), []string{"format is 2: must be 1 or less", `"1.2.3"`}},
		{"a cut", strings.Join(whole[:3], ""), []string{"ends after 2 of 6 keys", "cut off"}},
		{"a changed value", with(2, `"value":"`, `"value":"QUFB`), []string{"the file was changed"}},
		{"a key twice", strings.Join(append(append(append([]string{}, whole[:3]...), whole[2]), whole[3:]...), ""),
			[]string{"is in line 3, too", "the file has 7 keys: the last line says 6", "was changed"}},
		{"more behind it", all + "{}\n", []string{"followed by more"}},
		{"a line that is none", with(3, "{", "["), []string{"line 4", "invalid key"}},
		{"a generation that is none", with(4, "objects/aa", "generations/x"), []string{"value of"}},
		{"another count", with(0, `"keys":6`, `"keys":5`), []string{"the first line says 5"}},
		{"the key of a restore", with(3, strings.Split(whole[3], `"`)[3], "restoring"), []string{"restore's own key"}},
		{"a revision of later", with(3, `"revision":`, `"revision":9`), []string{"must be 1 to 7"}},
		{"a key that is none", with(3, strings.Split(whole[3], `"`)[3], "a//b"), []string{"line 4"}},
		{"a line without an end", strings.TrimSuffix(all, "\n"), []string{"cut off"}},
		{"a line that is too long", whole[0] + strings.Repeat("x", longest+2<<20), []string{"is longer than"}},
	} {
		_, err := Read(strings.NewReader(c.text))
		if !errors.As(err, new(config.Faults)) {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		for _, said := range c.said {
			if !strings.Contains(err.Error(), said) {
				t.Errorf("%s: no %q in\n%v", c.what, said, err)
			}
		}
	}
}

// TestAFailingReaderIsNoDamage tells an error of a disk from damage.
func TestAFailingReaderIsNoDamage(t *testing.T) {
	gone := errors.New("gone")
	if _, err := Check(failing{strings.NewReader("{"), gone}); !errors.Is(err, gone) {
		t.Error(err)
	}
}

type failing struct {
	r   *strings.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	if f.r.Len() == 0 {
		return 0, f.err
	}
	return f.r.Read(p)
}
