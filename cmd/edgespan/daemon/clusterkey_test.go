package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"edgespan/netinst/netstate"
)

// memKeys are keys of a disk that may be full.
type memKeys struct {
	netstate.KeptKey
	full  bool
	tries int
	made  int
}

var errFull = errors.New("no space left on device")

func (m *memKeys) next() string { m.made++; return fmt.Sprint("key ", m.made) }

func (m *memKeys) ClusterKeys() (netstate.KeptKey, error) {
	if m.tries++; m.full {
		return netstate.KeptKey{}, errFull
	}
	if m.Public == "" {
		m.Public, m.Made = m.next(), time.Now()
	}
	return m.KeptKey, nil
}

func (m *memKeys) AnnounceClusterKey() error {
	if m.full {
		return errFull
	}
	m.Next, m.Announced = m.next(), time.Now()
	return nil
}

func (m *memKeys) DateClusterKey() error {
	if m.full {
		return errFull
	}
	if m.Made = time.Now(); m.Next != "" {
		m.Announced = m.Made
	}
	return nil
}

func (m *memKeys) ReplaceClusterKey() error {
	if m.full {
		return errFull
	}
	m.KeptKey = netstate.KeptKey{Public: m.Next, Made: time.Now(), Former: m.Public}
	return nil
}

func (m *memKeys) TryFormerClusterKey() error {
	m.KeptKey = netstate.KeptKey{Public: m.Former, Made: time.Now(), Tried: m.Public}
	return nil
}

func (m *memKeys) TryClusterKey() error {
	m.KeptKey = netstate.KeptKey{Public: m.Tried, Made: time.Now(), Former: m.Public}
	return nil
}

func (m *memKeys) SettleClusterKey() error { m.Former, m.Tried = "", ""; return nil }

// A disk that was full at the start is not for ever: the key is made once there is room, and nothing tries after it.
func TestTheClusterKeyIsMadeOnceThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &memKeys{full: true}
		var k clusterKey
		k.keep(ctx, m, 0, zap.NewNop())
		time.Sleep(time.Hour)
		synctest.Wait()
		if key, _ := k.ClusterKeys(); key != "" || m.tries < 50 || m.tries > 80 {
			t.Errorf("within an hour of a full disk: key %q, %d tries, want none and about one a minute", key, m.tries)
		}
		m.full = false
		time.Sleep(time.Minute)
		synctest.Wait()
		if key, _ := k.ClusterKeys(); key != "key 1" {
			t.Error("there is no key a minute after there is room")
		}
		before := m.tries
		time.Sleep(time.Hour)
		if synctest.Wait(); m.tries != before {
			t.Errorf("%d tries after the key was made", m.tries-before)
		}
		cancel()
	})
}

func TestTheTriesForAClusterKeyEndWithTheDaemon(t *testing.T) {
	for _, life := range []time.Duration{0, defaultKeyLife} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			m := &memKeys{full: true}
			var k clusterKey
			k.keep(ctx, m, life, zap.NewNop())
			cancel()
			synctest.Wait()
			before := m.tries
			time.Sleep(time.Hour)
			if synctest.Wait(); m.tries != before {
				t.Errorf("%d tries after the end", m.tries-before)
			}
		})
	}
}

// A key is replaced within its life, after the other nodes have known the next one for a tenth of it.
func TestTheClusterKeyIsReplacedAfterANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m := &memKeys{}
		var k clusterKey
		linked, told := time.Now(), 0
		k.link.Store(&linked)
		k.changed = func() { told++ }
		k.keep(ctx, m, defaultKeyLife, zap.NewNop())
		began, noticed, replaced := time.Now(), time.Time{}, 0
		for before, _ := k.ClusterKeys(); replaced < 4 && time.Since(began) < 5*defaultKeyLife; time.Sleep(time.Hour) {
			key, next := k.ClusterKeys()
			if next != "" && noticed.IsZero() {
				noticed = time.Now()
			}
			if key == before {
				continue
			}
			if age := time.Since(began); age > defaultKeyLife+2*time.Hour || age < defaultKeyLife*94/100 {
				t.Errorf("%s was replaced after %v of %v", before, age, defaultKeyLife)
			}
			if known := time.Since(noticed); noticed.IsZero() || known < defaultKeyLife/10-time.Hour {
				t.Errorf("%s was known for %v", key, known)
			}
			before, began, noticed = key, time.Now(), time.Time{}
			replaced++
		}
		if replaced != 4 || told != 9 { // the first, and for each an announcement and the replacement
			t.Errorf("%d keys were replaced, %d changes told", replaced, told)
		}
	})
}

