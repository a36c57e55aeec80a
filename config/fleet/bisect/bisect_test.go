package bisect

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
)

// canary is a node and the controller's end of it: it applies what is desired, undoes what is not confirmed in time, and
// has items that some configs make bad.
type canary struct {
	now       time.Time
	desired   string // head
	confirmed string
	runs      string
	until     time.Time // it undoes what it runs; zero: confirmed
	offline   bool
	back      time.Time
	failed    map[string]fleet.Reason
	pushes    int

	bad      func(md5 string) bool
	rejects  func(md5 string) bool
	cutsOff  func(md5 string) bool
	unsettle func(md5 string) bool
}

func newCanary(head string) *canary {
	no := func(string) bool { return false }
	return &canary{now: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), desired: head, confirmed: head, runs: head,
		failed: map[string]fleet.Reason{}, bad: no, rejects: no, cutsOff: no, unsettle: no}
}

// pass lets a second pass, with what the controller desires of the canary: a pin, or head, which is confirmed. Without a
// controller nothing is pushed.
func (n *canary) pass(pin string, controller bool) {
	n.now = n.now.Add(time.Second)
	if n.offline && !n.now.Before(n.back) {
		n.offline = false
	}
	if !n.until.IsZero() && !n.now.Before(n.until) {
		if n.runs == pin {
			n.failed[n.runs] = fleet.Unconfirmed
		}
		n.runs, n.until = n.confirmed, time.Time{}
	}
	want := n.desired
	if pin != "" {
		want = pin
	}
	if !controller || n.offline || n.runs == want || n.failed[want] != "" {
		return
	}
	n.pushes++
	if n.rejects(want) {
		n.failed[want] = fleet.Invalid
		return
	}
	n.runs, n.until = want, n.now.Add(timeout)
	if n.cutsOff(want) {
		n.offline, n.back = true, n.until.Add(5*time.Second)
	}
	if pin == "" {
		n.confirmed, n.until = want, time.Time{}
	}
}

func (n *canary) observe(pin string) Observation {
	o := Observation{Online: !n.offline, Desired: n.desired, Pending: !n.until.IsZero(), Settled: !n.unsettle(n.runs),
		Report: Snapshot{MD5: n.runs}, Heard: n.now}
	if pin != "" {
		o.Desired, o.Trial = pin, pin != n.desired
	}
	o.Failed = n.failed[o.Desired]
	o.Taken = n.runs == o.Desired
	if n.bad(n.runs) {
		o.Report.Bad = []string{"port/wan"}
	}
	return o
}

const timeout = 2 * time.Minute

// search returns a record over configs, of revisions 10, 11, ….
func search(configs ...string) *Record {
	r := &Record{Node: "n", Good: 10, Bad: 9 + uint64(len(configs)), Check: Healthy, Timeout: timeout,
		Settle: 5 * time.Second, Began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)}
	for i, md5 := range configs {
		r.Candidates = append(r.Candidates, Candidate{Revision: 10 + uint64(i), MD5: md5})
	}
	r.Begin()
	return r
}

// run runs a search to its end, through its stored form after each change.
func run(t *testing.T, r *Record, n *canary, disturb func(r *Record, n *canary)) *Record {
	t.Helper()
	for range 20000 {
		pin := ""
		if c, ok := r.Pin(); ok {
			pin = c.MD5
		}
		n.pass(pin, true)
		if disturb != nil {
			disturb(r, n)
		}
		if !r.Step(n.now, n.observe(pin)) {
			continue
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		r = &Record{}
		if err := json.Unmarshal(text, r); err != nil {
			t.Fatal(err)
		}
		if r.Phase == Ended {
			return r
		}
	}
	t.Fatalf("the search does not end: %+v", r)
	return nil
}

func texts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("config-%d", i)
	}
	return out
}

