package commitconfirm

import (
	"strings"
	"testing"
	"time"

	"edgespan/config"
)

// "The nodes will copy the latest base version (via natural sort order) if the configuration
// file on disk is missing or corrupt": here the last good copy goes before it, and on either
// nothing is removed from the host until a config is pushed or applied.
func TestSeed_TheLatestBaseIfTheConfigIsMissingOrCorrupt(t *testing.T) {
	bases := map[string]config.Object{"RELEASE_M9": doc(t, `{"v":9}`), "RELEASE_M81": doc(t, `{"v":81}`),
		"EDGESPAN_0_1": doc(t, `{"v":0}`)}
	b := &bench{bases: bases}
	if got, want := b.boot("m"),
		"fallback: the node's config: there is none: the latest base is taken: RELEASE_M81; publish none {v:81} keep all; "+
			"timer 30s"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	b.play(t, []step{
		{settled{}, "applied"},
		// the same, and yet a config at last
		{push(t, 2, `{"v":81}`), "write pending c:2 {v:81}; accepted; publish c:2 {v:81}; timer 30s"},
		{Tick{time.Hour}, "write clock 0s; write pending c:2 {v:81}; undo c:2 unconfirmed: not confirmed within " +
			"2m0s; publish s1:2 {v:81} keep all; timer 30s"},
		{settled{}, "write confirmed s1:2 {v:81}; gone back: not confirmed within 2m0s; drop pending; applied"},
		{boots{"m"}, "fallback: nothing was pushed or applied since; publish s1:2 {v:81} keep all; timer 30s"},
		{settled{}, "applied"},
		{Candidate{Source: Apply, Document: doc(t, `{"v":81}`)},
			"write confirmed s1:3 {v:81}; accepted; write copy s1:3 {v:81}; publish s1:3 {v:81}; timer 30s"},
		{boots{"m"}, "publish s1:3 {v:81}; timer 30s"},
	})
	b.disk.Confirmed, b.disk.Faults = nil, map[Slot]string{SlotConfirmed: "bad sum"}
	if got, want := b.boot("m"),
		"fallback: the node's config: it can't be read: bad sum: its last good copy is taken; publish s1:3 {v:81} keep "+
			"all; timer 30s"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := b.m.authority; got == "s1" {
		t.Error("numbers of a lost journal could come again")
	}
	if got := (&bench{}).boot("m"); !strings.HasSuffix(got, "publish none {} keep all; timer 30s") {
		t.Error(got)
	}
}

// A confirmed config that is older than its copy is not the one that was confirmed last: that
// can't be read any more.
func TestAConfirmedConfigThatIsOlderThanItsCopyIsNotTaken(t *testing.T) {
	b := on(t)
	older := b.disk.Confirmed
	b.play(t, []step{
		{Candidate{Source: Apply, Document: doc(t, `{"a":2}`)}, "…"},
	})
	want := "fallback: the node's config: only an older one can be read: its last good copy is taken; "
	b.disk.Confirmed = older
	if got := b.boot("m2"); !strings.HasPrefix(got, want) || !strings.Contains(got, "{a:2} keep all") {
		t.Errorf("got %s\nwant %s", got, want)
	}
	b.disk.Copy = &ConfigRecord{Seq: 99, Authority: "of another journal", Source: Push, Generation: c(9),
		Document: doc(t, `{"a":9}`)}
	if got := b.boot("m3"); !strings.HasPrefix(got, "publish") || !strings.Contains(got, "{a:1}") {
		t.Errorf("a copy of another journal counts: %s", got)
	}
}

// A pending config that was confirmed, and not dropped before a crash, is left over: it is not undone.
func TestAPendingConfigThatWasConfirmedIsDropped(t *testing.T) {
	b := on(t)
	b.play(t, []step{{push(t, 2, `{"a":2}`), taken}})
	left := b.disk.Pending
	if s := b.m.State(); s.Remaining != DefaultConfirm || !b.m.Pending() {
		t.Errorf("pending %v, %v left", b.m.Pending(), s.Remaining)
	}
	b.play(t, []step{{Confirmed{}, "…"}})
	b.disk.Pending = left
	if got, want := b.boot("m1"), "drop pending; publish c:2 {a:2}; timer 30s"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if s := b.m.State(); s.Pending || s.Remaining != 0 || b.m.Pending() {
		t.Errorf("%+v", s)
	}
}