// Without a controller, nobody would learn that a key is in use: it stays until the controller has been there for a
// while. A full disk postpones it, too.
func TestNoClusterKeyIsReplacedUnheard(t *testing.T) {
	p := keyPlan{defaultKeyLife}
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	old := netstate.KeptKey{Public: "a", Made: now.Add(-10 * p.life), Next: "b", Announced: now.Add(-5 * p.life)}
	at := func(d time.Duration) *time.Time { x := now.Add(-d); return &x }
	for name, c := range map[string]struct {
		key  netstate.KeptKey
		link *time.Time
		want keyStep
	}{
		"no controller":        {old, nil, keyStays},
		"just connected":       {old, at(time.Second), keyStays},
		"connected":            {old, at(2 * time.Hour), keyReplaced},
		"not announced":        {netstate.KeptKey{Public: "a", Made: old.Made}, at(time.Hour), keyAnnounced},
		"announced just now":   {netstate.KeptKey{Public: "a", Made: old.Made, Next: "b", Announced: now}, at(time.Hour), keyStays},
		"young":                {netstate.KeptKey{Public: "a", Made: now}, at(time.Hour), keyStays},
		"a clock that is back": {netstate.KeptKey{Public: "a", Made: now.Add(p.life)}, at(time.Hour), keyDated},
		"a clock at 1970":      {netstate.KeptKey{Public: "a", Made: now.Add(p.life)}, nil, keyStays},
		"a next key of a clock that was ahead": {netstate.KeptKey{Public: "a", Made: old.Made, Next: "b",
			Announced: now.Add(p.life)}, at(time.Hour), keyDated},
	} {
		if got := p.due(now, c.key, c.link); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m := &memKeys{KeptKey: netstate.KeptKey{Public: "a", Made: time.Now().Add(-p.life)}}
		var k clusterKey
		linked := time.Now()
		k.link.Store(&linked)
		k.keep(ctx, m, p.life, zap.NewNop())
		time.Sleep(time.Hour)
		m.full = true
		time.Sleep(p.life)
		if key, next := k.ClusterKeys(); key != "a" || next == "" {
			t.Errorf("on a full disk: key %q, next %q", key, next)
		}
		m.full = false
		time.Sleep(2 * time.Minute)
		if key, _ := k.ClusterKeys(); key == "a" {
			t.Error("the key is not replaced once there is room")
		}
	})
}

// Keys that were made at one time are not replaced at one time.
func TestNodesOfOneDaySpreadTheirReplacements(t *testing.T) {
	p := keyPlan{defaultKeyLife}
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	days := map[int]int{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		k := netstate.KeptKey{Public: fmt.Sprint(random.Uint64()), Made: made}
		for day := range 91 {
			if p.due(made.AddDate(0, 0, day), k, nil) == keyAnnounced {
				days[day]++
				break
			}
		}
	}
	for day, n := range days {
		if n > 400 || day > 81 || day < 76 {
			t.Errorf("%d of 1000 on day %d", n, day)
		}
	}
	if len(days) < 4 {
		t.Errorf("on %d days", len(days))
	}
}

