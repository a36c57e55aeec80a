package config

import (
	"fmt"
	"strings"
	"testing"
)

// One fault at 10,000 places prints 50 of them and their number; two kinds do so each, in the order of their places.
func TestAFaultAtManyPlacesIsToldInFewLines(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "k%05d: 1e999%d\nl%05d: [%d]\n", i, i, i, i)
	}
	_, faults := ReadObject([]byte(text.String()))
	lines := strings.Split(faults.Error(), "\n")
	if len(faults) != 20_000 || len(lines) != 102 || lines[0] != `k00000: invalid value "1e9990": must be a JSON number` ||
		lines[50] != "l00000: invalid type list: must be a mapping by name or a comma-separated string" ||
		lines[100] != "and 9950 more like it: invalid value: must be a JSON number" ||
		lines[101] != "and 9950 more like it: invalid type list: must be a mapping by name or a comma-separated string" {
		t.Errorf("%d faults in %d lines: %.300s", len(faults), len(lines), faults.Error())
	}
}

// 10,000 kinds of one fault each are no longer.
func TestManyKindsOfFaultsAreFewLines(t *testing.T) {
	t.Parallel()
	var faults Faults
	for i := range 10_000 {
		faults.Add([]string{"a"}, "invalid", fmt.Sprint("must be ", i))
	}
	lines := faults.Lines()
	if len(lines) != 201 || lines[200] != "and 9800 more" {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
}

// A key that stands 10,000 times in a document is one fault, in JSON and in YAML, also with faults below it.
func TestAKeyTenThousandTimesIsOneFault(t *testing.T) {
	t.Parallel()
	const want = "x: duplicate key (10000 times)"
	for name, text := range map[string]string{
		"YAML":            strings.Repeat("x: 1\n", 10_000),
		"JSON":            `{"x":1` + strings.Repeat(`,"x":1`, 9_999) + `}`,
		"YAML, inside":    "x: {}\n" + strings.Repeat("x: {y: 1, y: 2}\n", 9_999),
		"JSON, inside":    `{"x":{}` + strings.Repeat(`,"x":{"y":1,"y":2}`, 9_999) + `}`,
		"YAML, two lists": "x: 1\n" + strings.Repeat("x: {y: {z: 1, z: 1}}\n", 9_999),
	} {
		if _, faults := ReadObject([]byte(text)); len(faults) != 1 || faults.Error() != want {
			t.Errorf("%s: %d faults: %.200s", name, len(faults), faults.Error())
		}
	}
	text := `{"x":{}` + strings.Repeat(`,"x":{"y":1,"y":2}`, 9_999) + `}`
	if _, faults := ParseObject([]byte(text)); len(faults) != 1 || faults.Error() != want {
		t.Errorf("%d faults: %.200s", len(faults), faults.Error())
	}
}
