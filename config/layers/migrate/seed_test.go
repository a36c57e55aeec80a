package migrate

import "testing"

// The seed, "Breaking Changes": each sub-test is a row of docs/seeds.md.
func TestSeed_BreakingChanges(t *testing.T) {
	in := object(t, `{"radioParamsBase":{"wsecParams":{"eapolParams":{"radius_user_identity":"x"}}},"envParams":{"OPENR_IFACE_PREFIXES":"terra"}}`)
	migrated := func(t *testing.T, r Range, want string) {
		t.Helper()
		got, _, faults := Run(Node, in, r)
		if faults != nil || text(got) != text(object(t, want)) {
			t.Errorf("%+v: %s, %v; want %s", r, text(got), faults, want)
		}
	}
	const eapolMoved = `{"eapolParams":{"radius_user_identity":"x"},"envParams":{"OPENR_IFACE_PREFIXES":"terra"}}`
	t.Run("TCM-N4", func(t *testing.T) { // "automatic migration between the old and new configuration versions"
		migrated(t, Range{From: "RELEASE_M77", To: "RELEASE_M78"}, eapolMoved)
		migrated(t, Range{},
			`{"eapolParams":{"radius_user_identity":"x"},"envParams":{"OPENR_IFACE_REGEX_INCLUDE":"terra.*"}}`)
	})
	t.Run("TCM-N10", func(t *testing.T) { // an upgrade runs what lies between its versions, each in its turn
		migrated(t, Range{From: "RELEASE_M44", To: "RELEASE_M77"}, text(in))
		migrated(t, Range{From: "RELEASE_M79"}, text(in))
		got, changes, faults := Run(Node, in, Range{From: "RELEASE_M77"})
		if faults != nil || len(changes) != 2 || changes[0].Version != "RELEASE_M78" || changes[1].Version != "RELEASE_M79" {
			t.Errorf("%s: %s, %v", text(got), say(changes), faults)
		}
	})
}
