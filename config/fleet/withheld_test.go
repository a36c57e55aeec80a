package fleet

import (
	"testing"
	"time"

	"edgespan/config/layers"
)

func TestSeed_ManagedConfig(t *testing.T) {
	unmanaged := with(want(a, 2), func(w *Desired) { w.Managed = false })
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"the sync is disabled by un-managing the network or a node, and on again", joined(
			step{0, unmanaged, "tell managed=false"},
			step{0, with(has(b, 0), func(r *ReportReceived) { r.Managed = &no }), "is Unmanaged"},
			step{200 * sec, Tick{}, ""},
			step{0, want(a, 3), "tell managed=true, save, push#1 A s:3, is waiting, timer 15s"},
			step{0, has(b, 0), "timer 2m0s"},
		)},
		{"a node is told outside the config: on connect, on change, and again where it says otherwise", joined(
			step{0, has(a, 1), "is InSync"},
			step{0, Connected{"2", "me"}, "tell managed=true, is NoReport"},
			step{0, with(has(a, 1), func(r *ReportReceived) { r.Stream, r.Managed = "2", nil }), "is InSync, timer 15s"},
			step{15 * sec, Tick{}, "tell managed=true, timer 15s"},
			step{5 * sec, with(has(a, 1), func(r *ReportReceived) { r.Stream, r.Managed = "2", &yes }), "no timer"},
			step{0, unmanaged, "tell managed=false, is Unmanaged, timer 15s"},
		)},
		{"un-managing it confirms nothing that is pending", joined(
			step{0, has(b, 0), pushA},
			step{0, with(want(a, 1), func(w *Desired) { w.Managed = false }), "tell managed=false, is Unmanaged, timer 15s"},
			step{0, with(runs(a, 1, PendingConfig{Settled: true}), func(r *ReportReceived) { r.Managed = &no }), "no timer"},
		)},
	} {
		run(t, c.name, New("n", adopted, Defaults("me")), c.steps)
	}
}

// Seed, "Interoperability".
func TestSeed_UnknownHardwareOfANode(t *testing.T) {
	unknown := with(want(a, 1), func(w *Desired) { w.Unknown = true })
	off := Defaults("me")
	off.Queries = false
	for _, c := range []struct {
		name  string
		set   Settings
		steps []step
	}{
		{"updates are disabled for a node of unknown hardware, and it is asked for its base config", Defaults("me"), joined(
			step{0, unknown, ""},
			step{0, has(b, 0), "ask b1, is UnknownHardware, timer 15s"},
			step{0, Asked{true, noon.Add(2 * time.Minute)}, "timer 2m0s"},
			step{119 * sec, has(b, 0), ""},
			step{1 * sec, has(b, 0), "ask b1, timer 15s"},
			step{0, Asked{false, noon.Add(3 * time.Minute)}, "timer 1m0s"},
			step{0, want(a, 2), "save, push#1 A s:2, is waiting, timer 2m0s"},
		)},
		{"a flag turns asking off, and updates stay disabled", off, joined(
			step{0, unknown, ""},
			step{0, has(b, 0), "is UnknownHardware"},
			step{200 * sec, has(b, 0), ""},
		)},
		{"a node that is not managed is not asked", Defaults("me"), joined(
			step{0, with(unknown, func(w *Desired) { w.Managed = false }), "tell managed=false"},
			step{0, with(has(b, 0), func(r *ReportReceived) { r.Managed = &no }), "is Unmanaged"},
		)},
		{"nor one that runs the desired config", Defaults("me"), joined(
			step{0, unknown, ""},
			step{0, has(a, 1), "is InSync"},
		)},
	} {
		run(t, c.name, New("n", adopted, c.set), c.steps)
	}
}

