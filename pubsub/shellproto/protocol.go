package shellproto

import (
	"encoding/json"
	"time"
)

// Version is the version of the protocol. A gateway refuses requests of another one with an error that names both.
const Version = 1

// AdminGroup is the group whose members may change something, besides root.
const AdminGroup = "edgespan-admin"

// Request is one command. A shell may have several under way.
type Request struct {
	Version int      `json:"version"`
	ID      uint64   `json:"id"` // chosen by the shell, unique on its connection
	Op      string   `json:"op"` // a name of Ops
	Args    []string `json:"args,omitempty"`
	Write   bool     `json:"write,omitempty"`  // the shell was started with --write
	Cancel  bool     `json:"cancel,omitempty"` // ends the request with this ID, which is under way
}

// Frame is a part of an answer. The last one has End.
type Frame struct {
	ID      uint64          `json:"id"`
	Data    json.RawMessage `json:"data,omitempty"`    // the value of Op's type
	Dropped uint64          `json:"dropped,omitempty"` // items that were not sent since the last frame
	End     bool            `json:"end,omitempty"`
	Error   string          `json:"error,omitempty"` // why the request failed; with End
	Exit    int             `json:"exit,omitempty"`  // the exit status for a script, with Error
}

// Op is an operation of the shell.
type Op struct {
	Name    string
	Usage   string // of its arguments
	Summary string
	Writes  bool     // it changes something: needs --write and the right to
	Streams bool     // it answers until it is cancelled
	Faults  bool     // it needs a daemon that was started with --allow-faults
	Args    []string // for completion: the kind of each argument, one of Complete's
}

// Kinds of names that complete an argument.
const (
	NamesActor     = "actor"
	NamesNetwork   = "network"
	NamesTopic     = "topic"
	NamesKey       = "key" // of the topic before it
	NamesSubsystem = "subsystem"
	NamesLevel     = "level"
	NamesFault     = "fault" // kinds of them, list and clear
)

// Ops are the operations that a gateway answers, in the order of help.
var Ops = []Op{
	{
		Name: "tree", Summary: "actors: state, restarts, mailbox, what each does now",
		Usage: "[ACTOR]", Args: []string{NamesActor},
	},
	{
		Name: "inspect", Summary: "state of an actor as data, without secrets",
		Usage: "ACTOR", Args: []string{NamesActor},
	},
	{
		Name: "tail", Summary: "messages and effects of an actor, as they pass",
		Usage: "ACTOR", Streams: true, Args: []string{NamesActor},
	},
	{
		Name: "watch", Summary: "values of a topic, now and as they change",
		Usage: "TOPIC [KEY]", Streams: true, Args: []string{NamesTopic, NamesKey},
	},
	{
		Name: "events", Summary: "the newest events, and then each as it happens",
		Usage: "[TYPE]", Streams: true,
	},
	{
		Name: "trace", Summary: "changes, from the config to each kernel operation",
		Usage: "[NETWORK]", Streams: true, Args: []string{NamesNetwork},
	},
	{Name: "names", Summary: "live names of one kind, for completion", Usage: "KIND [OF]"},
	{
		Name: "reconcile", Summary: "make a network compare and mend the host now",
		Usage: "NETWORK", Writes: true, Args: []string{NamesNetwork},
	},
	{
		Name: "reprobe", Summary: "probe a network's uplinks now",
		Usage: "NETWORK", Writes: true, Args: []string{NamesNetwork},
	},
	{
		Name: "restart", Summary: "restart an actor, as if it had crashed",
		Usage: "ACTOR", Writes: true, Args: []string{NamesActor},
	},
	{
		Name: "loglevel", Summary: "change the log level of a subsystem for a while",
		Usage: "SUBSYSTEM LEVEL [DURATION]", Writes: true, Args: []string{NamesSubsystem, NamesLevel},
	},
	{
		Name: "fault", Summary: "break something for a while; list, clear",
		Usage: "KIND [NETWORK] DURATION", Writes: true, Faults: true, Args: []string{NamesFault, NamesNetwork},
	},
}

// Actor is an answer of tree: one actor of the daemon.
type Actor struct {
	ID       string        `json:"id"`    // its path, such as router/ni-…
	State    string        `json:"state"` // running, restarting
	Crashes  int           `json:"crashes,omitempty"`
	Last     string        `json:"last,omitempty"` // reason of the last crash
	LastAt   time.Time     `json:"lastAt,omitzero"`
	Next     string        `json:"next,omitempty"` // when it restarts
	Messages uint64        `json:"messages"`
	Waiting  int           `json:"waiting"`            // messages in its mailbox
	Oldest   time.Duration `json:"oldest,omitempty"`   // how long the first of them waits
	Now      string        `json:"now,omitempty"`      // type of the message that it handles now
	NowSince time.Duration `json:"nowSince,omitempty"` // for how long
}

// Inspection is the answer of inspect.
type Inspection struct {
	Actor Actor           `json:"actor"`
	State json.RawMessage `json:"state"` // of its core; secrets are masked
}

// The ways of a TailItem: a message that an actor gets, an effect of its core, and the end of a message that took long.
const (
	In      = "in"
	Out     = "out"
	Handled = "handled"
)

// TailItem is an item of tail.
type TailItem struct {
	At    time.Time     `json:"at"`
	Actor string        `json:"actor"`
	Way   string        `json:"way"` // In, Out or Handled
	Type  string        `json:"type"`
	Text  string        `json:"text,omitempty"` // cut at a bound, without secrets
	Took  time.Duration `json:"took,omitempty"`
}

// WatchItem is an item of watch.
type WatchItem struct {
	At      time.Time       `json:"at"`
	Topic   string          `json:"topic"`
	Key     string          `json:"key"`
	Deleted bool            `json:"deleted,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
}

// TraceItem is an item of trace: a step of a change.
type TraceItem struct {
	At      time.Time     `json:"at"`
	Depth   int           `json:"depth"`
	Where   string        `json:"where"` // actor or leaf
	What    string        `json:"what"`  // such as apply, or the operation of the kernel in words
	Took    time.Duration `json:"took,omitempty"`
	Error   string        `json:"error,omitempty"`
	Network string        `json:"network,omitempty"`
}

// Done is the answer of an operation that changes something.
type Done struct {
	Text string `json:"text"`
}
