package tape

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counter is a core that adds what it is told.
type (
	counter struct {
		sum   int
		pass  string
		hook  func()
		notes map[string]string
	}
	add struct {
		N        int
		Password string
		Note     string
	}
	said struct{ Text string }
)

func (c *counter) Step(e add) []said {
	if e.N == 666 {
		panic("it is evil")
	}
	if c.sum += e.N; e.Password != "" {
		c.pass = e.Password
	}
	if c.notes == nil {
		c.notes = map[string]string{}
	}
	c.notes[fmt.Sprint(len(c.notes)%3)] = e.Note
	if e.N < 0 {
		c.hook = func() {} // such a state can't be written
	}
	return []said{{fmt.Sprintf("%d %s", c.sum, c.pass)}}
}

// off is a counter of another release, which decides otherwise from a sum on.
type off struct{ counter }

func (c *off) Step(e add) []said {
	out := c.counter.Step(e)
	if c.sum == 6 {
		out[0].Text = "six"
	}
	return out
}

func counters() map[string]Kind { return map[string]Kind{"counter": KindOf[*counter, add, said](nil)} }

// disk is a sink in memory, whose segments are full with some lines.
type disk struct {
	mu       sync.Mutex
	segments []*bytes.Buffer
	limit    int
	err      error
	hang     chan struct{} // nil: it does not hang
}

func newDisk(limit int) *disk { return &disk{segments: []*bytes.Buffer{{}}, limit: limit} }

func (d *disk) Append(lines []byte) (bool, error) {
	d.mu.Lock()
	hang := d.hang
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return false, d.err
	}
	last := d.segments[len(d.segments)-1]
	last.Write(lines)
	return last.Len() > d.limit, nil
}

func (d *disk) Next() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.segments = append(d.segments, &bytes.Buffer{})
	}
	return d.err
}

func (d *disk) set(err error, hang chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.hang = err, hang
}

// record runs f with a recorder that writes to d, on a fake clock.
func record(t *testing.T, d *disk, f func(*Recorder)) (faults []string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		r := NewRecorder(testCodec(), Head{Version: "v1", Start: 1})
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(done, d, func(err error) { faults = append(faults, fmt.Sprint(err)) })
		}()
		f(r)
		close(done)
		<-ended
	})
	return faults
}

// play replays segments, and returns what it saw.
func play(t *testing.T, kinds map[string]Kind, segments []*bytes.Buffer) (all []Moment, p *Player) {
	t.Helper()
	p = NewPlayer(testCodec(), kinds)
	for i, s := range segments {
		if _, err := p.Play(bytes.NewReader(s.Bytes()), func(m Moment) bool {
			if m.Core != "" || m.Said != nil || m.Lost > 0 || m.End != "" {
				all = append(all, m)
			}
			return true
		}); err != nil {
			t.Fatalf("segment %d: %v", i, err)
		}
	}
	return all, p
}

// faultsOf returns what a replay has found.
func faultsOf(all []Moment) (out []string) {
	for _, m := range all {
		if m.Differs || m.State != "" || m.Skip != "" {
			out = append(out, fmt.Sprintf("%d %v %s %s", m.N, m.Differs, m.State, m.Skip))
		}
	}
	return out
}

func TestARecordingReplaysFromEachOfItsSegments(t *testing.T) {
	d := newDisk(2000)
	faults := record(t, d, func(r *Recorder) {
		a, b := &counter{}, &counter{}
		la, lb := r.Reel("counter", "a"), r.Reel("counter", "b")
		for i := range 200 {
			Step(la, a, add{N: i, Note: strings.Repeat("x", i)})
			Step(lb, b, add{N: 1})
			r.Say(said{"hello"})
			time.Sleep(100 * time.Millisecond)
		}
	})
	if len(d.segments) < 5 || len(faults) > 0 {
		t.Fatalf("%d segments, faults %q", len(d.segments), faults)
	}
	all, p := play(t, counters(), d.segments)
	if w := faultsOf(all); len(all) != 600 || len(w) > 0 {
		t.Errorf("%d moments, %q", len(all), w)
	}
	if c, is := p.Core("counter", "a").(*counter); !is || c.sum != 199*100 {
		t.Errorf("the core is %+v in the end", p.Core("counter", "a"))
	}
	for from := range d.segments {
		part, _ := play(t, counters(), d.segments[from:])
		for _, m := range part {
			if m.Differs || m.State != "" {
				t.Errorf("from segment %d: %v", from, faultsOf(part))
				break
			}
		}
		if skipped := len(faultsOf(part)); skipped > 2 {
			t.Errorf("from segment %d: %d steps can't be replayed", from, skipped)
		}
	}
}

