package config

import (
	"strings"
	"testing"
)

// The place of a number whose spelling is kept costs the same however deep it is, and however long the names above it
// are: a document of 4 MiB has a million of them.
func TestTheSpellingOfANumberCostsTheSameEverywhere(t *testing.T) {
	const numbers = 20_000
	below := func(key string, levels int) []byte {
		return []byte(strings.Repeat(`{"`+key+`":`, levels) + "[" + strings.Repeat("1.0,", numbers) + "1.0]" +
			strings.Repeat("}", levels))
	}
	cost := func(text []byte) float64 {
		return allocated(func() any {
			d, faults := ReadDocument(text)
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if got := d.Number([]string{"absent"}, int64(7)); got != "7" {
				t.Errorf("a number that is not there is spelled %s", got)
			}
			return nil
		})
	}
	flat := cost(below("a", 1))
	for name, text := range map[string][]byte{
		"30 levels deep":            below("a", 30),
		"below a name of 64 KiB":    below(strings.Repeat("a", 64<<10), 1),
		"in YAML, behind a comment": append([]byte("# c\n"), below("a", 30)...),
	} {
		limit := 2 * flat
		if strings.Contains(name, "YAML") { // the nodes of its reader
			limit = 8 * flat
		}
		if got := cost(text); got > limit {
			t.Errorf("%s: %.1f MB for %d numbers, %.1f MB at the top: must be %.1f at most", name, got, numbers, flat, limit)
		}
	}
}
