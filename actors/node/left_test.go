package node

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
)

// The next bridge manager withdraws a status that an earlier one left and whose config is gone. Otherwise its app
// would wait forever.
func TestAStatusLeftByAnEarlierManagerIsWithdrawn(t *testing.T) {
	onRig(t, func(r *rig) {
		key := netinst.AdapterKey{AppUUID: uuid.MustParse(appID(9))}
		left := netinst.AppAdapterStatus{AppUUID: key.AppUUID, TargetVersion: 3}
		if err := r.node.Topics().AdapterStatus.Publisher("router").Publish(niID(1), key.String(), left); err != nil {
			t.Fatal(err)
		}
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		if s, still := r.node.Topics().AdapterStatus.Get(niID(1), key.String()); still {
			t.Errorf("it is still there: %+v", s)
		}
	})
}
