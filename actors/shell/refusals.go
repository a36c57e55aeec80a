package shell

import (
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"edgespan/pubsub/ratelimit"
	"edgespan/pubsub/shellproto"
)

// refusals logs refused commands. A member who may only read can cause them without limit, and under as many user IDs
// as a user namespace gives (user_namespaces(7)): there is a rate for each user, and one for all together. The next
// line has the count of those left out.
type refusals struct {
	log *zap.Logger
	one *ratelimit.Buckets
	all ratelimit.Bucket

	mu  sync.Mutex
	out int
}

// Lines a second, and the burst, for each user and for all together.
const (
	refusalRate, refusalBurst       = 0.1, 5
	allRefusalRate, allRefusalBurst = 1.0, 50
)

func newRefusals(log *zap.Logger) *refusals {
	return &refusals{log: log, one: ratelimit.NewBuckets(refusalRate, refusalBurst),
		all: ratelimit.NewBucket(allRefusalRate, allRefusalBurst)}
}

func (r *refusals) note(who shellproto.Who, op string, why error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.one.Allow(strconv.FormatUint(uint64(who.UID), 10), now) > 0 || !r.all.Allow(now) {
		r.out++
		return
	}
	more := []zap.Field{zap.String("op", op), zap.Stringer("by", who), zap.Error(why)}
	if r.out > 0 {
		more = append(more, zap.Int("left_out", r.out))
		r.out = 0
	}
	r.log.Warn("command refused", more...)
}
