package fleet

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Explain says why the node is in its state, what happens next and when, and what else is worth knowing, one line each.
func (n *Node) Explain(now time.Time) []string {
	v := n.evaluate(now)
	out := []string{
		string(v.state.shown()) + ": " + n.explainState(now, v),
		"next: " + n.describeNext(v),
	}
	if n.reported {
		out = append(out, "runs: "+n.describeReport())
		if len(n.report.Bad) > 0 {
			out = append(out, "bad: "+strings.Join(n.report.Bad, ", "))
		}
		for _, r := range n.report.Results {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("action: %s %s: %s", r.Action, r.Result, r.Why), ": "))
		}
		if p := n.report.Pending; p != nil &&
			(v.state == Unmanaged || v.state == HeldLocally || !n.hasDesired() && v.state != stateApplying) {
			out = append(out, fmt.Sprintf("pending: its config is not the desired one and is not confirmed from here: the node "+
				"undoes it %v after its report of %s",
				p.Remaining.Round(time.Second), formatTime(n.heard)))
		}
	}
	for _, f := range n.mem.Failures {
		if v.state != RolledBack || f.Digest != n.desired.Digest {
			out = append(out, fmt.Sprintf("remembered: config %s %s: %s", f.Digest, describeFailure(f), f.Why))
		}
	}
	if n.mem.Releasing != "" {
		out = append(out, fmt.Sprintf("release: asked for by %s, sent once the node is connected and says that it is held",
			n.mem.Releasing))
	}
	return out
}

// explainState explains the state of a verdict.
func (n *Node) explainState(now time.Time, v verdict) string {
	switch v.state {
	case UnknownNode:
		return "it is in no topology, has not joined and no join token is open for it"
	case NotJoined:
		if n.hasOpenToken(now) {
			return "it has not joined: a join token is open until " + formatTime(n.known.Token)
		}
		return "it is in the topology and has not joined: no join token is open for it"
	case Offline:
		if n.since.IsZero() {
			return "it has not connected since this controller started"
		}
		return "it has had no stream since " + formatTime(n.since)
	case OtherReplica:
		return fmt.Sprintf("replica %s has its stream, and judges it", n.replica)
	case NoReport:
		return fmt.Sprintf("it is connected since %s and has not reported on this stream", formatTime(n.since))
	case stateComputing:
		return fmt.Sprintf("its desired config is not known for software %q, firmware %q, board %q", n.report.Software,
			n.report.Firmware, n.report.Board)
	case ConfigError:
		if n.unread != "" {
			return "what the store has of its pushes can't be read here: " + n.unread
		}
		return "its layers make no config: " + n.desired.Fault
	case Unmanaged:
		return "sysParams.managedConfig is false for it: nothing is pushed"
	case HeldLocally:
		return fmt.Sprintf("by %s since %s: nothing is pushed", n.report.Held.By, formatTime(n.report.Held.Since))
	case InSync, stateRenumbering, stateSettling, Degraded, stateConfirming, stateTrying:
		return n.explainInSync(v)
	default:
		return n.explainNotInSync(v)
	}
}

// explainInSync explains the state of a node that runs the desired config.
func (n *Node) explainInSync(v verdict) string {
	switch v.state {
	case stateRenumbering:
		return fmt.Sprintf("it runs the desired config as generation %s, desired is %s",
			formatGeneration(n.report.Generation),
			n.desired.Generation)
	case stateSettling:
		return fmt.Sprintf("it runs generation %s, and has not settled yet", n.desired.Generation)
	case Degraded:
		return fmt.Sprintf("it runs generation %s, and what was good before is bad now: %s", n.desired.Generation,
			strings.Join(n.report.Pending.Worse, ", "))
	case stateConfirming:
		return fmt.Sprintf("it runs generation %s, has settled and is not worse than before", n.desired.Generation)
	case stateTrying:
		return fmt.Sprintf("it tries generation %s for a bisect, and has settled", n.desired.Generation)
	default:
		return fmt.Sprintf("it runs the desired config, generation %s", n.desired.Generation)
	}
}

// explainNotInSync explains the state of a node that runs another config.
func (n *Node) explainNotInSync(v verdict) string {
	differs := n.describeDifference()
	switch v.state {
	case UnknownHardware:
		return fmt.Sprintf("%s; board %q with software %q is unknown hardware, which may need configs that are not known "+
			"here: nothing is pushed", differs, n.report.Board, n.report.Software)
	case RolledBack:
		f := n.mem.findFailure(n.desired.Digest)
		if f == nil { // isCutOff
			return fmt.Sprintf("%s; %s, %d times in a row: it may cut the node off", differs, n.describePush(),
				n.mem.Push.Undos)
		}
		return fmt.Sprintf("%s; it was %s: %s", differs, describeFailure(*f), f.Why)
	case stateComparing:
		return differs + "; it runs a config from before it joined, which is being compared with the desired one"
	case NeedsAdoption:
		return fmt.Sprintf("%s; a first push would remove %s", differs, listSome(n.removes))
	case stateStaged:
		return differs + "; the rollout has not come to it"
	case stateApplying:
		return fmt.Sprintf("%s; it has taken generation %s, and works on it", differs, n.desired.Generation)
	case stateWaiting:
		return differs + "; " + n.describePush()
	default:
		return differs
	}
}