// Only the controller proves a new key. While it is away and a member is silent, the former one is tried.
func TestAKeyThatCutsANodeOffIsUndone(t *testing.T) {
	for name, c := range map[string]struct {
		linked, silenced bool
		life             time.Duration
		wall             time.Duration // by which the wall clock is wrong, for what was written before
		proven           string        // by which key the controller is reached; "": by none
		want             string
	}{
		"cut off":                   {silenced: true, life: defaultKeyLife, proven: "a", want: "a"},
		"cut off, never replaced":   {silenced: true, proven: "a", want: "a"},
		"cut off, a clock at 1970":  {silenced: true, life: defaultKeyLife, wall: 1e6 * time.Hour, proven: "a", want: "a"},
		"a member that is evil":     {silenced: true, life: defaultKeyLife, proven: "b", want: "b"},
		"all members answer":        {life: defaultKeyLife, want: "b"},
		"the controller is there":   {linked: true, silenced: true, life: defaultKeyLife, want: "b"},
		"the controller comes back": {life: defaultKeyLife, proven: "b", want: "b"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := &memKeys{KeptKey: netstate.KeptKey{Public: "b", Made: time.Now().Add(c.wall), Former: "a"}}
			var k clusterKey
			silenced := func(time.Time) bool { return c.silenced }
			k.silenced.Store(&silenced)
			up := func(is bool) {
				if at := time.Now(); !is {
					k.link.Store(nil)
				} else if k.link.Load() == nil {
					k.link.Store(&at)
				}
			}
			up(c.linked)
			k.keep(ctx, m, c.life, zap.NewNop())
			time.Sleep(provenAfter - 5*time.Second)
			if key, _ := k.ClusterKeys(); key != "b" || m.Former != "a" {
				t.Errorf("%s: at first: %+v", name, m.KeptKey)
			}
			for range 3 * 3600 { // the controller needs a minute to be back
				if time.Sleep(time.Second); c.proven != "" {
					key, _ := k.ClusterKeys()
					up(key == c.proven && time.Since(k.since) > time.Minute)
				}
			}
			settled := c.linked || c.proven != ""
			if key, _ := k.ClusterKeys(); key != c.want || settled != (m.Former+m.Tried == "") {
				t.Errorf("%s: later: %+v", name, m.KeptKey)
			}
		})
	}
}

// A silent member and a controller that is away for long cost the members that have followed little.
func TestTheFormerKeyIsTriedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m := &memKeys{KeptKey: netstate.KeptKey{Public: "b", Made: time.Now(), Former: "a"}}
		var k clusterKey
		silenced := func(time.Time) bool { return true }
		k.silenced.Store(&silenced)
		k.keep(ctx, m, defaultKeyLife, zap.NewNop())
		former := 0
		for range 24 * 60 {
			if time.Sleep(time.Minute); m.Tried != "" {
				former++
			}
		}
		if former < 30 || former > 120 {
			t.Errorf("the former key was in use for %d minutes of a day", former)
		}
	})
}

// Nodes whose keys are overdue, since they or their controller were away, replace them over an hour.
func TestOverdueKeysSpreadTheirReplacements(t *testing.T) {
	p := keyPlan{defaultKeyLife}
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	after := func(d time.Duration) (n int) {
		link := now.Add(-d)
		for i := range 1000 {
			k := netstate.KeptKey{Public: fmt.Sprint("key ", i), Made: now.Add(-2 * p.life), Next: "b",
				Announced: now.Add(-p.life)}
			if p.due(now, k, &link) == keyReplaced {
				n++
			}
		}
		return n
	}
	settled := p.settled()
	first, half, all := after(settled+time.Second), after(settled+overdueSpread/2), after(settled+overdueSpread)
	if first > 10 || half < 350 || half > 650 || all != 1000 {
		t.Errorf("of 1000 keys are replaced: %d at once, %d within half an hour, %d within the hour", first, half, all)
	}
}

func TestTheLifeOfAClusterKeyIsChecked(t *testing.T) {
	for text, want := range map[string]time.Duration{"": defaultKeyLife, "0": 0, "10m": minKeyLife, "720h": 720 * time.Hour,
		"1m": -1, "-1h": -1, "soon": -1, "90": -1} {
		if got, err := parseKeyLife(text); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
