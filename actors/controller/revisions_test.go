package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// A writer reads its write with the next request to the same controller, and at another controller after waiting for
// the revision.
func TestAWriterReadsItsOwnWrites(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n0")
		r.write(a, ops.EditTopology{Object: "site", Op: "add",
			Document: r.doc(`{"name":"s","location":{"latitude":0,"longitude":0,"altitude":0,"accuracy":0}}`)})
		for i := range 20 {
			name := fmt.Sprintf("site-%d", i)
			out, err := a.Write(r.Context(),
				fleetapi.WriteRequest{Caller: alice, Write: ops.EditTopology{Object: "node", Op: "add",
					Document: r.doc(`{"name":"` + name + `","site_name":"s","node_type":1,"mac_addr":"","pop_node":false}`)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Node(r.Context(), name); err != nil {
				t.Errorf("here: %v", err)
			}
			if err := b.Await(r.Context(), out.Revision); err != nil {
				t.Error(err)
			}
			if _, err := b.Node(r.Context(), name); err != nil {
				t.Errorf("there: %v", err)
			}
		}
		began := time.Now()
		if err := b.Await(r.Context(), 1000); !errors.Is(err, fleetapi.ErrNoRevision) || time.Since(began) > 0 {
			t.Errorf("a revision that nobody wrote: %v after %s", err, time.Since(began))
		}
	})
}
