package lint

import (
	"slices"
	"testing"

	"edgespan/config"
	"edgespan/config/layers"
)

// The seed, "Adding New Configuration": each sub-test is a row of docs/seeds.md.
func TestSeed_AddingNewConfiguration(t *testing.T) {
	m := parse(t, object(t, `{"acmeLed":{"desc":"d","type":"INTEGER","action":"NO_ACTION"}}`))
	found := func(base, hardware map[string]config.Object, types string) []string {
		t.Helper()
		_, _, faults := layers.ParseTypes(object(t, types))
		return say(Check(Input{Metadata: m, Base: base, Hardware: map[string]map[string]config.Object{"ACME": hardware},
			Types: faults}))
	}
	led, none := object(t, `{"acmeLed":1}`), config.Object{}
	files := func(o config.Object, versions ...string) map[string]config.Object {
		out := map[string]config.Object{}
		for _, v := range versions {
			out[v] = o
		}
		return out
	}
	const types = `{"ACME":["ACME_1","ACME_2"]}`
	check := func(t *testing.T, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	t.Run("TCM-N1", func(t *testing.T) { // "a file should exist for each supported version in both"
		check(t, found(files(led, "RELEASE_M60", "RELEASE_M61"), files(none, "RELEASE_M60", "RELEASE_M61"), types))
		check(t, found(files(led, "RELEASE_M60"), files(none, "RELEASE_M60", "RELEASE_M61"), types),
			"base  hw_versions/ACME/RELEASE_M61")
	})
	t.Run("TCM-N5", func(t *testing.T) { // "vendors must define a new, unique hardware board ID for each product"
		check(t, found(files(led, "RELEASE_M60"), nil, `{"ACME":["ACME_1"],"OTHER":["ACME_1"]}`),
			"board OTHER.0 hw_versions/hw_types")
	})
	t.Run("TCM-N2", func(t *testing.T) { // a field has "Metadata" and a "Default value"
		check(t, found(files(object(t, `{"acmeLed":1,"acmeFan":1}`), "RELEASE_M60"), nil, types), "unknown acmeFan RELEASE_M60")
		check(t, found(files(none, "RELEASE_M60"), nil, types), "default acmeLed")
	})
	// "For hardware-specific fields, the default value should be placed in the hardware-specific … file"
	t.Run("TCM-N6", func(t *testing.T) {
		check(t, found(files(none, "RELEASE_M60"), files(led, "RELEASE_M60"), types))
	})
}
