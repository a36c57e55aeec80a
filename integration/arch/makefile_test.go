package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A variable that the Makefile uses has a value: make takes one without for an empty text, and says nothing. So
// `make vm` once ran all tests in place of its own.
func TestTheMakefileDefinesWhatItUses(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	defined := []string{"CURDIR", "MAKEFILE_LIST"} // by make
	for _, m := range regexp.MustCompile(`(?m)^([A-Z_]+) *[?:]?=`).FindAllStringSubmatch(string(text), -1) {
		defined = append(defined, m[1])
	}
	asked := []string{"RELEASE"} // make release-testdata refuses to run without it
	used := regexp.MustCompile(`\$\(([A-Z_]+)\)`).FindAllStringSubmatch(string(text), -1)
	if len(used) < 50 {
		t.Fatalf("%d uses of variables: the pattern is wrong", len(used))
	}
	for _, m := range used {
		if !slices.Contains(defined, m[1]) && !slices.Contains(asked, m[1]) {
			t.Errorf("Makefile: $(%s) has no value", m[1])
		}
	}
}

// Each test that make vm names is there.
func TestTheTestsOfMakeVMExist(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^VM_TESTS *:= *(\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("Makefile: no VM_TESTS")
	}
	var names []string
	for _, room := range []string{"platform/proc", "integration/netns", "integration/scenario"} {
		files, err := filepath.Glob("../../" + room + "/*_test.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no tests: %v", room, err)
		}
		for _, f := range files {
			source, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllSubmatch(source, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	for pattern := range strings.SplitSeq(string(m[1]), "|") {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, pattern) }) {
			t.Errorf("Makefile: VM_TESTS: no test is named %s", pattern)
		}
	}
}
