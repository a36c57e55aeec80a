package nft

import (
	"errors"
	"fmt"
	"testing"
)

func TestAnInterruptedDumpIsMadeAgain(t *testing.T) {
	interrupted := fmt.Errorf("list: %w", errInterrupted)
	for _, c := range []struct {
		fails, dumps int
		err, want    error
	}{
		{0, 1, nil, nil},
		{3, 4, nil, nil},
		{3, 4, errors.ErrUnsupported, errors.ErrUnsupported},
		{1000, maxTries, nil, errInterrupted},
	} {
		n := 0
		v, err := retryInterrupted(func() (int, error) {
			if n++; n <= c.fails {
				return 0, interrupted
			}
			return n, c.err
		})
		if !errors.Is(err, c.want) || n != c.dumps || err == nil && v != n {
			t.Errorf("after %d interrupted ones: %d, %v of %d dumps, want %v of %d", c.fails, v, err, n, c.want, c.dumps)
		}
	}
}