func TestFailedConfigsOfANode(t *testing.T) {
	rejected := func(attempt uint64, d Digest) Event { return Rejected{attempt, d, "ports: is a string"} }
	undone := func(attempt uint64, d Digest, r Reason) Event { return Undone{attempt, d, r, "uplink is bad"} }
	for _, c := range []struct {
		name  string
		m     Memory
		steps []step
	}{
		{"a rejected config is not pushed again until it changes", adopted, joined(
			step{0, has(b, 0), pushA},
			step{1 * sec, rejected(1, a), "save, is RolledBack, no timer"},
			step{300 * sec, has(b, 0), ""},
			step{0, want(a, 2), ""},
			step{0, want(Digest{Config: "C"}, 3), "save, push#2 C s:3, is waiting, timer 2m0s"},
			step{0, want(a, 4), "is RolledBack, no timer"},
		)},
		{"one undone as unhealthy is not either", adopted, joined(
			step{0, has(b, 0), pushA},
			step{90 * sec, undone(1, a, Unhealthy), "save, is RolledBack, no timer"},
			step{300 * sec, has(b, 0), ""},
		)},
		{"one undone as unconfirmed is pushed again after the interval", adopted, joined(
			step{0, has(b, 0), pushA},
			step{119 * sec, undone(1, a, Unconfirmed), "save, timer 2m0s"},
			step{1 * sec, undone(1, a, Unconfirmed), ""},
			step{118 * sec, has(b, 0), ""},
			step{1 * sec, has(b, 0), "save, push#2 A s:1, timer 2m0s"},
			step{1 * sec, undone(1, a, Unconfirmed), ""},
		)},
		{"one that is never confirmed is pushed ever more rarely, and shown", adopted, joined(
			step{0, has(b, 0), pushA},
			step{100 * sec, undone(1, a, Unconfirmed), "save, timer 2m0s"},
			step{120 * sec, Tick{}, "save, push#2 A s:1, timer 2m0s"},
			step{100 * sec, undone(2, a, Unconfirmed), "save, timer 4m0s"},
			step{240 * sec, Tick{}, "save, push#3 A s:1, timer 2m0s"},
			step{100 * sec, undone(3, a, Unconfirmed), "save, is RolledBack, timer 8m0s"},
			step{480 * sec, Tick{}, "save, push#4 A s:1, is waiting, timer 2m0s"},
			step{100 * sec, undone(4, a, Unconfirmed), "save, is RolledBack, timer 16m0s"},
			step{1 * sec, want(Digest{Config: "C"}, 2), "save, push#5 C s:2, is waiting, timer 2m0s"},
			step{100 * sec, undone(5, Digest{Config: "C"}, Unconfirmed), "save, timer 2m0s"},
		)},
		{"an operator's retry of one that is never confirmed is at once, and counts anew", Memory{Adopted: true,
			Push: Attempt{Number: 9, Generation: gen(1), Digest: a, For: v1, At: noon, Undone: true, Undos: 20}}, joined(
			step{0, has(b, 0), "is RolledBack, timer 24h0m0s"},
			step{0, Retry{}, "save, save, push#10 A s:1, is waiting, timer 2m0s"},
			step{100 * sec, undone(10, a, Unconfirmed), "save, timer 2m0s"},
		)},
		{"the end of a local config ends the interval", adopted, joined(
			step{0, has(b, 0), pushA},
			step{1 * sec, with(has(b, 0), func(r *ReportReceived) { r.Held = &Held{"eva", noon} }), "is HeldLocally, no timer"},
			step{1 * sec, has(b, 0), "save, save, push#2 A s:1, is waiting, timer 2m0s"},
		)},
		{"other versions of the node may take it", adopted, joined(
			step{0, has(b, 0), pushA},
			step{1 * sec, rejected(1, a), "save, is RolledBack, no timer"},
			step{0, with(has(b, 0), func(r *ReportReceived) { r.Versions = v2 }), "save, compute EDGESPAN-1-1-0, is computing"},
			step{0, with(want(a, 1), func(w *Desired) { w.For = v2 }), "is waiting, timer 1m59s"},
			step{119 * sec, Tick{}, "save, push#2 A s:1, timer 2m0s"},
		)},
		{"an operator's retry is at once, and answers to what was before it are void", adopted, joined(
			step{0, has(b, 0), pushA},
			step{1 * sec, rejected(1, a), "save, is RolledBack, no timer"},
			step{0, Retry{}, "save, save, push#2 A s:1, is waiting, timer 2m0s"},
			step{0, rejected(1, a), ""},
			step{0, rejected(2, a), "save, is RolledBack, no timer"},
		)},
		{"a config that runs after all has not failed", adopted, joined(
			step{0, has(b, 0), pushA},
			step{1 * sec, rejected(1, a), "save, is RolledBack, no timer"},
			step{0, runs(a, 1, PendingConfig{Settled: true, Worse: []string{"dns"}}), "is Degraded"},
			step{0, has(b, 0), "is RolledBack"},
			step{0, has(a, 1), "save, is InSync"},
			step{0, has(b, 0), "is waiting, timer 1m59s"},
		)},
		{"what failed before the controller was restarted is still known", Memory{
			Adopted: true, Push: Attempt{Number: 3, Digest: a},
			Failures: []ConfigFailure{{Digest: a, Attempt: 3, Reason: Unhealthy, For: v1}},
		}, joined(
			step{0, has(b, 0), "is RolledBack"},
		)},
		{"an undo while the stream was down counts when the node is back, before any report", Memory{
			Adopted: true, Push: Attempt{Number: 3, Digest: a, For: v1, At: noon.Add(-time.Hour)},
		}, joined(
			step{0, undone(3, a, Unhealthy), "save"},
			step{0, has(b, 0), "is RolledBack"},
		)},
		{"a late answer to a push before the last one is remembered for its own config", adopted, joined(
			step{0, has(b, 0), pushA},
			step{0, want(Digest{Config: "C"}, 2), "save, push#2 C s:2, is waiting"},
			step{0, rejected(1, a), "save"},
			step{0, want(a, 3), "is RolledBack, no timer"},
			step{0, rejected(9, Digest{Config: "C"}), ""},
		)},
	} {
		run(t, c.name, New("n", c.m, Defaults("me")), c.steps)
	}
}

