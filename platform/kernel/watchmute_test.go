package kernel

import (
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A link that says often what is known is muted, for longer each time, until a minute was calm.
func TestALinkThatSaysNothingNewIsMuted(t *testing.T) {
	ms, now := mutes{}, time.Unix(1000, 0)
	flood := func(index int) bool {
		muted := false
		for range idleMax + 1 {
			muted = ms.idle(index, now) || muted
		}
		return muted
	}
	for range 5 { // as fast as nobody minds
		for range idleMax {
			if ms.idle(1, now) {
				t.Fatal("a link within its measure is muted")
			}
		}
		now = now.Add(time.Second)
	}
	for i, rest := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if !flood(1) || flood(1) {
			t.Fatalf("mute %d: not once", i)
		}
		if got := ms.due().Sub(now); got != rest*time.Second {
			t.Errorf("mute %d: %v, want %ds", i, got, rest)
		}
		now = ms.due().Add(-1)
		if got := ms.over(now); got != nil || !slices.Equal(ms.muted(), []int{1}) {
			t.Errorf("mute %d: heard too early: %v", i, got)
		}
		now = ms.due()
		if got := ms.over(now); !slices.Equal(got, []int{1}) || ms.muted() != nil || !ms.due().IsZero() {
			t.Errorf("mute %d: heard %v, muted %v, due %v", i, got, ms.muted(), ms.due())
		}
	}
	now = now.Add(muteCalm)
	if flood(1); ms.due().Sub(now) != muteRests.First {
		t.Errorf("after a calm minute: muted for %v", ms.due().Sub(now))
	}
	now = now.Add(muteRests.First / 2)
	first := ms.due()
	if flood(2); ms.due() != first || !slices.Equal(ms.muted(), []int{1, 2}) {
		t.Errorf("two links: due %v, want %v; muted %v", ms.due(), first, ms.muted())
	}
	now = first
	if got := ms.over(now); !slices.Equal(got, []int{1}) || !slices.Equal(ms.muted(), []int{2}) {
		t.Errorf("two links: heard %v, muted %v", got, ms.muted())
	}
}

// The socket's wait costs a call only where it would end too late, or at once again and again.
func TestAWaitIsSetWhereItIsAnother(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		set, due  time.Duration // due 0: nothing is
		wait      time.Duration
		otherwise bool
	}{
		{0, 0, 0, false},
		{time.Second, 0, 0, true},
		{0, time.Second, time.Second, true},
		{time.Second, time.Second, time.Second, false},
		{time.Second, time.Second - muteLate, time.Second - muteLate, false},
		{time.Second, time.Second - muteLate - 1, time.Second - muteLate - 1, true},
		{time.Second, 2 * time.Second, 2 * time.Second, true},
		{time.Second, -time.Second, time.Millisecond, true},
	} {
		var due time.Time
		if c.due != 0 {
			due = now.Add(c.due)
		}
		if wait, other := nextWait(c.set, due, now); wait != c.wait || other != c.otherwise {
			t.Errorf("set %v, due in %v: %v %v, want %v %v", c.set, c.due, wait, other, c.wait, c.otherwise)
		}
	}
}

// However many links are noisy, the filter that mutes them is one that the kernel takes.
func TestNoMoreLinksAreMutedThanAFilterHolds(t *testing.T) {
	ms, now := mutes{}, time.Unix(1000, 0)
	for index := range mutedMax + 5 {
		for range idleMax + 1 {
			ms.idle(index, now)
		}
	}
	if n := len(ms.muted()); n != mutedMax {
		t.Errorf("%d links are muted, want %d", n, mutedMax)
	}
	const maxInstructions = 4096 // BPF_MAXINSNS
	if n := len(muteFilter(ms.muted())); n > maxInstructions {
		t.Errorf("the filter has %d instructions", n)
	}
	sock, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	l := listener{sock: sock}
	for _, links := range [][]int{ms.muted(), {1}, nil, nil} {
		if err := l.filter(links); err != nil {
			t.Errorf("%d links: %v", len(links), err)
		}
	}
}
