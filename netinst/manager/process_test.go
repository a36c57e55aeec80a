package manager

import (
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

// A network with a tunnel has two processes, and the manager is not told which it was.
func TestAProcessOfATunnelIsNotCalledDnsmasq(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run", 1, nil)
	m.config = vpnNetwork(false)
	m.intent = desired
	m.processEnded(time.Unix(100, 0))
	m.processEnded(time.Unix(101, 0))
	const want = "process dnsmasq or that of the tunnel has ended by itself or hung 2 times in a row; next start in 100ms"
	if m.ends.why != want {
		t.Errorf("it says %q, want %q", m.ends.why, want)
	}
}

func TestAProcessThatEndsByItself(t *testing.T) {
	ended := func(second int64) ProcessEnded { return ProcessEnded{At: time.Unix(second, 0)} }
	again := func(times, rest string) string {
		return "ni CheckPresentFailed (process dnsmasq has ended by itself " + times + " times in a row; next start in " +
			rest + ")"
	}
	for name, steps := range map[string][]managerStep{
		"is started again at once": begun(
			managerStep{ended(100), "apply#2 something"},
			managerStep{applied(2), ""},
		),
		"again and again rests longer each time and says so": begun(
			managerStep{ended(100), "apply#2 something"},
			managerStep{applied(2), ""},
			managerStep{ended(101), again("2", "100ms")},
			managerStep{TimerDue{Token: 4}, "apply#3 something"},
			managerStep{applied(3), "ni Present"},
			managerStep{ended(102), again("3", "200ms")},
			managerStep{TimerDue{Token: 6}, "apply#4 something"},
			managerStep{applied(4), "ni Present"},
			managerStep{ended(200), "apply#5 something"}, // it had run for more than a minute
		),
		"during an apply is not called Present by it": begun(
			managerStep{ended(100), "apply#2 something"},
			managerStep{ended(101), again("2", "100ms")},
			managerStep{applied(2), ""},
			managerStep{TimerDue{Token: 4}, "apply#3 something"},
			managerStep{applied(3), "ni Present"},
		),
		"lets a new desired state not wait for its rest": begun(
			managerStep{ended(100), "apply#2 something"},
			managerStep{applied(2), ""},
			managerStep{ended(101), again("2", "100ms")},
			managerStep{ConfigChanged{Config: testNetwork(2)}, "apply#3 something"},
			managerStep{applied(3), "ni Present"},
			managerStep{TimerDue{Token: 4}, ""},
		),
		"holds no removal up": begun(
			managerStep{ended(100), "apply#2 something"},
			managerStep{applied(2), ""},
			managerStep{ConfigGone{}, "ni Removing, apply#3 nothing"},
			managerStep{ended(101), ""},
			managerStep{applied(3, fail(netstate.KindLink, "es1", "busy")),
				"ni RemovingFailed (busy; next retry in 100ms), apply#4 nothing"},
			managerStep{ended(102), ""},
			managerStep{applied(4), "ni withdrawn, done"},
		),
	} {
		t.Run(name, func(t *testing.T) {
			m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			for i, s := range steps {
				if got := text(m.Step(s.event)); got != s.want {
					t.Fatalf("step %d, %T:\n got %q\nwant %q", i+1, s.event, got, s.want)
				}
			}
		})
	}
}

func TestTheRestOfAProcessIsBounded(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	for _, s := range begun() {
		m.Step(s.event)
	}
	at := time.Unix(100, 0)
	for range 80 {
		for _, e := range m.Step(ProcessEnded{At: at}) {
			if x, ok := e.(Timer); ok && (x.After <= 0 || x.After > retries.Max) {
				t.Fatalf("a rest of %v", x.After)
			}
		}
		at = at.Add(m.ends.rest)
	}
	if m.ends.rest != retries.Max || m.ends.count != 80 {
		t.Errorf("after %d ends the rest is %v, want %v", m.ends.count, m.ends.rest, retries.Max)
	}
}

// A process that ran for a minute longer than its last rest counts as ended for the first time.
func TestWhenAnEndIsAFirstOne(t *testing.T) {
	for _, c := range []struct {
		ran  time.Duration
		want int
	}{{processStable, 2}, {processStable + 1, 1}} {
		m := newClocked().m
		m.processEnded(at(5000))
		if m.processEnded(at(5000).Add(c.ran)); m.ends.count != c.want {
			t.Errorf("after %v it is the end number %d, want %d", c.ran, m.ends.count, c.want)
		}
	}
}
