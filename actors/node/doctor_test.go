package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// levels returns the doctor's level of each check that is not fine.
func (r *rig) levels() map[string]string {
	r.Helper()
	got, err := r.node.Doctor(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range got {
		if f.Level != "ok" {
			out[f.Check] = f.Text
		}
	}
	return out
}

func TestTheDoctorKnowsTheNodesConfigAndItsFile(t *testing.T) {
	onRig(t, func(r *rig) {
		r.facts.Facts = netstate.Facts{}
		r.files.SetConfig(doc(1, 0))
		r.node.Reload()
		r.settle(0)
		r.ready(time.Second, "ni/"+niID(1))
		if got := r.levels(); len(got) > 0 {
			t.Errorf("a node at work: %v", got)
		}
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if op.Kind == netstate.KindSysctl && o.Number == 0 {
				return &fake.OpFault{Err: errors.New("read-only file system")}
			}
			return nil
		})
		r.host.SetForwarding(false)
		r.settle(0)
		r.apply(doc(2, 0))
		got := r.levels()
		if got["config"] != "node.yaml is not the running config, which came from apply" || got["ip-forward"] == "" ||
			len(got) != 2 {
			t.Errorf("forwarding is off, and another config was applied: %v", got)
		}
		r.files.SetConfig("nonsense: 1")
		r.node.Reload()
		r.settle(0)
		if got := r.levels(); got["config"] == "" || got["config"][:5] != "apply" {
			t.Errorf("a file that was refused: %v", got)
		}
	})
}
