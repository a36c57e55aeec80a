package census

import (
	"sync/atomic"
	"time"
)

// remembered is for how many messages a mailbox knows when each was sent.
const remembered = 32

// mailbox counts the messages that wait for one actor.
type mailbox struct {
	posted, received atomic.Int64
	at               [remembered]atomic.Int64 // when the message of that number, modulo remembered, was sent
}

func (m *mailbox) MailboxStarted() {}
func (m *mailbox) MailboxEmpty()   {}
func (m *mailbox) MessagePosted(any) {
	m.at[(m.posted.Add(1)-1)%remembered].Store(time.Now().UnixNano())
}
func (m *mailbox) MessageReceived(any) { m.received.Add(1) }

// waiting returns how many messages wait. That in hand counts until it is handled.
func (m *mailbox) waiting() int {
	received := m.received.Load() // first: the other only grows
	return int(max(0, m.posted.Load()-received))
}

// oldest returns how long the first of the messages has waited; of many, how long the oldest one that is remembered.
// System messages overtake others, so it may be that of one behind it.
func (m *mailbox) oldest(now time.Time) time.Duration {
	received := m.received.Load()
	posted := m.posted.Load()
	if posted <= received {
		return 0
	}
	at := m.at[max(received, posted-remembered)%remembered].Load()
	if at == 0 {
		return 0 // it is being posted now
	}
	return max(0, now.Sub(time.Unix(0, at)))
}