// In random histories with one first bad revision the search finds it, with a push for each halving and each end.
func TestTheFirstBadRevisionIsFoundInFewPushes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rand := rand.New(rand.NewPCG(seed, 1))
		configs := texts(2 + rand.IntN(60))
		first := 1 + rand.IntN(len(configs)-1)
		n := newCanary(configs[rand.IntN(len(configs))])
		before := n.runs
		n.bad = func(md5 string) bool { return slices.Index(configs, md5) >= first }
		if rand.IntN(3) == 0 { // the configs cut the node off instead
			n.cutsOff, n.bad, n.confirmed, n.runs, n.desired = n.bad, n.cutsOff, configs[0], configs[0], configs[0]
			before = n.runs
		}
		r := run(t, search(configs...), n, nil)
		got, found := r.First()
		if !found || got.Revision != 10+uint64(first) {
			t.Fatalf("seed %d: %s %v, want revision %d: %+v", seed, r.Result, got, 10+first, r.Steps)
		}
		if r.Pushes > r.MaxPushes() || len(r.Unsure) > 0 {
			t.Fatalf("seed %d: %d pushes of %d revisions", seed, r.Pushes, len(configs))
		}
		if n.runs != before || n.confirmed != before {
			t.Fatalf("seed %d: the canary is left with %s, confirmed %s, want %s", seed, n.runs, n.confirmed, before)
		}
	}
}

// Whatever the nodes reject, whatever can't be judged, and whenever it is aborted: the canary ends with what it had, and
// what is called the first bad revision is bad after a good one.
func TestTheCanaryAlwaysGoesBack(t *testing.T) {
	t.Parallel()
	results := map[string]int{}
	for seed := range uint64(500) {
		rand := rand.New(rand.NewPCG(seed, 2))
		configs := texts(2 + rand.IntN(30))
		for i := range configs { // some changes are undone later
			if rand.IntN(6) == 0 {
				configs[i] = configs[rand.IntN(len(configs))]
			}
		}
		kinds := map[string]int{}
		for _, md5 := range configs {
			kinds[md5] = rand.IntN(8)
		}
		first := rand.IntN(len(configs))
		n := newCanary("head")
		n.bad = func(md5 string) bool { return slices.Index(configs, md5) >= first }
		n.rejects = func(md5 string) bool { return kinds[md5] == 1 }
		n.unsettle = func(md5 string) bool { return kinds[md5] == 2 }
		r := search(configs...)
		abort, cut := rand.IntN(4000), rand.IntN(2000)
		steps := 0
		r = run(t, r, n, func(r *Record, n *canary) {
			steps++
			if steps == abort {
				r.Abort("alice")
			}
			if steps == cut {
				n.offline, n.back = true, n.now.Add(time.Duration(rand.IntN(1500))*time.Second)
			}
		})
		results[r.Result]++
		if n.runs != "head" || n.confirmed != "head" || !n.until.IsZero() {
			t.Fatalf("seed %d: the canary is left with %s: %+v", seed, n.runs, r)
		}
		if r.Pushes > r.MaxPushes() || n.pushes > 2*r.MaxPushes()+1 {
			t.Fatalf("seed %d: %d pushes, %d sent, of %d revisions, %d unsure", seed, r.Pushes, n.pushes, len(configs),
				len(r.Unsure))
		}
		if c, found := r.First(); found && !n.bad(c.MD5) && !n.rejects(c.MD5) && cut > steps {
			t.Fatalf("seed %d: %v is not bad: %+v", seed, c, r.Steps)
		}
	}
	for _, want := range []string{Found, Inconclusive, Failed, Aborted} {
		if results[want] == 0 {
			t.Errorf("no search ended as %s: %v", want, results)
		}
	}
}

// A controller that dies during a test confirms nothing: the canary is back after the time limit, without anybody.
func TestWithoutAControllerTheCanaryGoesBackByItself(t *testing.T) {
	t.Parallel()
	n := newCanary("a")
	r := search("a", "b", "c")
	for r.Test == nil || n.runs != r.Candidates[r.Test.Index].MD5 || n.runs == "a" {
		pin := ""
		if c, ok := r.Pin(); ok {
			pin = c.MD5
		}
		n.pass(pin, true)
		r.Step(n.now, n.observe(pin))
	}
	for range int(timeout / time.Second) {
		n.pass("", false)
	}
	if n.runs != "a" || !n.until.IsZero() {
		t.Errorf("the canary has %s", n.runs)
	}
}