func TestAReplayShowsWhereAnotherReleaseDecidesOtherwise(t *testing.T) {
	d := newDisk(1 << 20)
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		for range 10 {
			Step(l, c, add{N: 1})
		}
	})
	all, p := play(t, map[string]Kind{"counter": KindOf[*off, add, said](nil)}, d.segments)
	var differ []string
	for _, m := range all {
		if m.Differs {
			differ = append(differ, p.Difference(m))
		}
	}
	if want := []string{`[0].Text: "6 " -> "six"`}; !slices.Equal(differ, want) {
		t.Errorf("got %q, want %q", differ, want)
	}
}

// What a core is changed by besides its steps shows at its next state.
func TestAReplayShowsAnotherState(t *testing.T) {
	d := newDisk(1 << 20)
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		for i := range 2 * stateEvery {
			if i == stateEvery/2 {
				c.notes["0"] = "changed by somebody"
				c.notes["9"] = "kept"
			}
			Step(l, c, add{N: 1})
		}
	})
	all, _ := play(t, counters(), d.segments)
	got := faultsOf(all)
	if len(got) != 1 || !strings.Contains(got[0], `notes.9: nothing -> "kept"`) && !strings.Contains(got[0],
		`notes.9: "kept" -> nothing`) {
		t.Errorf("%q", got)
	}
}

func TestASecretIsNowhereInARecording(t *testing.T) {
	d := newDisk(1 << 20)
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		Step(l, c, add{N: 1, Password: "hunter22"})
		Step(l, c, add{N: 1, Note: "it is hunter22, or hunter2"})
		r.Say(said{"hunter22 was used"})
		Step(l, c, add{N: 1, Password: "hunter22"})
	})
	text := d.segments[0].String()
	if strings.Contains(text, "hunter22") || !strings.Contains(text, "hunter2") {
		t.Errorf("%s", text)
	}
	all, _ := play(t, counters(), d.segments)
	if w := faultsOf(all); len(w) > 0 || len(all) != 4 {
		t.Errorf("%d moments: %q", len(all), w)
	}
}

// A weak secret is a part of names and numbers, and is replaced in texts for people alone.
func TestAWeakSecret(t *testing.T) {
	type talk struct {
		ID, Error string
		By        map[string]int
	}
	e := encoder{c: testCodec(), masks: newMasks()}
	e.value([]any{&disc{Password: "1234"}})
	e.out = nil
	e.value(&talk{"10000000-0000-4000-8000-000000001234", "1234 is wrong", map[string]int{"1234": 1}})
	if text := string(e.out); !strings.Contains(text, "000000001234") || !strings.Contains(text, `"Error":"secret-`) ||
		!strings.Contains(text, `{"1234":1}`) {
		t.Errorf("%s", text)
	}
}

// The event of a core that panics is in the recording, and panics again.
func TestAPanicReplays(t *testing.T) {
	d := newDisk(1 << 20)
	step := func(l *Reel, c *counter, e add) {
		defer func() { _ = recover() }() // a supervisor
		Step(l, c, e)
	}
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		step(l, c, add{N: 1})
		step(l, c, add{N: 666})
		c, l = &counter{}, r.Reel("counter", "a") // another incarnation
		step(l, c, add{N: 2})
	})
	all, p := play(t, counters(), d.segments)
	if w := faultsOf(all); len(all) != 3 || len(w) > 0 || all[1].Panics != "it is evil" || p.Core("counter", "a").(*counter).
		sum != 2 {
		t.Errorf("%q, %+v", w, all)
	}
	all, _ = play(t, map[string]Kind{"counter": KindOf[*mended, add, said](nil)}, d.segments)
	if len(all) != 3 || !all[1].Differs || all[1].Panics != "" || all[2].Differs {
		t.Errorf("mended: %+v", all)
	}
}

// mended is a counter of a release that does not panic.
type mended struct{ counter }

func (c *mended) Step(e add) []said {
	e.N %= 666
	return c.counter.Step(e)
}

// Another release has states that this one can't go on from; and somebody makes a recording to use up memory.
func TestAForeignRecordingIsPlayedAsFarAsItGoes(t *testing.T) {
	head := `{"head":{"Start":1}}` + "\n"
	bad := head + `{"n":1,"core":"counter","of":"a","new":true,"state":null,"event":{"N":1}}` + "\n" +
		`{"n":2,"core":"counter","of":"b","new":true,"state":{},"event":{"N":1},"effects":[{"Text":"1 "}]}` + "\n"
	all, _ := play(t, counters(), []*bytes.Buffer{bytes.NewBufferString(bad)})
	if len(all) != 2 || all[0].Panics == "" || !all[0].Differs || all[1].Differs || all[1].Skip != "" {
		t.Errorf("%+v", all)
	}
	bomb := head + `{"value":"0","is":["x","x"]}` + "\n"
	for i := range 40 {
		bomb += fmt.Sprintf(`{"value":"%d","is":[{"=":"%d"},{"=":"%d"}]}`+"\n", i+1, i, i)
	}
	p := NewPlayer(testCodec(), counters())
	if _, err := p.Play(strings.NewReader(bomb), func(Moment) bool { return true }); err != nil {
		t.Error(err)
	}
	if p.Whole([]byte(`{"=":"40"}`)) == nil {
		t.Error("nothing is left of it")
	}
}

