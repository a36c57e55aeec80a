package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every bar of the plan belongs to a benchmark that its step runs. One that runs others has no result of its own.
func TestThePlanNamesBenchmarksThatExist(t *testing.T) {
	steps, err := parsePlan(planText)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) == 0 {
		t.Fatal("the plan is empty")
	}
	exists := func(name string) bool {
		dir, function, _ := strings.Cut(name, ".")
		function, _, part := strings.Cut(function, "/")
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if _, body, ok := strings.Cut(string(text), "func Benchmark"+function+"(b *testing.B)"); ok {
				body, _, _ = strings.Cut(body, "\n}\n")
				return part == strings.Contains(body, "b.Run(")
			}
		}
		return false
	}
	for _, s := range steps {
		for _, b := range s.bars {
			if !exists(b.text) {
				t.Errorf("%s: no such benchmark", b.text)
			}
			if b.times != "" && !exists(b.times) {
				t.Errorf("%s: no such benchmark", b.times)
			}
			dir, _, _ := strings.Cut(b.text, ".")
			if !regexp.MustCompile(`(?:^| )\./` + regexp.QuoteMeta(dir) + `(?: |$)|/\.\.\.`).MatchString(s.line) {
				t.Errorf("%s: its step runs another package: %s", b.text, s.line)
			}
		}
	}
}

const said = `bench: building
goos: linux
pkg: edgespan/config/layers
cpu: some
BenchmarkEffective-2       	     866	         0.4378 ratio	        80.88 us-ours	       184.7 us-theirs
BenchmarkEffective-2       	    1723	         0.6342 ratio	        82.90 us-ours	       130.7 us-theirs
BenchmarkEffective-2       	    1670	         0.5630 ratio	        34.81 us-ours	        61.84 us-theirs
PASS
ok  	edgespan/config/layers	28.679s
pkg: edgespan/integration/bench
BenchmarkScale/100+400-2     	all present after 3 s
BenchmarkX: said something
all apps told after 4 s
       1	         2.000 ratio	         0.5000 noise	      3000 ms/ours
BenchmarkBesidePeers/docker: skipped: dockerd is not installed: apt-get install docker.io
BenchmarkCold-2   	       1	      300.0 ns/op
BenchmarkWarm-2   	       1	      100.0 ns/op	   0.5000 %core	   0.1000 %core-noise
ok  	edgespan/integration/bench	28.679s
BenchmarkCatalog: skipped: Puppet is not installed
PASS
ok  	edgespan/integration/puppet	0.679s
`

func TestResultsOfAllRunsOfABenchmarkAreRead(t *testing.T) {
	results := parseResults(said)
	var names []string
	for _, r := range results {
		names = append(names, r.name)
	}
	want := "config/layers.Effective integration/bench.Scale/100+400 integration/bench.BesidePeers/docker " +
		"integration/bench.Cold integration/bench.Warm integration/puppet.Catalog"
	if got := strings.Join(names, " "); got != want {
		t.Fatalf("read %s, want %s", got, want)
	}
	if v, _ := results[0].value("ratio"); v != 0.5630 {
		t.Errorf("the median of three ratios is %v", v)
	}
	if n := results[0].noise("ratio"); n < 0.098 || n > 0.099 {
		t.Errorf("the noise of three ratios is %v", n)
	}
	if n := results[1].noise("ratio"); n != 0.5 {
		t.Errorf("the noise that a benchmark reports is %v", n)
	}
	if results[2].skipped == "" {
		t.Error("a skipped benchmark counts as run")
	}
}

