package kv

import (
	"errors"
	"fmt"
	"testing"
)

// TestCommitWithRetry has a store whose answers are lost: it is asked until it says what became of a transaction, and no
// more once it has.
func TestCommitWithRetry(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer is lost")
	done := TxnResult{Succeeded: true, Revision: 7}
	wrapped := func(err error) error { return fmt.Errorf("commit: %w", err) }
	for _, c := range []struct {
		name    string
		answers []error // nil: it was done
		tries   int     // that again allows
		asked   int
		unsure  bool
		err     error
	}{
		{"done at once", []error{nil}, 9, 1, false, nil},
		{"done, or done before", []error{lost, lost, nil}, 9, 3, true, nil},
		{"nobody waits any longer", []error{lost, lost}, 1, 2, true, lost},
		{"nobody waits at all", []error{lost}, 0, 1, true, lost},
		{"no store would take it", []error{wrapped(ErrInvalid)}, 9, 1, false, ErrInvalid},
		{"too large", []error{wrapped(ErrTooLarge)}, 9, 1, false, ErrTooLarge},
		{"its lease ended", []error{wrapped(ErrNoLease)}, 9, 1, false, ErrNoLease},
		{"closed, after an answer was lost", []error{lost, wrapped(ErrClosed)}, 9, 2, true, ErrClosed},
		{"no room, nothing written", []error{wrapped(ErrUnwritten)}, 9, 1, false, ErrUnwritten},
		{"no room, written perhaps", []error{wrapped(ErrFull)}, 9, 1, true, ErrFull},
		{"broken", []error{wrapped(ErrBroken)}, 9, 1, false, ErrBroken},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			asked, tries := 0, 0
			o, unsure, err := CommitWithRetry(func() (TxnResult, error) {
				asked++
				if err := c.answers[asked-1]; err != nil {
					return TxnResult{}, err
				}
				return done, nil
			}, func(error) bool { tries++; return tries <= c.tries })
			if asked != c.asked || unsure != c.unsure || !errors.Is(err, c.err) || (err == nil) != o.Succeeded {
				t.Errorf("asked %d times, unsure %v, %v, %+v: want %d, %v, %v", asked, unsure, err, o, c.asked, c.unsure, c.err)
			}
		})
	}
}