func TestConfirmationOfANode(t *testing.T) {
	settled := runs(a, 1, PendingConfig{Settled: true})
	answer := func(probe uint64, worse ...string) Event {
		return Answered{Stream: "1", Probe: probe, Generation: gen(1), Digest: a, Worse: worse}
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"confirmed after a round trip that follows settling", joined(
			step{0, has(b, 0), pushA},
			step{5 * sec, runs(a, 1, PendingConfig{}), "is settling, no timer"},
			step{5 * sec, settled, "probe#1, is confirming, timer 15s"},
			step{0, answer(7), ""},
			step{0, with(answer(1).(Answered), func(e *Answered) { e.Stream = "0" }), ""},
			step{1 * sec, answer(1), "confirm s:1, timer 15s"},
			step{0, answer(1), ""},
			step{4 * sec, settled, ""},
			step{1 * sec, has(a, 1), "is InSync, no timer"},
		)},
		{"a probe or confirmation that is lost is sent again", joined(
			step{0, settled, "probe#1, is confirming, timer 15s"},
			step{15 * sec, Tick{}, "probe#2, timer 15s"},
			step{0, answer(1), ""},
			step{0, answer(2), "confirm s:1"},
			step{15 * sec, settled, "probe#3, timer 15s"},
		)},
		{"what was good before and is bad now is not confirmed, until it is good again", joined(
			step{0, runs(a, 1, PendingConfig{Settled: true, Worse: []string{"uplink"}}), "is Degraded"},
			step{5 * sec, settled, "probe#1, is confirming, timer 15s"},
			step{0, answer(1, "uplink"), ""},
			step{5 * sec, runs(a, 1, PendingConfig{Settled: true, Worse: []string{"uplink"}}), "is Degraded, no timer"},
			step{10 * sec, settled, "probe#2, is confirming, timer 15s"},
		)},
		{"a node that answers with another generation is not confirmed", joined(
			step{0, settled, "probe#1, is confirming, timer 15s"},
			step{0, Answered{Stream: "1", Probe: 1, Generation: gen(9), Digest: a}, ""},
		)},
		{"nor one that answers with another config", joined(
			step{0, settled, "probe#1, is confirming, timer 15s"},
			step{0, Answered{Stream: "1", Probe: 1, Generation: gen(1), Digest: b}, ""},
		)},
		{"a round trip on a stream before this one is none", joined(
			step{0, settled, "probe#1, is confirming, timer 15s"},
			step{0, Connected{"2", "me"}, "tell managed=true, is NoReport, no timer"},
			step{0, with(settled, func(r *ReportReceived) { r.Stream = "2" }), "probe#2, is confirming, timer 15s"},
			step{0, with(answer(1).(Answered), func(e *Answered) { e.Stream = "2" }), ""},
		)},
		{"nor is one for the config before", joined(
			step{0, settled, "probe#1, is confirming, timer 15s"},
			step{0, want(b, 2), "save, push#1 B s:2, is waiting, timer 2m0s"},
			step{0, runs(b, 2, PendingConfig{Settled: true}), "probe#2, is confirming, timer 15s"},
			step{0, Answered{Stream: "1", Probe: 1, Generation: gen(2), Digest: b}, ""},
		)},
		{"an hour without the controller: the node comes back with the old config, and it goes on", joined(
			step{0, has(b, 0), pushA},
			step{0, Disconnected{"1"}, "is Offline, no timer"},
			step{time.Hour, Connected{"2", "me"}, "tell managed=true, is NoReport"},
			step{0, Undone{1, a, Unconfirmed, ""}, "save"},
			step{0, with(has(b, 0), func(r *ReportReceived) { r.Stream = "2" }), "is waiting, timer 2m0s"},
			step{120 * sec, Tick{}, "save, push#2 A s:1, timer 2m0s"},
		)},
	} {
		run(t, c.name, New("n", adopted, Defaults("me")), c.steps)
	}
}

