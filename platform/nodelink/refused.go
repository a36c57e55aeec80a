package nodelink

import (
	"net"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refusals logs refused clients and the reasons. Every host that reaches the port could fill a disk this way, so it
// logs a burst and then one line a second; the next line counts the omitted ones.
type refusals struct {
	log *zap.Logger
	now func() time.Time

	mu   sync.Mutex
	rate *rate.Limiter
	out  int // omitted lines
}

func newRefusals(log *zap.Logger, now func() time.Time) *refusals {
	return &refusals{log: log, now: now, rate: rate.NewLimiter(1, 50)}
}

func (r *refusals) note(what, from string, err error, more ...zap.Field) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.rate.AllowN(r.now(), 1) {
		r.out++
		return
	}
	why := err.Error()
	if st, ok := status.FromError(err); ok {
		why = st.Message()
	}
	more = append(more, zap.String("from", from), zap.String("why", why))
	if r.out > 0 {
		more = append(more, zap.Int("left_out", r.out))
		r.out = 0
	}
	r.log.Warn(what, more...)
}

// sentAway lists the codes of a refusal; other codes mean a stream that ended.
var sentAway = []codes.Code{
	codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.ResourceExhausted,
	codes.FailedPrecondition, codes.Unimplemented,
}

// logStreamEnd logs the end of a stream if it was a refusal.
func (r *refusals) logStreamEnd(from string, st *stream, err error) {
	if slices.Contains(sentAway, status.Code(err)) {
		r.note("node disconnected", from, err, zap.String("node", st.node))
	}
}

// host returns an address without its port.
func host(a net.Addr) string {
	name, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return name
}
