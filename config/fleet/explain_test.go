package fleet

import (
	"strings"
	"testing"
	"time"
)

// For every state of a node Explain returns its reason, what happens next and when.
func TestExplain(t *testing.T) {
	const (
		sane = `runs: config B, generation none, software "EDGESPAN-1-0-0", firmware "", board "b1", reported at ` +
			`2026-03-01T12:00:00Z`
		synced = `runs: config A, generation s:1, software "EDGESPAN-1-0-0", firmware "", board "b1", reported at ` +
			`2026-03-01T12:00:00Z`
		differs = "it runs config B, desired is A; "
	)
	off := Defaults("me")
	off.Queries = false
	report := func(r ReportReceived) []step { return joined(step{event: r}) }
	failed := func(r Reason) Memory {
		return Memory{
			Adopted: true, Push: Attempt{Number: 1, Digest: a, At: noon.Add(-time.Minute), For: v1},
			Failures: []ConfigFailure{{Digest: a, Attempt: 1, Reason: r, Why: "ports: is a string", At: noon, For: v1}},
		}
	}
	unknown := with(want(a, 1), func(w *Desired) { w.Unknown = true })
	for _, c := range []struct {
		state State
		name  string
		m     Memory
		set   Settings
		steps []step
		want  []string
	}{
		{UnknownNode, "", adopted, Settings{}, nil, []string{
			"it is in no topology, has not joined and no join token is open for it",
			"nothing, until it is put into the topology or a join token is made for it",
		}},
		{NotJoined, "with a token", adopted, Settings{}, []step{{event: Known{Token: noon.Add(time.Hour)}}}, []string{
			"it has not joined: a join token is open until 2026-03-01T13:00:00Z",
			"nothing, until it joins; without, the token ends at 2026-03-01T13:00:00Z",
		}},
		{NotJoined, "without", adopted, Settings{}, []step{{event: Known{Topology: true}}}, []string{
			"it is in the topology and has not joined: no join token is open for it",
			"nothing, until a join token is made for it and it joins",
		}},
		{Offline, "never seen", adopted, Settings{}, []step{{event: Known{Joined: true}}}, []string{
			"it has not connected since this controller started", "its state is known once it connects and reports",
		}},
		{Offline, "gone", Memory{Adopted: true, Releasing: "ben"}, Settings{}, joined(step{event: Disconnected{"1"}}),
			[]string{
				"it has had no stream since 2026-03-01T12:00:00Z", "its state is known once it connects and reports",
				"release: asked for by ben, sent once the node is connected and says that it is held",
			}},
		{OtherReplica, "", adopted, Settings{}, joined(step{event: Connected{"2", "other"}}), []string{
			"replica other has its stream, and judges it", "that replica knows",
		}},
		{NoReport, "", adopted, Settings{}, joined(), []string{
			"it is connected since 2026-03-01T12:00:00Z and has not reported on this stream", "its first report says which config it runs",
		}},
		{stateComputing, "", adopted, Settings{}, report(with(has(b, 0), func(r *ReportReceived) { r.Versions = v2 })),
			[]string{
				`its desired config is not known for software "EDGESPAN-1-1-0", firmware "", board "b1"`,
				"it gets a push once its config is computed, if it needs one",
				strings.Replace(sane, "1-0-0", "1-1-0", 1),
			}},
		{ConfigError, "", adopted, Settings{},
			joined(step{event: Desired{For: v1, Fault: "ports: invalid type object"}}, step{event: has(b, 0)}), []string{
				"its layers make no config: ports: invalid type object", "nothing, until a layer that clashes is changed", sane,
			}},
		{Unmanaged, "", adopted, Settings{}, joined(step{event: with(want(a, 1), func(w *Desired) { w.Managed = false })},
			step{event: runs(b, 7, PendingConfig{})}), []string{
			"sysParams.managedConfig is false for it: nothing is pushed",
			"nothing, until sysParams.managedConfig is true for it",
			strings.Replace(sane, "none", "s:7", 1),
			"pending: its config is not the desired one and is not confirmed from here: the node undoes it 1m30s after its " +
				"report of 2026-03-01T12:00:00Z",
		}},
		{HeldLocally, "", adopted, Settings{},
			report(with(has(b, 0), func(r *ReportReceived) { r.Held = &Held{"eva", noon} })),
			[]string{
				"by eva since 2026-03-01T12:00:00Z: nothing is pushed", "nothing, until it is released, there or from here", sane,
			}},
		{HeldLocally, "released", Memory{Adopted: true, Releasing: "ben"}, Settings{},
			report(with(has(b, 0), func(r *ReportReceived) { r.Held = &Held{"eva", noon} })), []string{
				"by eva since 2026-03-01T12:00:00Z: nothing is pushed",
				"it is released; the desired config is pushed when it reports so", sane,
				"release: asked for by ben, sent once the node is connected and says that it is held",
			}},
		{InSync, "", adopted, Settings{}, report(with(has(a, 1), func(r *ReportReceived) {
			r.Bad = []string{"dns", "uplink"}
			r.Results = []Result{{"RELOAD_SSHD", "unsupported", ""}, {"RESTART_KEA", "failed", "exit 1"}}
		})), []string{
			"it runs the desired config, generation s:1", "nothing, until something changes", synced,
			"bad: dns, uplink", "action: RELOAD_SSHD unsupported", "action: RESTART_KEA failed: exit 1",
		}},
		{stateRenumbering, "", adopted, Settings{},
			report(with(has(a, 0),
				func(r *ReportReceived) { r.Generation, r.Restores = Generation{Authority: "j", Counter: 4}, gen(9) })), []string{
				"it runs the desired config as generation j:4, desired is s:1", "the number is sent at 2026-03-01T12:00:15Z",
				strings.Replace(synced, "s:1", "j:4 (restores s:9)", 1),
			}},
		{stateSettling, "", adopted, Settings{}, report(runs(a, 1, PendingConfig{})), []string{
			"it runs generation s:1, and has not settled yet",
			"it is confirmed after it reports to have settled; else the node undoes it, at 2026-03-01T12:01:30Z at the latest",
			synced,
		}},
		{Degraded, "", adopted, Settings{},
			report(runs(a, 1, PendingConfig{Settled: true, Worse: []string{"uplink", "dns"}})),
			[]string{
				"it runs generation s:1, and what was good before is bad now: uplink, dns",
				"it is confirmed if all is as good as before in time; else the node undoes it, at 2026-03-01T12:01:30Z at the " +
					"latest", synced,
			}},
		{stateConfirming, "", adopted, Settings{}, report(runs(a, 1, PendingConfig{Settled: true})), []string{
			"it runs generation s:1, has settled and is not worse than before",
			"a round trip on its stream confirms it; the next one is sent at 2026-03-01T12:00:15Z", synced,
		}},
		{UnknownHardware, "asked", adopted, Settings{}, joined(step{event: unknown},
			step{event: has(b, 0)}, step{event: Asked{true, noon.Add(2 * time.Minute)}}), []string{
			differs + `board "b1" with software "EDGESPAN-1-0-0" is unknown hardware, which may need configs that are not ` +
				`known here: nothing is pushed`,
			"its base config, asked for at 2026-03-01T12:00:00Z, ends this once it is accepted (edgespan boards list); it may " +
				"be asked again at 2026-03-01T12:02:00Z", sane,
		}},
		{UnknownHardware, "another of its board was asked", adopted, Settings{},
			joined(step{event: unknown}, step{event: has(b, 0)}, step{event: Asked{false, noon.Add(9 * time.Second)}}), []string{
				differs + `board "b1" with software "EDGESPAN-1-0-0" is unknown hardware, which may need configs that are not ` +
					`known here: nothing is pushed`,
				"it is asked for its base config at 2026-03-01T12:00:09Z", sane,
			}},
		{UnknownHardware, "queries off", adopted, off, joined(step{event: unknown}, step{event: has(b, 0)}), []string{
			differs + `board "b1" with software "EDGESPAN-1-0-0" is unknown hardware, which may need configs that are not ` +
				`known here: nothing is pushed`,
			"nothing, until files for its board are added: unknown_hw_queries_enabled is off", sane,
		}},
		{RolledBack, "rejected", failed(Invalid), Settings{}, report(has(b, 0)), []string{
			differs + "it was rejected by the node at 2026-03-01T12:00:00Z: ports: is a string",
			"nothing, until its config or its versions change, or a retry is asked for", sane,
		}},
		{RolledBack, "unhealthy", failed(Unhealthy), Settings{}, report(has(b, 0)), []string{
			differs + "it was undone by the node as unhealthy at 2026-03-01T12:00:00Z: ports: is a string",
			"nothing, until its config or its versions change, or a retry is asked for", sane,
		}},
		{InSync, "after another config failed", failed(Unhealthy), Settings{},
			joined(step{event: want(b, 2)}, step{event: has(b, 2)}), []string{
				"it runs the desired config, generation s:2", "nothing, until something changes",
				strings.Replace(sane, "none", "s:2", 1),
				"remembered: config A undone by the node as unhealthy at 2026-03-01T12:00:00Z: ports: is a string",
			}},
		{stateComparing, "", Memory{}, Settings{}, report(has(b, 0)), []string{
			differs + "it runs a config from before it joined, which is being compared with the desired one",
			"it gets a push after that, unless that would remove something", sane,
		}},
		{NeedsAdoption, "", Memory{}, Settings{},
			joined(step{event: has(b, 0)}, step{event: Compared{a, b, strings.Split("1 2 3 4 5 6 7", " ")}}), []string{
				differs + "a first push would remove 1, 2, 3, 4, 5 and 2 more",
				"nothing, until it is adopted with --import or --replace", sane,
			}},
		{stateStaged, "", adopted, Settings{}, joined(step{event: Admission{Staged: true}}, step{event: has(b, 0)}), []string{
			differs + "the rollout has not come to it", "it is pushed when its batch comes", sane,
		}},
		{stateApplying, "", adopted, Settings{},
			report(with(runs(b, 1, PendingConfig{}), func(r *ReportReceived) { r.Generation = Generation{} })), []string{
				differs + "it has taken generation s:1, and works on it",
				"it reports the config, or rejects or undoes it, at 2026-03-01T12:01:30Z at the latest", sane,
			}},
		{stateWaiting, "", adopted, Settings{}, report(has(b, 0)), []string{
			differs + "it was pushed at 2026-03-01T12:00:00Z, and the node has not said that it arrived",
			"it is pushed again at 2026-03-01T12:02:00Z, and at once if its config changes", sane,
		}},
		{stateWaiting, "lost with its stream", adopted, Settings{},
			joined(step{event: has(b, 0)}, step{event: Connected{"2", "me"}},
				step{event: with(has(b, 0), func(r *ReportReceived) { r.Stream = "2" })}), []string{
				differs + "it was pushed at 2026-03-01T12:00:00Z, and that stream ended before the node said that it arrived",
				"it is pushed again at 2026-03-01T12:00:15Z, and at once if its config changes", sane,
			}},
		{stateWaiting, "arrived, and unreadable", adopted, Settings{},
			joined(step{event: has(Digest{}, 0)}, step{event: Acked{1}}), []string{
				"it can't read its config; it was pushed at 2026-03-01T12:00:00Z and arrived",
				"it is pushed again at 2026-03-01T12:02:00Z, and at once if its config changes",
				strings.Replace(sane, "config B", "config unreadable", 1),
			}},
		{stateWaiting, "without room on the disk", adopted, Settings{},
			joined(step{event: has(b, 0)}, step{event: NotStored{1, a, "no space left on device"}}), []string{
				differs + "it was pushed at 2026-03-01T12:00:00Z, and the node can't store it: no space left on device",
				"it is pushed again at 2026-03-01T12:02:00Z, and at once if its config changes", sane,
			}},
		{stateWaiting, "of whom too much is said", adopted, Settings{},
			joined(step{event: has(b, 0)}, step{event: NotStored{1, a, strings.Repeat("é", longestWhy)}}), []string{
				differs + "it was pushed at 2026-03-01T12:00:00Z, and the node can't store it: " +
					strings.Repeat("é", longestWhy/2) + "…",
				"it is pushed again at 2026-03-01T12:02:00Z, and at once if its config changes", sane,
			}},
		{stateWaiting, "stored at last", adopted, Settings{}, joined(step{event: has(b, 0)},
			step{event: NotStored{1, a, "no space left on device"}}, step{event: Acked{1}}), []string{
			differs + "it was pushed at 2026-03-01T12:00:00Z and arrived",
			"it is pushed again at 2026-03-01T12:02:00Z, and at once if its config changes", sane,
		}},
		{stateWaiting, "after one that arrived", adopted, Settings{},
			joined(step{event: has(b, 0)}, step{event: Acked{1}}, step{event: want(Digest{Config: "C"}, 2)}), []string{
				"it runs config B, desired is C; it was pushed at 2026-03-01T12:00:00Z, and the node has not said that it arrived",
				"it is pushed again at 2026-03-01T12:02:00Z, and at once if its config changes", sane,
			}},
		{stateWaiting, "undone", adopted, Settings{},
			joined(step{event: has(Digest{"A", "P"}, 0)}, step{event: Undone{1, a, Unconfirmed, ""}}), []string{
				"its parameters differ from the desired ones; it undid the config by itself at 2026-03-01T12:00:00Z: not " +
					"confirmed in time",
				"it is pushed again at 2026-03-01T12:02:00Z, and at once if its config changes",
				strings.Replace(sane, "config B", "config A", 1),
			}},
	} {
		if c.set == (Settings{}) {
			c.set = Defaults("me")
		}
		n := New("n", c.m, c.set)
		for _, s := range c.steps {
			n.Step(noon, s.event)
		}
		c.want[0], c.want[1] = string(c.state.shown())+": "+c.want[0], "next: "+c.want[1]
		if got, want := strings.Join(n.Explain(noon), "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s %s:\n%s\nwant\n%s", c.state, c.name, got, want)
		}
		if n.evaluate(noon).state != c.state {
			t.Errorf("%s %s: is %s", c.state, c.name, n.evaluate(noon).state)
		}
	}
}

// Between two events a push may become due by time alone: Explain reports that before Tick causes it.
func TestExplainBeforeTheTimer(t *testing.T) {
	n := New("n", adopted, Defaults("me"))
	for _, s := range joined(step{event: has(b, 0)}) {
		n.Step(noon, s.event)
	}
	if got := n.Explain(noon.Add(time.Hour))[:2]; strings.Join(got,
		"; ") != "Pushing: it runs config B, desired is A; next: it is pushed now" {
		t.Errorf("%q", got)
	}
}

func TestStuck(t *testing.T) {
	stuck := map[State]bool{
		UnknownNode: true, NotJoined: true, Offline: false, OtherReplica: false, NoReport: false, stateComputing: false,
		ConfigError: true,
		Unmanaged:   true,
		HeldLocally: true, InSync: false, stateRenumbering: false, stateSettling: false, Degraded: false,
		stateConfirming: false,
		UnknownHardware: true, RolledBack: true,
		stateComparing: false, NeedsAdoption: true, stateStaged: false, stateApplying: false, stateWaiting: false,
		stateDue: false,
	}
	for s, want := range stuck {
		if s.NeedsOperator() != want {
			t.Errorf("%s: stuck is %v", s, !want)
		}
	}
}