// A second undo goes back to the same config, and names it by the number that it had; once it has another, by that.
func TestASecondUndoNamesTheSameConfig(t *testing.T) {
	b := on(t)
	undone := func(n uint64, want Generation) {
		t.Helper()
		b.play(t, []step{{push(t, n, `{"a":2}`), "…"}, {RollbackAsked{}, "…"}, {settled{}, "…"},
			{ran{}, "…"}})
		if s := b.m.State(); s.Pending || s.Source != Rollback || s.Restores != want || s.Remaining != 0 {
			t.Errorf("after push %d: %+v, want it restored to %v", n, s, want)
		}
	}
	undone(2, c(1))
	undone(3, c(1))
	b.play(t, []step{{push(t, 4, `{"a":1}`), "…"}})
	undone(5, c(4))
}

// What can't be read beside the config is said, and the safe way is taken.
func TestOtherFilesThatCannotBeRead(t *testing.T) {
	b := on(t)
	b.play(t, []step{{push(t, 2, `{"a":2}`), taken}})
	b.disk.Clock, b.disk.Faults = nil, map[Slot]string{SlotClock: "bad sum"}
	if got, want := b.boot("m2"), backing+"unconfirmed: its time can't be read: bad sum; "+gone; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	b.disk.Pending, b.disk.Faults = nil, map[Slot]string{SlotPending: "bad sum"}
	want := "not run: what was pending can't be read, and so the actions of going back are unknown: bad sum; drop " +
		"pending; publish c:1 {a:1}; timer 30s"
	if got := b.boot("m3"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A disk that can't be written keeps nobody from going back.
func TestADiskThatCannotBeWritten(t *testing.T) {
	b := on(t)
	b.full[SlotPending] = true
	b.play(t, []step{{push(t, 2, `{"a":2}`), "write pending c:2 {a:2}; refused: it can't be stored: no space left"}})
	b.full[SlotPending] = false
	b.play(t, []step{{push(t, 2, `{"a":2}`), taken}})
	for _, slot := range []Slot{SlotPending, SlotConfirmed, SlotCopy, SlotClock} {
		b.full[slot] = true
	}
	b.play(t, []step{
		{settled{}, "run a"},
		{ran{restart: "REBOOT"}, "write pending c:2 {a:2}; trouble: write: no space left; applied; ask c:2"},
	})
	if got := b.m.State().Results; len(got) != 1 || got[0].String() != "REBOOT: failed: it can't be noted: no space left" {
		t.Error(got)
	}
	b.play(t, []step{
		{Confirmed{}, "write confirmed c:2 {a:2}; trouble: it can't be confirmed: no space left"},
		{Tick{5 * time.Second}, "ask c:2; write clock 1m55s; trouble: write clock: no space left"},
		{RollbackAsked{}, "write pending c:2 {a:2}; undo c:2 unconfirmed: rolled back by hand; publish j:3 {a:1}; timer " +
			"30s; trouble: write: no space left"},
		{settled{}, "run back a"},
		{ran{}, "write confirmed j:3 {a:1}; gone back: rolled back by hand; trouble: write: no space left; applied"},
		{RollbackAsked{}, "declined: nothing is pending; to go further back, apply that config"},
	})
	if got := b.m.State().Results; len(got) > 0 {
		t.Errorf("of no action and no restart: %v", got)
	}
}

// While a disk is slow the controller is asked all the same, and no second write of the clock waits behind the first.
func TestASlowDiskIsNotGivenTheClockTwice(t *testing.T) {
	b := on(t)
	b.play(t, []step{{push(t, 2, `{"a":2}`), taken}, {settled{}, "…"}, {ran{}, "…"}})
	for i, s := range []step{
		{Tick{5 * time.Second}, "ask c:2; write clock 1m55s"},
		{Tick{5 * time.Second}, "ask c:2"},
		{Stored{}, ""},
		{Tick{5 * time.Second}, "ask c:2; write clock 1m45s"},
	} {
		var got []string
		for _, e := range b.m.Step(s.event) {
			got = append(got, tell(e))
		}
		if strings.Join(got, "; ") != s.want {
			t.Errorf("step %d: %v, want %s", i, got, s.want)
		}
	}
}