func TestWhoMayBePushed(t *testing.T) {
	known := func(k Known) Event { return k }
	held := with(has(b, 0), func(r *ReportReceived) { r.Held = &Held{By: "eva", Since: noon} })
	for _, c := range []struct {
		name  string
		m     Memory
		steps []step
	}{
		{"nodes must be one of those of the topology, joined, or with an open join token", adopted, []step{
			{0, Tick{}, "is UnknownNode"},
			{0, known(Known{Token: noon.Add(time.Minute)}), "is NotJoined, timer 1m0s"},
			{60 * sec, Tick{}, "is UnknownNode"},
			{0, known(Known{Topology: true}), "is NotJoined"},
			{0, known(Known{Joined: true}), "is Offline"},
			{0, Connected{"1", "me"}, "is NoReport"},
			{0, has(b, 0), "compute EDGESPAN-1-0-0, is computing"},
			{0, want(a, 1), "tell managed=true, " + pushA},
			{0, known(Known{}), "is UnknownNode, no timer"},
			{200 * sec, Tick{}, ""},
		}},
		{"another replica's node is left to it", adopted, joined(
			step{0, Connected{"2", "other"}, "is OtherReplica"},
			step{0, with(has(b, 0), func(r *ReportReceived) { r.Stream = "2" }), ""},
			step{0, Disconnected{"1"}, ""},
			step{0, Recalled{Memory{Adopted: true, Push: Attempt{Number: 4, Digest: a, At: noon}}}, ""},
			step{60 * sec, Connected{"3", "me"}, "tell managed=true, is NoReport"},
			step{0, with(has(b, 0), func(r *ReportReceived) { r.Stream = "3" }), "is waiting, timer 1m0s"},
			step{0, Recalled{Memory{Push: Attempt{Number: 4, Digest: a, At: noon},
				Failures: []ConfigFailure{{Digest: a, Attempt: 4, For: v1}}}}, "save, is RolledBack, no timer"},
		)},
		{"a change and back that was never pushed leaves the interval alone", adopted, joined(
			step{0, has(b, 0), pushA},
			step{0, Admission{Staged: true, Open: a}, ""},
			step{5 * sec, want(Digest{Config: "C"}, 2), "is staged, no timer"},
			step{5 * sec, want(a, 3), "is waiting, timer 1m50s"},
		)},
		{"a node that is held locally is left alone until it is released", adopted, joined(
			step{0, held, "is HeldLocally"},
			step{300 * sec, held, ""},
			step{0, ReleaseAsked{"ben"}, "save, release, timer 15s"},
			step{5 * sec, held, ""},
			step{10 * sec, held, "release, timer 15s"},
			step{0, has(b, 0), "save, save, push#1 A s:1, is waiting, timer 2m0s"},
			step{0, ReleaseAsked{"ben"}, ""},
		)},
		{"a release waits for the node, and survives the controller", Memory{Adopted: true, Releasing: "ben"}, joined(
			step{0, held, "release, is HeldLocally, timer 15s"},
		)},
		{"a first push that would remove objects needs adoption", Memory{}, joined(
			step{0, has(b, 0), "compare B with A, is comparing"},
			step{5 * sec, has(b, 0), ""},
			step{0, Compared{a, Digest{Config: "X"}, nil}, ""},
			step{0, Compared{a, b, []string{"ports.wan"}}, "is NeedsAdoption"},
			step{300 * sec, Tick{}, ""},
			step{0, AdoptionDecided{Replace: false}, ""},
			step{0, AdoptionDecided{Replace: true}, "save, " + pushA},
		)},
		{"adoption by import: the desired config that comes of it removes nothing", Memory{}, joined(
			step{0, has(b, 0), "compare B with A, is comparing"},
			step{0, Compared{a, b, []string{"ports.wan"}}, "is NeedsAdoption"},
			step{0, want(Digest{Config: "C"}, 2), "compare B with C, is comparing"},
			step{0, Compared{a, b, nil}, ""},
			step{0, Compared{Digest{Config: "C"}, b, nil}, "save, push#1 C s:2, is waiting, timer 2m0s"},
			step{0, want(a, 3), "save, push#2 A s:3, is waiting"},
		)},
		{"a node that runs another config meanwhile is compared again", Memory{}, joined(
			step{0, has(b, 0), "compare B with A, is comparing"},
			step{0, has(Digest{Config: "D"}, 0), "compare D with A"},
			step{0, Compared{a, b, nil}, ""},
			step{0, Compared{a, Digest{Config: "D"}, nil}, "save, push#1 A s:1, is waiting, timer 2m0s"},
		)},
		{"a node that has the desired config is adopted", Memory{}, joined(
			step{0, has(a, 1), "save, is InSync"},
			step{0, want(b, 2), "save, push#1 B s:2, is waiting, timer 2m0s"},
		)},
		{"a staged rollout says who is pushed now, and what", adopted, joined(
			step{0, Admission{Staged: true}, ""},
			step{0, has(b, 0), "is staged"},
			step{200 * sec, Tick{}, ""},
			step{0, Admission{Staged: true, Open: Digest{Config: "X"}}, ""},
			step{0, Admission{Staged: true, Open: a}, pushA},
			step{0, want(Digest{Config: "C"}, 2), "is staged, no timer"},
			step{0, Admission{}, "save, push#2 C s:2, is waiting, timer 2m0s"},
		)},
	} {
		run(t, c.name, New("n", c.m, Defaults("me")), c.steps)
	}
}

func TestVersionsWithoutABoard(t *testing.T) {
	k := (Hardware{}).KindOf(layers.Versions{Software: "EDGESPAN-1-0-0"})
	if k.Unknown {
		t.Error("a node that names no board is of unknown hardware")
	}
}
