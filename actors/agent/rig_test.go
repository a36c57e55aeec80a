package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf/action"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/pubsub/trace"
)

// memDisk is a disk in memory whose power goes at a write.
type memDisk struct {
	mu    sync.Mutex
	files map[string][]byte
	cut   int  // writes until the power goes; 0 for never
	kept  bool // the write at which it goes is on the disk
	off   chan struct{}
	dead  bool
	fail  error
	hang  <-chan struct{}
	count int
	spare map[string]bool   // written without waiting: the power cut may spoil them
	gone  map[string][]byte // removed without waiting: the power cut may bring them back
}

var errPower = errors.New("the power is off")

func (d *memDisk) Read(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, there := d.files[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

func (d *memDisk) change(f func()) error {
	d.mu.Lock()
	hang := d.hang
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead || d.fail != nil {
		return errors.Join(d.fail, errPower)
	}
	d.count++
	if d.cut > 0 {
		if d.cut--; d.cut == 0 {
			if d.dead = true; d.kept {
				f()
			} else {
				for name := range d.spare {
					d.files[name] = d.files[name][:len(d.files[name])/2]
				}
				maps.Copy(d.files, d.gone)
			}
			close(d.off)
			return errPower
		}
	}
	f()
	return nil
}

func (d *memDisk) Write(name string, content []byte) error {
	return d.change(func() {
		d.files[name] = slices.Clone(content)
		delete(d.gone, name)
	})
}

func (d *memDisk) WriteSpare(name string, content []byte) error {
	return d.change(func() {
		d.files[name] = slices.Clone(content)
		if d.spare == nil {
			d.spare = map[string]bool{}
		}
		d.spare[name] = true
	})
}

func (d *memDisk) Remove(name string) error {
	return d.change(func() {
		if content, there := d.files[name]; there {
			if d.gone == nil {
				d.gone = map[string][]byte{}
			}
			d.gone[name] = content
		}
		delete(d.files, name)
	})
}

// memHost is a host in memory: what is published settles after a while.
type memHost struct {
	r       *rig
	wake    func()
	last    commitconfirm.Publish
	all     []string
	after   time.Duration // negative for never
	settled bool
	trouble string
	during  func()        // a publication
	drained func()        // a drain
	traced  trace.Context // the last publication's
	timer   *time.Timer
	mu      sync.Mutex
}

func (h *memHost) Start(wake func()) { h.wake = wake }

func (h *memHost) Drain() {
	if h.drained != nil {
		h.drained()
	}
}

func (h *memHost) Stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}
func (h *memHost) ReportProblem(text string) { h.trouble = text }

// settleAfter is how long a publication takes from now on.
func (h *memHost) settleAfter(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.after = d
}

func (h *memHost) Publish(p commitconfirm.Publish, of trace.Context) {
	h.traced = of
	if h.during != nil {
		h.during()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Document["bad"] != nil || p.Config != config.MD5(p.Document)+p.Peer {
		h.r.Errorf("published is %v of %v", p.Document, p.Config)
	}
	h.last, h.settled = p, false
	h.all = append(h.all, short(p.Document))
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.after >= 0 {
		wake := h.wake // of the incarnation that publishes
		h.timer = time.AfterFunc(h.after, func() {
			h.mu.Lock()
			h.settled = true
			h.mu.Unlock()
			wake()
		})
	}
}

// Observe: the uplink is as the document says, and goes with it.
func (h *memHost) Observe() Observation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Observation{Settled: h.settled, Health: []nodeproto.HealthReport{
		{Name: "app", Good: h.last.Document["app"] != "bad"},
		{Name: "uplink", Good: h.last.Document["uplink"] != "bad"},
	}, Parameters: []nodeproto.ParameterReport{{ID: "ni/1", Kind: "network-instance", State: "Present",
		Generation: h.last.Generation}, {ID: "ni/2"}}}
}

func (h *memHost) published() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return short(h.last.Document)
}

type memRunner struct {
	mu        sync.Mutex
	did       []string
	fail      map[string]error
	restarted []string
	noRestart error
	takes     time.Duration
}

func (r *memRunner) Do(ctx context.Context, do action.Do, _ config.Object) error {
	t := time.NewTimer(r.takes)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, do.String())
	return r.fail[do.String()]
}

func (r *memRunner) Restart(_ context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noRestart == nil {
		r.restarted = append(r.restarted, name)
	}
	return r.noRestart
}

// rig is one node in a bubble of fake time.
type rig struct {
	testing.TB
	system  *actor.ActorSystem
	disk    *memDisk
	host    *memHost
	runner  *memRunner
	ctl     *controller
	agent   *Agent
	pid     *actor.PID
	starts  int
	machine int
	facts   NodeFacts
	file    []byte
	hasFile bool
	fileErr error
	attempt uint64
	counter uint64
	tracer  *trace.Tracer
	trace   string // of the next pushes
}

func onRig(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		f(r)
		r.stop()
		r.settle(5 * time.Second) // the library counts dead letters for a second
		r.system.Shutdown()
	})
}

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, disk: &memDisk{files: map[string][]byte{}, off: make(chan struct{})},
		runner: &memRunner{fail: map[string]error{}}}
	r.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	r.host = &memHost{r: r, after: 50 * time.Millisecond}
	r.facts = NodeFacts{
		Name: "n", Software: "EDGESPAN-0-1-0", Board: "b1", Controller: "c.example:8444", Metadata: everyAction(t),
		Actions: action.ActionTable{},
		Bases:   map[string]config.Object{"BASE_2": doc(t, `{"base":2}`), "BASE_10": doc(t, `{"base":10}`)},
	}
	return r
}

