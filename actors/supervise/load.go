package supervise

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Load counts, by kind of actor, the messages that wait and the crashes. One kind may be ten thousand actors, which
// share their counters. A nil *Load counts nothing.
type Load struct {
	mu    sync.Mutex
	kinds map[string]*kindLoad
}

// kindLoad is a middleware of the mailboxes of one kind.
type kindLoad struct {
	waiting atomic.Int64
	crashes atomic.Uint64
}

func (k *kindLoad) MailboxStarted()     {}
func (k *kindLoad) MailboxEmpty()       {}
func (k *kindLoad) MessagePosted(any)   { k.waiting.Add(1) }
func (k *kindLoad) MessageReceived(any) { k.waiting.Add(-1) }

func (l *Load) kind(name string) *kindLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kinds == nil {
		l.kinds = map[string]*kindLoad{}
	}
	if l.kinds[name] == nil {
		l.kinds[name] = &kindLoad{}
	}
	return l.kinds[name]
}

// Mailbox returns the option of an actor's Props that counts its messages. A stopped actor's mailbox is still emptied,
// so its messages do not count for ever.
func (l *Load) Mailbox(kind string) actor.PropsOption {
	if l == nil {
		return Mailbox()
	}
	return Mailbox(l.kind(kind))
}

// Crashed counts a crash of an actor that restarts. The library does not report the message that crashed it as
// received.
func (l *Load) Crashed(kind string) {
	if l == nil {
		return
	}
	k := l.kind(kind)
	k.crashes.Add(1)
	k.waiting.Add(-1)
}

// KindLoad is the load of one kind of actor.
type KindLoad struct {
	Kind    string
	Waiting int64 // messages in mailboxes
	Crashes uint64
}

// Kinds returns the load of each kind, in order.
func (l *Load) Kinds() []KindLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []KindLoad
	for _, name := range slices.Sorted(maps.Keys(l.kinds)) {
		k := l.kinds[name]
		out = append(out, KindLoad{name, max(0, k.waiting.Load()), k.crashes.Load()})
	}
	return out
}
