// Package relayflow decides how many messages of a relay (config/fleet/nodeproto.Relay) one side may send and when it
// credits the other side: a sender sends what it was credited and no more, and a receiver credits what its reader has
// taken. So a relay has at most Window messages in the queue of a stream or waiting at its end, however slow its reader
// is and however small the pieces are.
//
// It sends and keeps no data, and knows no stream.
package relayflow

// PieceSize bounds the bytes of one message, and Window the messages on their way. Together they keep a round trip of
// 100 ms busy at 2 MB/s, and delay another message on a link of 1 Mbit/s by 1.6 s at most.
const (
	PieceSize = 32 << 10
	Window    = 6
)

// Receiver is the receiving end of one direction.
type Receiver struct {
	credited int // messages, not yet received
	taken    int // by the reader, and not yet credited again
}

// Begin returns the first credit.
func (r *Receiver) Begin() uint64 {
	r.credited = Window
	return Window
}

// Received counts one message of n bytes that has arrived. It returns false if it was not credited or is too large: the
// sender is broken or hostile.
func (r *Receiver) Received(n int) bool {
	if r.credited == 0 || n > PieceSize {
		return false
	}
	r.credited--
	return true
}

// Taken counts one message that the reader has taken, and returns the credit to send now, 0 for none: a credit for each
// message would double their number.
func (r *Receiver) Taken() uint64 {
	if r.taken++; r.taken < Window/2 {
		return 0
	}
	credit := r.taken
	r.credited, r.taken = r.credited+credit, 0
	return uint64(credit)
}

// Sender is the sending end of one direction. The zero value has no credit.
type Sender struct{ credit int }

// Credited adds credit. More than a Window is of no use to an honest receiver: it is cut off.
func (s *Sender) Credited(n uint64) { s.credit += int(min(n, uint64(Window-s.credit))) }

// Take returns how many of n bytes to send now in one message; 0 if there is no credit.
func (s *Sender) Take(n int) int {
	if s.credit == 0 || n == 0 {
		return 0
	}
	s.credit--
	return min(n, PieceSize)
}