// everyAction is metadata with an entry for each action: x.NAME asks for NAME.
func everyAction(t testing.TB) *metadata.Metadata {
	entries := config.Object{}
	for _, name := range metadata.ActionNames() {
		entries[name] = config.Object{"action": name, "desc": "d", "type": "INTEGER"}
	}
	// some are of properties only
	x := config.Object{"desc": "d", "action": "NO_ACTION", "type": "OBJECT",
		"objVal": config.Object{"properties": entries}}
	m, faults := metadata.Parse(config.Object{"x": x}, metadata.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

func doc(t testing.TB, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	return o
}

func short(o config.Object) string {
	return strings.NewReplacer("\n", "", " ", "", `"`, "").Replace(string(config.AppendCanonical(nil, o)))
}

// validate takes all but what is bad.
func validate(document config.Object, peer string, from commitconfirm.Source) commitconfirm.Verdict {
	v := commitconfirm.Verdict{Config: config.MD5(document) + peer}
	if document["bad"] != nil {
		v = commitconfirm.Verdict{}
		v.Faults.Add([]string{"bad"}, "is bad", "nothing is allowed")
	}
	if peer == "bad" {
		v.Config = nil
		v.Faults.Add([]string{"peer"}, "is bad", "")
	}
	if from != commitconfirm.Push && document["vendor"] != nil {
		v.Faults.Add([]string{"vendor"}, "is unknown", "")
	}
	return v
}

func (r *rig) start() {
	r.Helper()
	r.starts++
	log := zap.NewNop()
	if os.Getenv("EDGESPAN_TEST_LOG") != "" {
		log = zaptest.NewLogger(r.TB)
	}
	r.agent = New(Options{
		Disk: r.disk, Validator: validate, Host: r.host, Runner: r.runner, Machine: fmt.Sprintf("m%d", r.machine),
		Facts: r.facts,
		Log:   log, Tracer: r.tracer,
		File: func() ([]byte, string, error) {
			if !r.hasFile {
				return nil, "", nil
			}
			return r.file, "node.yaml", r.fileErr
		},
	})
	pid, err := r.system.Root.SpawnNamed(actor.PropsFromProducer(r.agent.Producer), fmt.Sprintf("agent%d", r.starts))
	if err != nil {
		r.Fatal(err)
	}
	r.pid = pid
	synctest.Wait()
}

// stop ends the agent as a crash does.
func (r *rig) stop() {
	r.cutLine()
	if err := r.system.Root.StopFuture(r.pid).Wait(); err != nil {
		r.Error(err)
	}
	synctest.Wait()
}

// reboot is another boot of the machine, after a power cut.
func (r *rig) reboot() {
	r.stop()
	r.machine++
	r.start()
}

// connect opens a stream.
func (r *rig) connect() {
	r.cutLine()
	r.ctl = &controller{r: r}
	r.agent.Up(r.ctl)
	synctest.Wait()
}

func (r *rig) cutLine() {
	if r.ctl != nil && !r.ctl.down {
		r.ctl.mu.Lock()
		r.ctl.down = true
		r.ctl.mu.Unlock()
		r.agent.Down(nil)
	}
}

func (r *rig) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// push sends a document as a new generation.
func (r *rig) push(text string) nodeproto.Push {
	r.Helper()
	r.counter++
	return r.pushAs(text, config.Generation{Authority: "c", Counter: r.counter})
}

func (r *rig) pushAs(text string, g config.Generation) nodeproto.Push {
	r.Helper()
	r.attempt++
	o := doc(r, text)
	p := nodeproto.Push{Attempt: r.attempt, Generation: g, MD5: config.MD5(o), Document: config.AppendCanonical(nil, o),
		Managed: true, Trace: r.trace}
	if r.ctl != nil {
		r.ctl.wants(g)
	}
	r.agent.Received(p)
	synctest.Wait()
	return p
}

func (r *rig) apply(text string, with ...func(*Request)) error {
	r.Helper()
	w := Request{Document: doc(r, text), By: "ann"}
	for _, f := range with {
		f(&w)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := r.agent.Apply(ctx, w)
	synctest.Wait()
	return err
}

func (r *rig) status() Status {
	r.Helper()
	s, err := r.agent.Status(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// runs fails the test unless the node runs a document, from a source.
func (r *rig) runs(when, text string, from commitconfirm.Source) {
	r.Helper()
	s := r.status()
	if want := config.MD5(doc(r, text)); s.Echo.MD5 != want || s.Source != from ||
		r.host.published() != short(doc(r, text)) {
		r.Errorf("%s: the node runs %s from %s, in force %s; want %s from %s", when, r.host.published(), s.Source, s.Echo.MD5,
			text, from)
	}
}

// outcomes fails the test unless these results were said on the present stream.
func (r *rig) outcomes(when string, want ...string) {
	r.Helper()
	if got := r.ctl.results(); !slices.Equal(got, want) {
		r.Errorf("%s: the results are %q, want %q", when, got, want)
	}
}

func (d *memDisk) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.files))
}
