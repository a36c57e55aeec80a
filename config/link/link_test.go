package link

import "testing"

// A generation is read by people and compared as a whole.
func TestGenerationText(t *testing.T) {
	for g, want := range map[Generation]string{
		{}:                             "-",
		{Authority: "a", Counter: 7}:   "a/7",
		{Authority: "a"}:               "a/0",
		{Authority: "b/c", Counter: 1}: "b/c/1",
	} {
		if got := g.String(); got != want {
			t.Errorf("%#v: %q, want %q", g, got, want)
		}
	}
}

func TestOutcomeText(t *testing.T) {
	for o, want := range map[Outcome]string{
		Unknown: "unknown", Applied: "applied", Rejected: "rejected", Unhealthy: "unhealthy", Unconfirmed: "unconfirmed", 99: "unknown",
	} {
		if got := o.String(); got != want {
			t.Errorf("%d: %q, want %q", int(o), got, want)
		}
	}
}
