package nodes

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"edgespan/actors/controller/storage"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/stateloop"
)

// Bounds on what a node can make the store, the log and the other replicas spend, even if it reports something new
// every second.
const (
	MaxReported = 64 << 10          // bytes of the key that reports its state to the other replicas
	ReportPace  = storage.BytesPace // bytes of that key a second, on average
	MaxLines    = 20                // of the log, a minute
)

// encodeOwner encodes what the other replicas get. If it is too large for a key, it leaves out parameters, first those
// that are as they should be and last those that need review, and reports how many in Left.
func encodeOwner(o Owner) []byte {
	text := storage.Encode(o)
	if o.Node == nil {
		return text
	}
	for limit := o.Node.maxListLength(); len(text) > MaxReported && limit > 0; {
		limit = min(limit/2, limit*MaxReported/len(text)) // a good first guess, as most entries are alike
		less := *o.Node
		less.Left, less.Parameters = first(o.Node.Parameters, limit, compareInterest)
		if o.Node.Peer != nil {
			less.Peer, less.Left = o.Node.Peer.first(limit)
		}
		whole := o
		whole.Node = &less
		text = storage.Encode(whole)
	}
	return text
}

// maxListLength returns the length of the longest list that encodeOwner may cut.
func (r *reported) maxListLength() int {
	n := len(r.Parameters)
	if r.Peer != nil {
		n = max(n, len(r.Peer.Report.Parameters), len(r.Peer.Report.Ignored), len(r.Peer.Report.Items))
	}
	return n
}

// first returns the limit most important entries of a list, in the order of the list, and how many it leaves out.
func first[T any](list []T, limit int, request func(a, b T) int) (left int, kept []T) {
	if len(list) <= limit {
		return 0, list
	}
	at := make([]int, len(list))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return request(list[a], list[b]) })
	for _, i := range slices.Sorted(slices.Values(at[:limit])) {
		kept = append(kept, list[i])
	}
	return len(list) - limit, kept
}

// first returns a view with at most limit entries in each list, and how many entries it leaves out.
func (v *PeerView) first(limit int) (*PeerView, int) {
	less := *v
	left, ignored, items := 0, 0, 0
	left, less.Report.Parameters = first(v.Report.Parameters, limit, func(a, b stateloop.DerivedParameter) int {
		return rankParameter(a.Review, a.State) - rankParameter(b.Review, b.State)
	})
	ignored, less.Report.Ignored = first(v.Report.Ignored, limit, func(_, _ stateloop.IgnoredParameter) int { return 0 })
	items, less.Report.Items = first(v.Report.Items, limit,
		func(a, b stateloop.HealthItem) int { return countGood(a.Good) - countGood(b.Good) })
	less.More = map[string]partView{}
	for _, p := range less.Report.Parameters {
		if more, ok := v.More[p.ID]; ok {
			less.More[p.ID] = more
		}
	}
	return &less, left + ignored + items
}

func countGood(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

func compareInterest(a, b fleetapi.Parameter) int {
	return rankParameter(stateloop.Review(a.Review), stateloop.State(a.State)) - rankParameter(stateloop.Review(b.Review),
		stateloop.State(b.State))
}

// rankParameter ranks parameters; lower ranks are kept first.
func rankParameter(r stateloop.Review, s stateloop.State) int {
	switch {
	case r == stateloop.ReviewYes:
		return 0
	case r != stateloop.ReviewNo:
		return 1
	case s.Class() != stateloop.Final:
		return 2
	}
	return 3
}

// pause returns the delay of the next update of the other replicas: changes of a second are collected, and the more
// there is to report of a node, the more rarely.
func (n *node) pause() time.Duration {
	next := n.reported.Add(time.Duration(len(n.announced)) * time.Second / ReportPace)
	return max(showAfter, next.Sub(n.d.Now()))
}

// permanentError reports whether the store will never accept a value, so that a retry is pointless, and logs it.
func (n *node) permanentError(what string, err error) bool {
	if !errors.Is(err, kv.ErrTooLarge) && !errors.Is(err, kv.ErrInvalid) {
		return false
	}
	n.d.Log.Error("the store does not take "+what+" of a node: the other replicas are not told", zap.String("node", n.id),
		zap.Error(err))
	return true
}

// lines limits what is logged on behalf of a node.
type lines struct {
	from time.Time // start of the minute
	n    int       // lines in it
	left int       // lines omitted since the last one that was logged
}

// log logs a line that a node's messages cause, at most MaxLines a minute.
func (n *node) log(text string, fields ...zap.Field) { n.logAt(zap.InfoLevel, text, fields...) }

func (n *node) logAt(level zapcore.Level, text string, fields ...zap.Field) {
	l := &n.lines
	if now := n.d.Now(); now.Sub(l.from) >= time.Minute {
		l.from, l.n = now, 0
	}
	if l.n++; l.n > MaxLines {
		l.left++
		return
	}
	if l.left > 0 {
		fields = append(fields, zap.Int("left_out", l.left))
		l.left = 0
	}
	n.d.Log.Log(level, text, append(fields, zap.String("node", n.id))...)
}
