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

// What a node can make the store, the log and the other replicas spend. Nobody stops it from
// saying something else each second.
const (
	MaxReported = 64 << 10          // bytes of the key that tells the other replicas where it stands
	ReportPace  = storage.BytesPace // bytes of it a second, on average
	MaxLines    = 20                // of the log, in a minute
)

// fit encodes what the other replicas are told. Of what would be too much for a key the parameters
// go that are as they should be, then those that somebody looks at; how many is told.
func fit(o Owner) []byte {
	text := storage.Encode(o)
	if o.Node == nil {
		return text
	}
	for limit := o.Node.longest(); len(text) > MaxReported && limit > 0; {
		limit = min(limit/2, limit*MaxReported/len(text)) // the first guess is near, as most entries are alike
		less := *o.Node
		less.Left, less.Parameters = first(o.Node.Parameters, limit, byInterest)
		if o.Node.Peer != nil {
			less.Peer, less.Left = o.Node.Peer.first(limit)
		}
		whole := o
		whole.Node = &less
		text = storage.Encode(whole)
	}
	return text
}

// longest is how many entries the longest list has that fit may cut.
func (r *reported) longest() int {
	n := len(r.Parameters)
	if r.Peer != nil {
		n = max(n, len(r.Peer.Report.Parameters), len(r.Peer.Report.Ignored), len(r.Peer.Report.Items))
	}
	return n
}

// first are so many of a list, those that matter most, in the order of the list; and how many
// that leaves out.
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

// first is a view with so many of each of its lists.
func (v *PeerView) first(limit int) (*PeerView, int) {
	less := *v
	left, ignored, items := 0, 0, 0
	left, less.Report.Parameters = first(v.Report.Parameters, limit, func(a, b stateloop.Parameter) int {
		return interest(a.Review, a.State) - interest(b.Review, b.State)
	})
	ignored, less.Report.Ignored = first(v.Report.Ignored, limit, func(_, _ stateloop.IgnoredParameter) int { return 0 })
	items, less.Report.Items = first(v.Report.Items, limit,
		func(a, b stateloop.HealthItem) int { return good(a.Good) - good(b.Good) })
	less.More = map[string]partView{}
	for _, p := range less.Report.Parameters {
		if more, is := v.More[p.ID]; is {
			less.More[p.ID] = more
		}
	}
	return &less, left + ignored + items
}

func good(is bool) int {
	if is {
		return 1
	}
	return 0
}

func byInterest(a, b fleetapi.Parameter) int {
	return interest(stateloop.Review(a.Review), stateloop.State(a.State)) - interest(stateloop.Review(b.Review),
		stateloop.State(b.State))
}

// interest is in what order parameters are told, the lower the earlier.
func interest(r stateloop.Review, s stateloop.State) int {
	switch {
	case r == stateloop.Yes:
		return 0
	case r != stateloop.No:
		return 1
	case s.Class() != stateloop.Final:
		return 2
	}
	return 3
}

// pause is how long the other replicas are not told: changes of a second are gathered, and a
// node of which there is much to say is told of more rarely.
func (n *node) pause() time.Duration {
	next := n.reported.Add(time.Duration(len(n.announced)) * time.Second / ReportPace)
	return max(showAfter, next.Sub(n.d.Now()))
}

// hopeless says whether the store will never take what was to be stored, and tells it: trying
// again changes nothing.
func (n *node) hopeless(what string, err error) bool {
	if !errors.Is(err, kv.ErrTooLarge) && !errors.Is(err, kv.ErrInvalid) {
		return false
	}
	n.d.Log.Error("the store does not take "+what+" of a node: the other replicas are not told", zap.String("node", n.id),
		zap.Error(err))
	return true
}

// lines bound what a node has logged.
type lines struct {
	from time.Time // of the minute
	n    int       // in it
	left int       // that were left out since the last line that was not
}

// log logs a line that a node's own words bring about, unless it had many in this minute.
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