// What is told elsewhere, and what stands in URLs.
func TestSecretsThatAreLearnt(t *testing.T) {
	d := newDisk(1 << 20)
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		r.Learn(map[string]string{"password": "hunter22", "user": "app"})
		Step(l, c, add{N: 1, Note: "auth of app:hunter22@db failed, hunter hunte hunter22hunter22"})
		Step(l, c, add{N: 1, Note: "https://app:open/sesame@h https://app:sesame42@h/x"})
		Step(l, c, add{N: 1, Note: "https://app:sesame42@h/x"})
		(*Recorder)(nil).Learn("x")
	})
	text := d.segments[0].String()
	for _, secret := range []string{"hunter22", "sesame42"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	for _, want := range []string{"auth of app:secret-", "hunter hunte secret-", "https://app:secret-"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	all, _ := play(t, counters(), d.segments)
	if w := faultsOf(all); len(w) > 0 {
		t.Errorf("%q", w)
	}
}

// A short secret is a part of ordinary words: it is replaced in its own place alone.
func TestAShortSecret(t *testing.T) {
	e := encoder{c: testCodec(), masks: newMasks()}
	e.value([]any{&disc{Password: "abc"}, "abc", map[string]any{"password": "abc"}})
	if text := string(e.out); strings.Count(text, `"abc"`) != 2 || strings.Count(text, "secret-") != 1 || e.err != nil {
		t.Errorf("%s, %v", text, e.err)
	}
}

// More secrets than can be known are no reason to write one: the recording ends, and says why, also after a full disk.
func TestARecordingEndsWithTooManySecrets(t *testing.T) {
	one := func(i int) string { return fmt.Sprintf("%05d secret number", i*10) }
	for what, f := range map[string]func(*Recorder, *disk){
		"in steps": func(r *Recorder, _ *disk) {
			c, l := &counter{}, r.Reel("counter", "a")
			for i := range maxSecrets + 10 {
				Step(l, c, add{N: 1, Password: one(i)})
			}
		},
		"in one state": func(r *Recorder, _ *disk) {
			c, l := &counter{notes: map[string]string{}}, r.Reel("counter", "a")
			for i := range maxSecrets + 10 {
				c.notes[fmt.Sprint(i, " password")] = one(i)
			}
			Step(l, c, add{N: 1})
		},
		"in what is learnt, while the disk is full": func(r *Recorder, d *disk) {
			Step(r.Reel("counter", "a"), &counter{}, add{N: 1})
			d.set(errors.New("no space left on device"), nil)
			for i := range maxSecrets + 10 {
				r.Learn(map[string]string{"password": one(i)})
			}
			time.Sleep(time.Minute)
			d.set(nil, nil)
		},
	} {
		d := newDisk(1 << 30)
		faults := record(t, d, func(r *Recorder) {
			f(r, d)
			time.Sleep(time.Minute)
			r.Say(said{"it goes on"})
			Step(r.Reel("counter", "b"), &counter{}, add{N: 1, Note: one(maxSecrets + 5)})
		})
		if n := strings.Count(strings.Join(faults, "\n"), ErrSecrets.Error()); n != 1 {
			t.Errorf("%s: it is told %d times: %q", what, n, faults)
		}
		text := ""
		for _, s := range d.segments {
			text += s.String()
		}
		if strings.Contains(text, "secret number") || strings.Contains(text, "it goes on") {
			t.Errorf("%s: one is in it, or what came after the end", what)
		}
		all, _ := play(t, counters(), d.segments)
		ends := 0
		for _, m := range all {
			if m.End != "" {
				ends++
			}
		}
		if n := len(all); ends != 1 || all[n-1].End != ErrSecrets.Error() || all[n-1].At.IsZero() {
			t.Errorf("%s: %d moments, %d ends, the last is %+v", what, n, ends, all[n-1])
		}
	}
}

// A disk that is full costs a part of the recording, and says so.
func TestAFullDiskLeavesAGap(t *testing.T) {
	d := newDisk(1 << 20)
	steps := 0
	faults := record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		some := func() {
			for range 20 {
				Step(l, c, add{N: 1})
				steps++
				time.Sleep(time.Second)
			}
		}
		some()
		d.set(errors.New("no space left on device"), nil)
		some()
		d.set(nil, nil)
		some()
		some()
	})
	if want := []string{"no space left on device", "<nil>"}; !slices.Equal(faults, want) {
		t.Errorf("it says %q", faults)
	}
	all, p := play(t, counters(), d.segments)
	lost, replayed := 0, 0
	for _, m := range all {
		if lost += m.Lost; m.Core != "" {
			replayed++
		}
	}
	if w := faultsOf(all); len(w) > 0 || lost < 15 || lost+replayed != steps || p.Core("counter", "a").(*counter).sum != steps {
		t.Errorf("of %d steps %d are lost and %d replayed: %q", steps, lost, replayed, w)
	}
}

