package addressing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"

	"pgregory.net/rapid"
)

func effects(es []Effect) string {
	var out []string
	for _, e := range es {
		switch e := e.(type) {
		case Apply:
			out = append(out, fmt.Sprintf("apply#%d of %d", e.Seq, len(e.Want)))
		case Wait:
			out = append(out, fmt.Sprintf("wait#%d %v", e.Token, e.After))
		}
	}
	return strings.Join(out, ", ")
}

func TestMachine(t *testing.T) {
	one := Configured{[]netinst.PortConfig{static("a", "eth0", 0, "", "192.0.2.2/24")}, nil, true}
	two := Configured{[]netinst.PortConfig{static("a", "eth0", 0, "192.0.2.1", "192.0.2.2/24")}, nil, true}
	none := Configured{Valid: true}
	base := one
	base.Valid = false
	type step struct {
		event Event
		want  string
	}
	start := []step{{ApplierReady{}, ""}, {one, "apply#1 of 2"}, {Applied{Seq: 1}, "wait#1 1m0s"}}
	for name, steps := range map[string][]step{
		"nothing is applied before a valid config is known": {{ApplierReady{}, ""}, {HostChanged{}, ""}, {base, ""},
			{one, "apply#1 of 2"}},
		"what a former config left is removed": {{ApplierReady{}, ""}, {none, "apply#1 of 0"}, {Applied{Seq: 1}, ""},
			{HostChanged{}, ""}, {none, ""}},
		"the same config is applied once":   append(start[:3:3], step{one, ""}),
		"a base config changes nothing":     append(start[:3:3], step{Configured{}, ""}),
		"another config is applied at once": append(start[:3:3], step{two, "apply#2 of 3"}),
		"a config during an apply follows it": {{ApplierReady{}, ""}, {one, "apply#1 of 2"}, {two, ""},
			{Applied{Seq: 1}, "apply#2 of 3"}},
		"the state is checked from time to time": append(start[:3:3], step{Due{1}, "apply#2 of 2"},
			step{Applied{Seq: 2}, "wait#2 1m0s"}),
		"an old timer does nothing": append(start[:3:3], step{two, "apply#2 of 3"},
			step{Applied{Seq: 2}, "wait#2 1m0s"}, step{Due{1}, ""}),
		"an old answer does nothing": append(start[:3:3], step{Applied{Seq: 1}, ""},
			step{two, "apply#2 of 3"}, step{Applied{Seq: 1}, ""}),
		"a change by others is repaired at once, and the next one a second later": append(start[:3:3],
			step{HostChanged{}, "apply#2 of 2"}, step{Applied{Seq: 2, Changed: true}, "wait#2 1s"}, step{HostChanged{}, ""},
			step{HostChanged{}, ""}, step{Due{2}, "apply#3 of 2"}, step{Applied{Seq: 3}, "wait#3 1m0s"}),
		"a repair that lasts is not repeated": append(start[:3:3], step{HostChanged{}, "apply#2 of 2"},
			step{Applied{Seq: 2, Changed: true}, "wait#2 1s"}, step{Due{2}, "wait#3 1m0s"}, step{HostChanged{}, "apply#3 of 2"}),
		"a change during an apply is looked at after a second": append(start[:3:3], step{HostChanged{}, "apply#2 of 2"},
			step{HostChanged{}, ""}, step{Applied{Seq: 2}, "wait#2 1s"}, step{Due{2}, "apply#3 of 2"}),
		"a config does not wait for the end of a rest": append(start[:3:3], step{HostChanged{}, "apply#2 of 2"},
			step{Applied{Seq: 2, Changed: true}, "wait#2 1s"}, step{two, "apply#3 of 3"}),
		"a failure is retried, ever later, and at once when the host changes": {{ApplierReady{}, ""}, {one, "apply#1 of 2"},
			{Applied{Seq: 1, Failed: true}, "wait#1 100ms"}, {Due{1}, "apply#2 of 2"},
			{Applied{Seq: 2, Failed: true}, "wait#2 200ms"}, {HostChanged{}, "apply#3 of 2"}, {Applied{Seq: 3}, "wait#3 1m0s"}},
		"a failed removal is retried": {{ApplierReady{}, ""}, {none, "apply#1 of 0"},
			{Applied{Seq: 1, Failed: true}, "wait#1 100ms"}, {Due{1}, "apply#2 of 0"}, {Applied{Seq: 2}, ""}},
		"an applier that starts anew applies again": append(start[:3:3], step{two, "apply#2 of 3"},
			step{ApplierReady{}, "apply#3 of 3"}, step{Applied{Seq: 2}, ""}, step{Applied{Seq: 3}, "wait#2 1m0s"}),
	} {
		m := &Machine{}
		for i, s := range steps {
			if got := effects(m.Step(s.event)); got != s.want {
				t.Errorf("%s: step %d (%T) does %q, want %q", name, i, s.event, got, s.want)
			}
		}
	}
}

// Whatever happens: one apply is in flight at most, and after the newest config was applied without a failure it is
// the one on the host; if not, an apply or a timer is under way.
func TestAMachineNeverStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Machine{}
		var apply *Apply
		var wait *Wait
		newest, applied := "", "?"
		m.Step(ApplierReady{})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			var e Event
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				c := Configured{Valid: true}
				if n := rapid.IntRange(0, 2).Draw(t, "address"); n > 0 {
					c.Ports = []netinst.PortConfig{static("a", "eth0", 0, "", fmt.Sprintf("192.0.2.%d/24", n))}
				}
				e, newest = c, Desired(c.Ports, nil).String()
			case 1:
				e = HostChanged{}
			case 2:
				if apply == nil {
					continue
				}
				r := Applied{Seq: apply.Seq, Changed: rapid.Bool().Draw(t, "changed"), Failed: rapid.Bool().Draw(t, "failed")}
				if applied = "?"; !r.Failed {
					applied = apply.Want.String()
				}
				e, apply = r, nil
			case 3:
				if wait == nil {
					continue
				}
				e, wait = Due{wait.Token}, nil
			}
			for _, eff := range m.Step(e) {
				switch eff := eff.(type) {
				case Apply:
					if apply != nil {
						t.Fatal("two applies are in flight")
					}
					apply = &eff
				case Wait:
					if eff.After < 100*time.Millisecond {
						t.Fatalf("waits %v", eff.After)
					}
					wait = &eff
				}
			}
			done := applied == newest && newest == ""
			waits := wait != nil && wait.Token == m.token
			if m.valid && apply == nil && !waits && !done {
				t.Fatalf("nothing is under way: applied %q of %q", applied, newest)
			}
		}
	})
}