// describePush describes the last push.
func (n *Node) describePush() string {
	p := n.mem.Push
	switch {
	case p.Undone:
		return fmt.Sprintf("it undid the config by itself at %s: not confirmed in time", formatTime(p.At))
	case n.unstored.Why != "" && n.unstored.Digest.Config == p.Digest.Config:
		return fmt.Sprintf("it was pushed at %s, and the node can't store it: %s", formatTime(p.At), n.unstored.Why)
	case p.Number > 0 && n.acked == p.Number:
		return fmt.Sprintf("it was pushed at %s and arrived", formatTime(p.At))
	}
	if n.isPushLost() {
		return fmt.Sprintf("it was pushed at %s, and that stream ended before the node said that it arrived",
			formatTime(p.At))
	}
	return fmt.Sprintf("it was pushed at %s, and the node has not said that it arrived", formatTime(p.At))
}

// describeDifference says what differs between the reported and the desired digest.
func (n *Node) describeDifference() string {
	has, want := n.report.Digest, n.desired.Digest
	switch {
	case has.Config == "":
		return "it can't read its config"
	case has.Config == want.Config:
		return "its parameters differ from the desired ones"
	}
	return fmt.Sprintf("it runs config %s, desired is %s", shortDigest(has.Config), shortDigest(want.Config))
}

// describeNext says what happens next for a verdict, and when.
func (n *Node) describeNext(v verdict) string {
	switch v.state {
	case UnknownNode:
		return "nothing, until it is put into the topology or a join token is made for it"
	case NotJoined:
		if !v.at.IsZero() {
			return "nothing, until it joins; without, the token ends at " + formatTime(v.at)
		}
		return "nothing, until a join token is made for it and it joins"
	case Offline:
		return "its state is known once it connects and reports"
	case OtherReplica:
		return "that replica knows"
	case NoReport:
		return "its first report says which config it runs"
	case stateComputing:
		return "it gets a push once its config is computed, if it needs one"
	case ConfigError:
		if n.unread != "" {
			return "nothing, until a controller of the version that wrote it reads it, or this one is upgraded"
		}
		return "nothing, until a layer that clashes is changed"
	case Unmanaged:
		return "nothing, until sysParams.managedConfig is true for it"
	case HeldLocally:
		if n.mem.Releasing != "" {
			return "it is released; the desired config is pushed when it reports so"
		}
		return "nothing, until it is released, there or from here"
	case stateRenumbering:
		return "the number is sent" + describeRetry(v)
	case stateSettling:
		return "it is confirmed after it reports to have settled; else the node undoes it" + n.describeUndo()
	case Degraded:
		return "it is confirmed if all is as good as before in time; else the node undoes it" + n.describeUndo()
	case stateConfirming:
		return "a round trip on its stream confirms it; the next one is sent" + describeRetry(v)
	case stateTrying:
		return "the bisect goes on; the config is never confirmed: else the node undoes it" + n.describeUndo()
	case InSync:
		return "nothing, until something changes"
	default:
		return n.describeNextOther(v)
	}
}

// describeNextOther is describeNext for a node that runs another config.
func (n *Node) describeNextOther(v verdict) string {
	switch v.state {
	case UnknownHardware:
		switch {
		case !n.set.Queries:
			return "nothing, until files for its board are added: unknown_hw_queries_enabled is off"
		case n.queried.IsZero():
			return "it is asked for its base config" + describeRetry(v)
		}
		return fmt.Sprintf("its base config, asked for at %s, ends this once it is accepted (edgespan boards list); it may "+
			"be asked again%s", formatTime(n.queried), describeRetry(v))
	case RolledBack:
		if !v.at.IsZero() {
			return "it is pushed again, ever more rarely, until its config or its versions change" + describeRetry(v)
		}
		return "nothing, until its config or its versions change, or a retry is asked for"
	case stateComparing:
		return "it gets a push after that, unless that would remove something"
	case NeedsAdoption:
		return "nothing, until it is adopted with --import or --replace"
	case stateStaged:
		return "it is pushed when its batch comes"
	case stateApplying:
		return "it reports the config, or rejects or undoes it" + n.describeUndo()
	case stateWaiting:
		return "it is pushed again at " + formatTime(v.at) + ", and at once if its config changes"
	default:
		return "it is pushed now"
	}
}

// describeUndo says when the node undoes its pending config.
func (n *Node) describeUndo() string {
	p := n.report.Pending
	if p == nil || p.Remaining <= 0 {
		return ""
	}
	return fmt.Sprintf(", at %s at the latest", formatTime(n.heard.Add(p.Remaining)))
}

// describeReport describes the node's last report.
func (n *Node) describeReport() string {
	r := n.report
	out := fmt.Sprintf("config %s, generation %s", cmp.Or(shortDigest(r.Digest.Config), "unreadable"),
		formatGeneration(r.Generation))
	if r.Restores != (Generation{}) {
		out += fmt.Sprintf(" (restores %s)", r.Restores)
	}
	return out + fmt.Sprintf(", software %q, firmware %q, board %q, reported at %s", r.Software, r.Firmware, r.Board,
		formatTime(n.heard))
}

// String shortens the digests for people.
func (d Digest) String() string {
	if d.Peer == "" {
		return shortDigest(d.Config)
	}
	return shortDigest(d.Config) + "/" + shortDigest(d.Peer)
}

func shortDigest(digest string) string {
	const shown = 12
	if len(digest) > shown {
		return digest[:shown]
	}
	return digest
}

func describeFailure(f ConfigFailure) string {
	if f.Reason == Invalid {
		return "rejected by the node at " + formatTime(f.At)
	}
	return "undone by the node as unhealthy at " + formatTime(f.At)
}

func formatGeneration(g Generation) string { return cmp.Or(g.String(), "none") }

// describeRetry says when a verdict is evaluated again.
func describeRetry(v verdict) string {
	if v.at.IsZero() {
		return " now"
	}
	return " at " + formatTime(v.at)
}

// listSome lists the first few of many names.
func listSome(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
