package loglevel

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// shown are the levels that differ from info, and whether they have an end.
func shown(l *Levels) string {
	var out []string
	for _, s := range l.List() {
		if s.Level != "info" || !s.Until.IsZero() {
			text := s.Subsystem + "=" + s.Level
			if !s.Until.IsZero() {
				text += "*"
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

func TestAnOverrideRevertsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var audit []string
		l := New([]string{"probe", "bridge"}, Info, func(c Change) {
			audit = append(audit, fmt.Sprintf("%s %s %v %s", c.Subsystem, c.Level, c.For, c.By))
		})
		is := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := shown(l); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		is("at first", "")
		l.Set(Change{Subsystem: "probe", Level: "debug", By: "ann"})
		is("with one", "probe=debug*")
		if !l.Enabled("probe", Debug) || !l.Enabled("probe.dns", Debug) || l.Enabled("bridge", Debug) || l.Enabled("", Debug) ||
			l.Least() != Debug {
			t.Error("the override is not that of its subsystem alone")
		}
		time.Sleep(DefaultFor - time.Second)
		l.Set(Change{Subsystem: "probe", Level: "warn", For: time.Hour}) // a newer one has its own time
		time.Sleep(2 * time.Second)
		is("replaced", "probe=warn*")
		if l.Enabled("probe", Info) || !l.Enabled("bridge", Info) || l.Least() != Info {
			t.Error("a higher level of one subsystem")
		}
		l.SetBase(Error) // the config, meanwhile
		is("the config is error", "all=error bridge=error probe=warn*")
		time.Sleep(time.Hour)
		is("reverted", "all=error bridge=error probe=error")
		if l.Least() != Error || l.Enabled("probe", Warn) {
			t.Error("nothing is left of it")
		}
		l.SetBase(Info)
		l.Set(Change{Subsystem: "bridge", Level: "debug"})
		l.Set(Change{Subsystem: All, Level: "debug", For: time.Minute})
		is("all together", "all=debug* bridge=debug probe=debug")
		l.Set(Change{Subsystem: "bridge", Level: "info"})
		is("but one", "all=debug* bridge=info* probe=debug")
		l.Set(Change{Subsystem: "bridge", Level: Reset})
		is("reset", "all=debug* bridge=debug probe=debug")
		l.Set(Change{Subsystem: All, Level: Reset})
		is("all reset", "")
		time.Sleep(MaxFor)
		is("a day later", "")
		if got := strings.Join(audit[:3], "; "); got != "probe debug 10m0s ann; probe warn 1h0m0s ; probe reset 0s " ||
			len(audit) != 8 {
			t.Errorf("%d changes: %q", len(audit), audit)
		}
	})
}

func TestAFaultyChangeIsNamed(t *testing.T) {
	l := New([]string{"probe", "bridge"}, Info, func(Change) {})
	for _, c := range []struct {
		change Change
		want   string
	}{
		{Change{Subsystem: "probe", Level: "debug"}, ""},
		{Change{Subsystem: All, Level: Reset, For: MaxFor}, ""},
		{Change{Subsystem: "dns", Level: "debug"}, `subsystem: invalid value "dns": must be bridge, probe or all`},
		{Change{Subsystem: "probe", Level: "trace"}, `level: invalid value "trace": must be debug, info, warn, error or reset`},
		{Change{Subsystem: "probe", Level: "info", For: MaxFor + 1}, "for: "},
		{Change{Subsystem: "probe", Level: "info", For: -1}, "for: "},
	} {
		field, problem := l.Check(c.change)
		if got := field + ": " + problem; c.want == "" && field != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.change, got, c.want)
		}
	}
	for l := Debug; l <= Error; l++ {
		if back, ok := Parse(l.String()); !ok || back != l {
			t.Errorf("%v", l)
		}
	}
}

func TestAskingCostsNoAllocation(t *testing.T) {
	l := New([]string{"probe"}, Info, func(Change) {})
	ask := func() { l.Enabled("probe.dns", Debug); l.Enabled("bridge", Info) }
	before := testing.AllocsPerRun(100, ask)
	l.Set(Change{Subsystem: "probe", Level: "debug"})
	defer l.Set(Change{Subsystem: All, Level: Reset})
	if after := testing.AllocsPerRun(100, ask); before != 0 || after != 0 {
		t.Errorf("%v and %v allocations", before, after)
	}
}
