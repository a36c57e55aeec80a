package ops

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
)

// tester is a *testing.T, a *testing.B or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

const testdata = "../../testdata/terragraph/"

func doc(t tester, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	return o
}

// store is a model of the store behind a history.Reader.
type store struct{ *kv.Model }

func (s store) Get(keys ...kv.Key) ([]kv.Entry, error) {
	out := make([]kv.Entry, len(keys))
	for i, key := range keys {
		e, _, err := s.Model.Get(key)
		if err != nil {
			return nil, err
		}
		e.Key = key
		out[i] = e
	}
	return out, nil
}

// bench is a controller without anything around: a store, and a world over its head.
type bench struct {
	tester
	store store
	Snapshot
}

// The metadata of the tests is the original's, and a secret.
var testMetadata = func() *metadata.Metadata {
	text, err := os.ReadFile(testdata + "config_metadata.json")
	if err != nil {
		panic(err)
	}
	o, _ := config.ParseObject(text)
	secret := config.Object{"desc": "d", "type": "STRING", "action": "NO_ACTION", "secret": true}
	m, faults := metadata.Parse(config.Set(o, []string{"wifi", "password"}, secret), metadata.Options{})
	if faults != nil {
		panic(faults)
	}
	return m
}()

var testE2E = func() map[string]*metadata.Metadata {
	out := map[string]*metadata.Metadata{}
	for name, o := range map[string]config.Object{"controller": schema.ControllerMetadata(),
		"aggregator": schema.AggregatorMetadata()} {
		m, faults := metadata.Parse(o, metadata.Options{E2E: true})
		if faults != nil {
			panic(faults)
		}
		out[name] = m
	}
	return out
}()

var errBroken = errors.New("RELEASE_M99.json: invalid JSON")

// newBench has the original's base layers, and a base RELEASE_M99 that can't be read.
func newBench(t tester, nodes ...string) *bench {
	t.Helper()
	b := &bench{tester: t, store: store{kv.NewModel()}}
	b.Hardware = fleet.Hardware{Library: layers.Library{
		Base: []string{"RELEASE_M80", "RELEASE_M81", "RELEASE_M99"}, Firmware: []string{"10.11.0"},
		Hardware: map[string][]string{"puma": {"RELEASE_M80"}}, Boards: map[string]string{"board-1": "puma"},
	}}
	b.Metadata, b.E2E, b.MaskKey = testMetadata, testE2E, []byte("key")
	known := map[string]config.Object{
		"RELEASE_M80": doc(t, `{"sysParams":{"managedConfig":false,"logLevel":0},"old":true}`),
		"RELEASE_M81": doc(t, `{"sysParams":{"managedConfig":false}}`),
		"10.11.0":     doc(t, `{"envParams":{"FW":"10"}}`),
		"puma":        doc(t, `{"envParams":{"HW":"puma"}}`),
	}
	b.Layers = func(k fleet.Kind) (layers.Set, error) {
		set := layers.Set{layers.Base: known[k.Base], layers.Firmware: known[k.Firmware]}
		if k.Hardware != "" {
			set[layers.Hardware] = known[k.Type]
		}
		if k.Base == "RELEASE_M99" {
			return set, errBroken
		}
		return set, nil
	}
	b.Nodes = map[string]NodeFact{}
	for _, name := range nodes {
		b.Nodes[name] = NodeFact{Versions: layers.Versions{Software: "RELEASE_M81"}, Reported: true, Alive: true, ID: "id-" +
			name}
	}
	b.head()
	return b
}

func (b *bench) head() {
	b.Helper()
	state, err := history.Head(b.store)
	if err != nil {
		b.Fatal(err)
	}
	b.State = state
}

// commit stores the change of an outcome.
func (b *bench) commit(o WriteOutcome) history.RevisionRecord {
	b.Helper()
	c := o.Change
	c.Author, c.Time = "alice", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p, err := b.State.Plan(c)
	if err != nil {
		b.Fatal(err)
	}
	for _, txn := range p.Txns {
		if outcome, err := b.store.Commit(txn); err != nil || !outcome.Succeeded {
			b.Fatalf("commit: %v %v", outcome, err)
		}
	}
	b.head()
	return p.Record
}

// do judges a write that must pass, and stores it.
func (b *bench) do(w Write) WriteOutcome {
	b.Helper()
	o, err := b.Validate(w)
	if err != nil {
		b.Fatalf("%T: %v", w, err)
	}
	b.commit(o)
	return o
}

// refuses judges a write that must not pass: its error has all of the words, and nothing is
// another.
func (b *bench) refuses(w Write, words ...string) {
	b.Helper()
	before := b.digest()
	_, err := b.Validate(w)
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			b.Errorf("%T: %v; want %q", w, err, word)
		}
	}
	if err == nil {
		b.Errorf("%T passes", w)
	}
	if b.digest() != before {
		b.Errorf("%T: refused, and the state is another", w)
	}
}

func (b *bench) digest() string {
	b.Helper()
	b.head()
	d, err := b.State.Digest()
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// tell is a layer in one line, "" where there is none.
func (b *bench) tell(layer string) string {
	b.Helper()
	l, err := history.ParseLayer(layer)
	if err != nil {
		b.Fatal(err)
	}
	v, err := b.State.Layer(l)
	if err != nil {
		b.Fatal(err)
	}
	if v.Document == nil {
		return ""
	}
	return config.OneLine(v.Document)
}

func (b *bench) has(layer, want string) {
	b.Helper()
	if got := b.tell(layer); got != want {
		b.Errorf("%s: %s, want %s", layer, got, want)
	}
}

func (b *bench) read(d DocumentAnswer, err error) string {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	return config.OneLine(d.Object)
}

// paths reads "a.b c".
func paths(t tester, text string) [][]string {
	t.Helper()
	var out [][]string
	for _, word := range strings.Fields(text) {
		out = append(out, strings.Split(word, "."))
	}
	return out
}

// changes are the effects in one line: "n1 n2: a.b 1 to 2".
func changes(o WriteOutcome) string {
	var lines []string
	for _, e := range o.Effects {
		line := strings.Join(e.Nodes, " ") + ":"
		for _, v := range e.Values {
			line += fmt.Sprintf(" %s %s to %s", config.FormatPath(v.Path), config.OneLine(v.Old), config.OneLine(v.New))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func actions(o WriteOutcome) string {
	var out []string
	for _, e := range o.Effects {
		for _, a := range e.Actions {
			out = append(out, a.Name)
		}
	}
	for _, a := range o.Actions {
		out = append(out, a.Name)
	}
	return strings.Join(out, " ")
}

func unknown(o WriteOutcome) string {
	var out []string
	for _, p := range o.Unknown {
		out = append(out, path.Join(p...))
	}
	return strings.Join(out, " ")
}

func TestMain(m *testing.M) { os.Exit(m.Run()) }
