package kv

import "errors"

// Conclusive says whether an error of a write is the store's last word: asking once more would not
// tell more. After any other one nobody knows yet whether the write took place.
func Conclusive(err error) bool {
	for _, last := range []error{ErrInvalid, ErrTooLarge, ErrNoLease, ErrClosed, ErrUnwritten, ErrFull, ErrBroken} {
		if errors.Is(err, last) {
			return true
		}
	}
	return false
}

// CommitSurely does a transaction until the store has said what became of it. commit does it once; again is
// asked after an answer that was lost: it waits, and says whether to go on. unsure is that the transaction may have
// been done although the outcome does not say so: an answer was lost, or the store filled up by it.
func CommitSurely(commit func() (Outcome, error), again func(lost error) bool) (o Outcome, unsure bool, err error) {
	for {
		o, err = commit()
		if err == nil || Conclusive(err) {
			return o, unsure || errors.Is(err, ErrFull), err
		}
		unsure = true
		if !again(err) {
			return o, unsure, err
		}
	}
}