func TestHowRevisionsAreJudged(t *testing.T) {
	t.Parallel()
	past := func(md5 string, p Past) func(*Record, *canary) {
		return func(r *Record, _ *canary) { r.Past = map[string]Past{md5: p} }
	}
	bad := func(list ...string) func(string) bool {
		return func(md5 string) bool { return slices.Contains(list, md5) }
	}
	for name, c := range map[string]struct {
		set    func(r *Record, n *canary)
		result string
		pushes int
		last   string
	}{
		"the running config needs no push": {func(_ *Record, n *canary) { n.bad = bad("d") }, "found 13", 3,
			"12 good: push: nothing is worse"},
		"the good revision is bad with another item than the others": {func(r *Record, n *canary) { r.Check = "port/wan" },
			"failed: revision 10 is not good: can't say: port/wan is not reported", 1, ""},
		"the bad revision is good": {nil, "failed: revision 13 is not bad: good: nothing is worse", 1, ""},
		"what was undone before is not pushed again": {func(r *Record, n *canary) {
			n.bad = bad("c", "d")
			past("c", Past{Reason: fleet.Unhealthy, Why: "port/wan"})(r, n)
		}, "found 12", 2, "11 good: push: nothing is worse"},
		"what nodes reject says nothing about one that runs": {func(r *Record, n *canary) {
			r.Candidates[1].Invalid, r.Candidates[2].Invalid = "x: unknown field", "x: unknown field"
			n.bad = bad("d")
		}, "inconclusive: 2 of the revisions in question can't be tested", 1, "12 can't say"},
		"a rejected end is found by simulation": {func(r *Record, n *canary) {
			n.confirmed, n.runs, n.desired = "a", "a", "a"
			r.Candidates[2].Invalid, r.Candidates[3].Invalid = "x: unknown field", "x: unknown field"
		}, "found 12", 1, ""},
		"a node without contact to the controller is bad": {func(r *Record, n *canary) {
			n.confirmed, n.runs, n.desired = "a", "a", "a"
			n.cutsOff = bad("c", "d")
		}, "found 12", 3, ""},
	} {
		r, n := search("a", "b", "c", "d"), newCanary("d")
		if c.set != nil {
			c.set(r, n)
		}
		r = run(t, r, n, nil)
		got := r.Result
		if r.Why != "" {
			got += ": " + r.Why
		}
		if c, ok := r.First(); ok {
			got += fmt.Sprintf(" %d", c.Revision)
		}
		if got != c.result || r.Pushes != c.pushes {
			t.Errorf("%s: %s, %d pushes, want %s, %d: %+v", name, got, r.Pushes, c.result, c.pushes, r.Steps)
		}
	}
}

func TestWhatASnapshotSays(t *testing.T) {
	t.Parallel()
	report := &nodeproto.Report{MD5: "m",
		Health:     []nodeproto.HealthReport{{Name: "port/wan"}, {Name: "ni/1", Good: true}},
		Parameters: []nodeproto.ParameterReport{{ID: "ni/1", State: "CreatingFailed"}, {ID: "ni/2", State: "Present"}}}
	s := SnapshotOf(report, "ni/1")
	if !slices.Equal(s.Bad, []string{"ni/1", "port/wan"}) || s.Item != Bad {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		check string
		good  *Snapshot
		want  string
	}{
		{"ni/1", nil, "bad: ni/1 is bad"}, {"ni/2", nil, "good: ni/2 is good"}, {"x", nil, "can't say: x is not reported"},
		{Applied, nil, "good: the node has it and has settled"},
		{Healthy, nil, "good: bad with it, and not counted: ni/1, port/wan"},
		{Healthy, &Snapshot{Bad: []string{"ni/1"}}, "bad: good before and bad now: port/wan"},
		{Healthy, &Snapshot{Bad: s.Bad}, "good: nothing is worse"},
	} {
		v, why := evaluate(c.check, c.good, SnapshotOf(report, c.check))
		if got := string(v) + ": " + why; got != c.want {
			t.Errorf("%s: %s, want %s", c.check, got, c.want)
		}
	}
	long := &nodeproto.Report{}
	for i := range 1000 {
		long.Health = append(long.Health, nodeproto.HealthReport{Name: fmt.Sprint(i)})
	}
	if got := len(SnapshotOf(long, Healthy).Bad); got != maxBad {
		t.Errorf("a snapshot has %d names", got)
	}
}

// A newer version's fields survive a store by this one.
func TestUnknownFieldsAreKept(t *testing.T) {
	t.Parallel()
	var r Record
	if err := json.Unmarshal([]byte(`{"node":"n","later":7}`), &r); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"later":7`) {
		t.Errorf("%s, %v", text, err)
	}
}
