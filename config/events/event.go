package events

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"edgespan/config"
)

// Event is something that happened on a node.
type Event struct {
	// Seq identifies the event on its node. It rises, also over restarts; numbers are left out.
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`           // one of Kinds
	Object string    `json:"object"`         // kind/id, "host", "config", "node", "actor/<id>"
	Name   string    `json:"name,omitempty"` // the object's display name
	Text   string    `json:"text"`
	Op     string    `json:"op,omitempty"`
	// Command is the command line of Op, and Error its error message.
	Command string `json:"command,omitempty"`
	Error   string `json:"error,omitempty"`
	// Count is how often the event happened, if more than once: the first time at Time, the last time at Last. Rev is then
	// a number as Seq, of the last time.
	Count int       `json:"count,omitempty"`
	Last  time.Time `json:"last,omitzero"`
	Rev   uint64    `json:"rev,omitempty"`
	Cause Cause     `json:"cause,omitzero"`
	// Chain is what led to the event, the oldest first, in an answer that is asked for causes.
	Chain []Event `json:"chain,omitempty"`
}

// Cause is why an event happened, as far as its node knows it.
type Cause struct {
	// Config is the node's own number of the config that the object had, 0 if none is involved. Generation is the
	// generation of that config, AUTHORITY:COUNTER, and Source and By are where it came from: both are of events of the
	// kind Config alone.
	Config     uint64 `json:"config,omitempty"`
	Generation string `json:"generation,omitempty"`
	Source     string `json:"source,omitempty"` // controller, apply, rollback, file or base
	By         string `json:"by,omitempty"`     // a file, a user, or what the controller says of a push
	// Apply is the number of the apply of the object's network (applySeq), and Began what began it: one of the Began
	// constants.
	Apply string `json:"apply,omitempty"`
	Began string `json:"began,omitempty"`
	// Event is the Seq of the event that led to this one, always a lower one; 0 for none, or for that of Config.
	Event uint64 `json:"event,omitempty"`
}

// The kinds of event.
const (
	State     = "state"     // a network or an app changed its state
	Applied   = "applied"   // the host was changed
	Failed    = "failed"    // an op failed, or fails for another reason now
	Recovered = "recovered" // a failure is over
	Repaired  = "repaired"  // objects of the daemon that others changed were repaired
	Contested = "contested" // others change an object repeatedly: from now on repairs are counted
	Process   = "process"   // a process of the daemon died
	Port      = "port"      // a port came, went or changed
	Uplink    = "uplink"    // a network moved to another port; a port was drained or undrained
	Config    = "config"    // a config was published or rejected
	Crash     = "crash"     // an actor crashed
	Storage   = "storage"   // the disk rejects changes, or accepts them again; findings at start
	Lease     = "lease"     // an adapter got, lost or gave back its address
	Security  = "security"  // another process holds the name of the daemon's lock
	Tunnel    = "tunnel"    // the tunnel of a network went up or down, or a peer moved
	Shell     = "shell"     // an operator changed something by the debug shell, or tried to
)

// Kinds returns the kinds of event.
func Kinds() []string {
	return []string{State, Applied, Failed, Recovered, Repaired, Contested, Process, Port, Uplink, Config, Crash, Storage,
		Lease, Security, Tunnel, Shell}
}

// What begins an apply.
const (
	BeganConfig   = "config"   // the object's config changed
	BeganApps     = "apps"     // an adapter was added, changed or removed
	BeganPorts    = "ports"    // a port changed, or probing chose another one
	BeganOverlap  = "overlap"  // the host's own prefixes changed
	BeganHost     = "host"     // something changed on the host
	BeganProcess  = "process"  // a process of the network ended
	BeganRetry    = "retry"    // what failed or waits is tried again
	BeganCheck    = "check"    // the regular comparison with the host
	BeganStart    = "start"    // the daemon, or an actor of it, has started
	BeganLearning = "learning" // an app uses another address
	BeganTunnel   = "tunnel"   // the other end of the tunnel assigned other addresses
)

// Changed returns the number of the last change of the event: its Rev or its Seq.
func (e Event) Changed() uint64 { return max(e.Seq, e.Rev) }

// At returns when the event happened last.
func (e Event) At() time.Time {
	if e.Count > 1 {
		return e.Last
	}
	return e.Time
}

// Concerns reports whether the event is about an object, "" for any, or about an adapter of it.
func (e Event) Concerns(object string) bool {
	kind, id, _ := strings.Cut(strings.ToLower(object), "/")
	return object == "" || e.Object == object || e.Object == kind+"/"+id ||
		kind == "app" && strings.HasPrefix(e.Object, "adapter/"+id+"/")
}

// The bounds of an event's texts, in bytes.
const (
	maxWord = 256  // a name
	maxLine = 512  // a text
	maxText = 1024 // the output of a command
)

// cleaned returns the event with texts that are bounded and have no control characters: the output of a command, or
// what a peer says, must not control the terminal that shows it.
func (e Event) cleaned() Event {
	for _, text := range []*string{&e.Object, &e.Name, &e.Cause.Source, &e.Cause.By, &e.Cause.Generation, &e.Cause.Apply,
		&e.Cause.Began} {
		*text = printable(config.Truncate(*text, maxWord))
	}
	e.Text, e.Op = printable(config.Truncate(e.Text, maxLine)), printable(config.Truncate(e.Op, maxLine))
	e.Command, e.Error = printable(config.Truncate(e.Command, maxText)), printable(config.Truncate(e.Error, maxText))
	e.Chain = nil
	return e
}

// eventBytes is the size of an Event without its texts, and textBytes what a text takes in addition to its length.
const eventBytes, textBytes = 304, 8

// memory returns how many bytes of memory an event without a Chain takes.
func (e Event) memory() int {
	n := eventBytes
	for _, text := range []string{e.Kind, e.Object, e.Name, e.Text, e.Op, e.Command, e.Error, e.Cause.Generation,
		e.Cause.Source, e.Cause.By, e.Cause.Apply, e.Cause.Began} {
		if text != "" {
			n += textBytes + len(text)
		}
	}
	return n
}

// The years that the time of an event of a peer may have: others cannot be printed.
var firstTime, lastTime = time.Unix(0, 0).UTC(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// OfPeer returns an event that a peer has sent, cleaned; ok is false if a node cannot have sent it.
func (e Event) OfPeer() (out Event, ok bool) {
	if !slices.Contains(Kinds(), e.Kind) || e.Seq == 0 || e.Changed() > maxSeq || e.Cause.Event >= e.Seq || e.Count < 0 {
		return Event{}, false
	}
	for _, at := range []time.Time{e.Time, e.At()} {
		if at.Before(firstTime) || at.After(lastTime) {
			return Event{}, false
		}
	}
	if e.Time = e.Time.UTC(); e.Count > 1 {
		e.Last = e.Last.UTC()
	} else {
		e.Last, e.Rev = time.Time{}, 0
	}
	return e.cleaned(), true
}

// notAfter returns the event at a time that is not after now: otherwise a peer whose clock is fast, or which lies,
// would have the newest events of all peers.
func (e Event) notAfter(now time.Time) Event {
	if now = now.UTC(); e.Time.After(now) {
		e.Time = now
	}
	if e.Last.After(now) {
		e.Last = now
	}
	return e
}

// printable replaces what is no printable character: lines become one, and a terminal sees no control character.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}

// maxSeq bounds Seq: programs that read JSON as floating-point numbers know each number below it.
const maxSeq = 1<<53 - 1

// FirstSeq returns the first number of a start of the daemon, which is numbered, too. Each start has a million numbers,
// so that one that was used but is not on the disk is not used again.
func FirstSeq(boot uint64) uint64 { return boot&(1<<32-1)<<20 + 1 }