func TestABarIsMissedByMoreThanTheNoise(t *testing.T) {
	for _, c := range []struct{ bar, verdict string }{
		{"config/layers.Effective ratio <= 0.57", okVerdict},
		{"config/layers.Effective ratio <= 0.5", noisyVerdict},
		{"config/layers.Effective ratio <= 0.4", missedVerdict},
		{"config/layers.Effective ratio >= 0.5", okVerdict},
		{"config/layers.Effective ratio >= 0.6", noisyVerdict},
		{"config/layers.Effective ratio >= 0.7", missedVerdict},
		{"config/layers.Effective us-ours <= 90", okVerdict},
		{"config/layers.Effective us-ours <= 10", missedVerdict},
		{"integration/bench.Scale/.* ratio <= 1.6", noisyVerdict},
		{"integration/bench.Scale/.* ratio <= 1.4", missedVerdict},
		{"integration/bench.Cold ns/op <= 3 x integration/bench.Warm", okVerdict},
		{"integration/bench.Cold ns/op <= 2 x integration/bench.Warm", missedVerdict},
		{"integration/bench.Cold ns/op <= 2 x integration/bench.Gone", noResult + " of integration/bench.Gone"},
		{"integration/bench.Warm %core <= 0.4", noisyVerdict},
		{"integration/bench.Warm %core <= 0.3", missedVerdict},
		{"integration/bench.Cold B/op <= 2", noResult},
		{"integration/bench.Gone ratio <= 2", noResult},
		{"integration/bench.BesidePeers/docker ratio >= 8",
			"skipped: dockerd is not installed: apt-get install docker.io"},
	} {
		steps, err := parsePlan("1m ./...\n\t" + c.bar)
		if err != nil {
			t.Fatal(err)
		}
		var barred []row
		for _, r := range compareAll(parseResults(said), steps[0].bars) {
			if r.bar != "" {
				barred = append(barred, r)
			}
		}
		if len(barred) != 1 || barred[0].verdict != c.verdict {
			t.Errorf("%s: %+v, want %s", c.bar, barred, c.verdict)
		}
		failed := printTable(&strings.Builder{}, barred)
		if want := c.verdict == missedVerdict || strings.HasPrefix(c.verdict, failedVerdict); (failed == 1) != want {
			t.Errorf("%s: %d rows fail", c.bar, failed)
		}
	}
}

func TestNumbersHaveAUnitThatFits(t *testing.T) {
	for want, got := range map[string]string{
		"1.5 µs/op":        spell(1500, 0, "ns/op"),
		"2 s/op":           spell(2e9, 0, "ns/op"),
		"12.5 ± 0.5 ms/op": spell(12.5e6, 5e5, "ns/op"),
		"123457 pps":       spell(123456.7, 0, "pps"),
		"0.012 ratio":      spell(0.0123, 0, "ratio"),
		"-3 extra":         spell(-3, 0, "extra"),
		"350 ns/op":        spell(350, 0, "ns/op"),
		"0.3 ± 0.1 %core":  spell(0.3, 0.1, "%core"),
	} {
		if got != want {
			t.Errorf("spelled %q, want %q", got, want)
		}
	}
}

func TestAPlanThatCanNotBeReadIsRefused(t *testing.T) {
	for _, text := range []string{
		"\tconfig.MD5 ratio <= 2", "soon ./config", "1m", "1m root", "1m all", "1m ./config\n\tconfig.MD5 ratio < 2",
		"1m ./config\n\tconfig.MD5 ratio <= two", "1m ./config\n\tconfig.( ratio <= 2", "1m ./config\n\tconfig.MD5 ratio",
		"1m ./config\n\tconfig.MD5 ratio <= 2 times config.Other",
	} {
		if steps, err := parsePlan(text); err == nil {
			t.Errorf("%q: read as %+v", text, steps)
		}
	}
}

func TestAStepSaysWhatItNeeds(t *testing.T) {
	steps, err := parsePlan("1m ./a\n1m root ./b\n1m all ./c\n1m all root ./d -v")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, s := range steps {
		said = append(said, fmt.Sprintf("%t %t %s", s.all, s.root, strings.Join(s.args, " ")))
	}
	want := "false false ./a, false true ./b, true false ./c, true true ./d -v"
	if got := strings.Join(said, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAFailureIsExplainedWithoutResults(t *testing.T) {
	text := trouble(said + "--- FAIL: BenchmarkX\n    x_test.go:1: broken\n")
	if !strings.Contains(text, "broken") || strings.Contains(text, "ns/op") || strings.Contains(text, "PASS") {
		t.Errorf("explained as %q", text)
	}
}
