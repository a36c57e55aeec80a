package kv

import "errors"

// IsConclusive reports whether an error of a write is the store's final answer, so that a retry brings no new
// information. After any other error the write may have been done or not.
func IsConclusive(err error) bool {
	for _, last := range []error{ErrInvalid, ErrTooLarge, ErrNoLease, ErrClosed, ErrUnwritten, ErrFull, ErrBroken} {
		if errors.Is(err, last) {
			return true
		}
	}
	return false
}

// CommitWithRetry repeats a transaction until the store has given a conclusive answer. commit executes it once; again
// is called after a lost answer: it waits, and reports whether to retry. unsure reports that the transaction may have
// been done although the outcome does not say so: an answer was lost, or the transaction filled the store.
func CommitWithRetry(commit func() (TxnResult, error), again func(lost error) bool) (o TxnResult, unsure bool,
	err error) {
	for {
		o, err = commit()
		if err == nil || IsConclusive(err) {
			return o, unsure || errors.Is(err, ErrFull), err
		}
		unsure = true
		if !again(err) {
			return o, unsure, err
		}
	}
}
