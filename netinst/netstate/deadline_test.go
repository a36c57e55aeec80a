package netstate

import (
	"testing"
	"time"
)

func TestTheDeadlineOfAnOp(t *testing.T) {
	for _, c := range []struct {
		verb Verb
		kind Kind
		want time.Duration
	}{
		{Change, KindChain, 5 * time.Second},
		{Remove, KindChain, 5 * time.Second},
		{Add, KindProcess, 3 * time.Second},
		{Remove, KindProcess, 3 * time.Second},
		{Add, KindLink, 5 * time.Second},
		{Remove, KindLink, 30 * time.Second},
		{Add, KindFile, 5 * time.Second},
	} {
		if got := (Op{Verb: c.verb, Kind: c.kind}).Deadline(); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.verb, c.kind, got, c.want)
		}
	}
}
