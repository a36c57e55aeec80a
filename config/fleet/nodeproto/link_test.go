package nodeproto

import "testing"

func TestOutcomeText(t *testing.T) {
	for o, want := range map[PushOutcome]string{
		Unknown: "unknown", Applied: "applied", Rejected: "rejected", Unhealthy: "unhealthy", Unconfirmed: "unconfirmed",
		99: "unknown",
	} {
		if got := o.String(); got != want {
			t.Errorf("%d: %q, want %q", int(o), got, want)
		}
	}
}