// A disk that hangs delays no core, and takes a bounded amount of memory.
func TestADiskThatHangsDelaysNothing(t *testing.T) {
	d := newDisk(1 << 30)
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		hang := make(chan struct{})
		d.set(nil, hang)
		note := strings.Repeat("n", 1<<20)
		began := time.Now()
		for range 100 {
			Step(l, c, add{N: 1, Note: note})
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("100 steps took %v", took)
		}
		r.mu.Lock()
		if len(r.waiting) > maxWaiting+8<<20 {
			t.Errorf("%d octets wait", len(r.waiting))
		}
		r.mu.Unlock()
		d.set(nil, nil)
		close(hang)
		time.Sleep(time.Minute)
		for range 10 {
			Step(l, c, add{N: 1})
		}
	})
	all, p := play(t, counters(), d.segments)
	if w := faultsOf(all); len(w) > 0 || p.Core("counter", "a").(*counter).sum != 110 {
		t.Errorf("%q, the sum is %d", w, p.Core("counter", "a").(*counter).sum)
	}
}

// A state that can't be written makes a gap of one core.
func TestACoreThatCannotBeWrittenIsLeftOut(t *testing.T) {
	d := newDisk(1 << 20)
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		Step(l, c, add{N: -1})
		l.steps = stateEvery // its state is due
		Step(l, c, add{N: 1})
		Step(l, c, add{N: 1})
	})
	all, _ := play(t, counters(), d.segments)
	if w := faultsOf(all); len(w) != 2 || !strings.Contains(w[0], errFunction.Error()) {
		t.Errorf("%q", w)
	}
}

// The end of a segment may be missing, at any octet.
func TestASegmentIsReadAsFarAsItGoes(t *testing.T) {
	d := newDisk(1 << 20)
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		for range 20 {
			Step(l, c, add{N: 1})
		}
	})
	whole := d.segments[0].Bytes()
	first := bytes.IndexByte(whole, '\n') + 1
	for end := first; end < len(whole); end += 7 {
		all, _ := play(t, counters(), []*bytes.Buffer{bytes.NewBuffer(whole[:end:end])})
		if w := faultsOf(all); len(w) > 0 {
			t.Fatalf("cut at %d: %q", end, w)
		}
	}
	p := NewPlayer(testCodec(), counters())
	for _, text := range []string{"no recording\n", `{"n":1}` + "\n"} {
		if _, err := p.Play(strings.NewReader(text), func(Moment) bool { return true }); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// Many actors record at one time.
func TestManyCoresRecordAtOnce(t *testing.T) {
	d := newDisk(20_000)
	record(t, d, func(r *Recorder) {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				c, l := &counter{}, r.Reel("counter", fmt.Sprint(i))
				for n := range 50 {
					Step(l, c, add{N: n, Password: fmt.Sprint("password ", n)})
					time.Sleep(time.Duration(i+1) * time.Millisecond)
				}
			})
		}
		all.Wait()
	})
	all, _ := play(t, counters(), d.segments)
	if w := faultsOf(all); len(w) > 0 || len(all) != 1000 {
		t.Errorf("%d moments: %q", len(all), w)
	}
}

func TestNoRecorderRecordsNothing(t *testing.T) {
	var r *Recorder
	c := &counter{}
	r.Say(said{"x"})
	if got := Step(r.Reel("counter", "a"), c, add{N: 1}); len(got) != 1 || c.sum != 1 {
		t.Errorf("%v", got)
	}
}

func BenchmarkStep(b *testing.B) {
	d := newDisk(1 << 40)
	r := NewRecorder(testCodec(), Head{})
	done, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); r.Run(done, discard{d}, func(error) {}) }()
	c, l := &counter{}, r.Reel("counter", "a")
	for b.Loop() {
		Step(l, c, add{N: 1, Note: "a note"})
	}
	close(done)
	<-ended
}

// discard is a disk that keeps nothing.
type discard struct{ *disk }

func (discard) Append([]byte) (bool, error) { return false, nil }
