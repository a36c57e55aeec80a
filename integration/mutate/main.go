// Command mutate measures how many mutants of a pure core its tests kill. A mutant is a change of one operator;
// go-gremlins lists them. mutate compiles all mutants of a package into one test program, selects one by an environment
// variable, and runs the tests once per mutant; docs/adr/0031-which-mutants-count.md says why, and which mutants count.
//
// It never changes a file of the tree: it writes to a temporary folder, and the compiler reads that as an overlay.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The limits for a core, in percent.
const (
	killedBar    = 97 // minimum of the mutants that ran
	uncoveredBar = 5  // maximum of all mutants
)

var (
	gremlins = flag.String("gremlins", ".tools/gremlins", "the program that names the mutants")
	list     = flag.String("equivalents", "integration/mutate/equivalents.txt", "the mutants that do what the code does")
	verbose  = flag.Bool("v", false, "name each mutant that a pass of the tests lets live")
	only     = flag.String("only", "", "run only the mutants whose key contains this text; no bars")
)

func main() {
	flag.Parse()
	fmt.Printf("%-18s %7s %9s %6s %10s %10s %8s %10s %8s\n", "package", "killed", "timed out", "lived", "uncovered",
		"equivalent", "score", "unreached", "took")
	failed := false
	for _, pkg := range flag.Args() {
		ok, err := core(pkg)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mutate: %s: %v\n", pkg, err)
			os.Exit(2)
		}
		failed = failed || !ok
	}
	if failed {
		fmt.Fprintf(os.Stderr,
			"mutate: under the bar: at least %d %% killed and at most %d %% uncovered, each equivalent mutant alive\n",
			killedBar, uncoveredBar)
		os.Exit(1)
	}
}

// core tests one package and reports whether it meets the limits.
func core(pkg string) (bool, error) {
	begin := time.Now()
	out, err := exec.Command(*gremlins, "unleash", "--dry-run", "./"+pkg).CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("gremlins: %w: %s", err, out)
	}
	ms := parseList(string(out))
	text, err := os.ReadFile(*list)
	if err != nil {
		return false, err
	}
	known, err := parseEquivalents(string(text), pkg)
	if err != nil {
		return false, fmt.Errorf("%s: %w", *list, err)
	}
	r, err := newRun(pkg, ms)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(r.tmp)
	if err := r.testMutants(ms); err != nil {
		return false, err
	}
	if *only != "" {
		for _, m := range ms {
			if m.Verdict != "" {
				fmt.Println(" ", m)
			}
		}
		return true, nil
	}
	wrong := known.apply(ms)
	s := scoreOf(ms)
	fmt.Printf("%-18s %7d %9d %6d %10d %10d %7.1f%% %9.1f%% %8s\n", pkg, s[Killed], s[TimedOut], s[Lived], s[Uncovered],
		s[Equivalent],
		s.Noticed(), s.Unreached(), time.Since(begin).Round(time.Second))
	for _, m := range ms {
		if m.Verdict == Lived || m.Verdict == Uncovered || m.Verdict == TimedOut {
			fmt.Println(" ", m)
		}
	}
	for _, w := range wrong {
		fmt.Printf("  %s: %s\n", *list, w)
	}
	return s.Noticed() >= killedBar && s.Unreached() <= uncoveredBar && len(wrong) == 0, nil
}

// run is the test of one package in a temporary folder.
type run struct {
	pkg, dir, tmp, program string
	files                  []string
	sources                map[string]*source
	passes                 []pass
}

// pass is one way to run the tests. The fast ones come first, since they kill most mutants.
type pass struct {
	args []string
	cpu  int // limit of a mutant's CPU time in seconds: CPU time, so that a busy machine causes no timeout
}

// forever limits the time of a test program that uses no CPU.
const forever = 10 * time.Minute

// newRun compiles the package with all its mutants and checks that its tests pass without an active one.
func newRun(pkg string, ms []*Mutant) (*run, error) {
	dir, err := filepath.Abs(pkg)
	if err != nil {
		return nil, err
	}
	names, err := exec.Command("go", "list", "-f", `{{range .GoFiles}}{{.}} {{end}}`, "./"+pkg).Output()
	if err != nil {
		return nil, err
	}
	compiled, err := exec.Command("go", "list", "-export", "-deps", "-f", `{{.ImportPath}}={{.Export}}`, "./"+pkg).Output()
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, line := range strings.Fields(string(compiled)) {
		path, file, _ := strings.Cut(line, "=")
		exports[path] = file
	}
	r := &run{pkg: pkg, dir: dir}
	for _, name := range strings.Fields(string(names)) {
		r.files = append(r.files, filepath.Join(dir, name))
	}
	var name string
	if r.sources, name, err = load(dir, r.files, exports, ms); err != nil {
		return nil, err
	}
	if r.tmp, err = os.MkdirTemp("", "mutate-"); err != nil {
		return nil, err
	}
	r.program = filepath.Join(r.tmp, "all.test")
	changed := map[string][]byte{"mutant_prelude.go": fmt.Appendf(nil, prelude, name, len(ms)+1)}
	for _, src := range r.sources {
		changed[src.name] = src.all()
	}
	if out, err := r.compile(r.program, changed); err != nil {
		return nil, fmt.Errorf("compile all mutants: %w: %s", err, out)
	}
	return r, r.measure()
}

var durations = regexp.MustCompile(`(?m)^--- PASS: (\w+) \((\d+\.\d\d)s\)$`)

// measure runs the tests without a mutant and defines the passes: with -short and without the tests that take more than
// a twentieth of the total time, all tests with -short, and all tests.
func (r *run) measure() error {
	limit := func(args ...string) (string, error) {
		out, cpu, err := r.tests(r.program, 0, pass{args, int(forever.Seconds())})
		r.passes = append(r.passes, pass{args, int(10*cpu.Seconds()) + 3})
		return out, err
	}
	out, err := limit("-test.short", "-test.v")
	var skip []string
	took := map[string]float64{}
	total := 0.0
	for _, t := range durations.FindAllStringSubmatch(out, -1) {
		took[t[1]], _ = strconv.ParseFloat(t[2], 64)
		total += took[t[1]]
	}
	for name, s := range took {
		if s > total/20 {
			skip = append(skip, name)
		}
	}
	if len(skip) > 0 && err == nil {
		out, err = limit("-test.short", "-test.skip", "^("+strings.Join(skip, "|")+")$")
		slices.Reverse(r.passes)
	}
	if err == nil {
		out, err = limit()
	}
	if err != nil {
		return fmt.Errorf("the tests fail without a mutant: %w: %s", err, out)
	}
	return nil
}

// testMutants sets the verdict of each mutant.
func (r *run) testMutants(ms []*Mutant) error {
	reached, err := r.reached()
	if err != nil {
		return err
	}
	for _, m := range ms {
		switch {
		case *only != "" && !strings.Contains(m.Key(), *only):
		case m.Text:
			m.Verdict = NotViable
		case m.Const: // last, since each needs its own build
		case !reached[m.ID]:
			m.Verdict = Uncovered
		default:
			m.Verdict = Lived
		}
	}
	for i, p := range r.passes { // all mutants by the fast tests first
		twin := map[string]Verdict{} // gremlins lists the minus twice
		for _, m := range ms {
			if m.Verdict != Lived || m.Const {
				continue
			}
			at := fmt.Sprint(m.Line, ":", m.Col, m.Key())
			if _, judged := twin[at]; !judged {
				twin[at] = r.verdict(r.program, m.ID, p)
			}
			if m.Verdict = twin[at]; m.Verdict == Lived && *verbose {
				fmt.Fprintf(os.Stderr, "  pass %d: %s\n", i+1, m)
			}
		}
	}
	for _, m := range ms {
		if !m.Const || m.Text || *only != "" && !strings.Contains(m.Key(), *only) {
			continue
		}
		if err := r.alone(m); err != nil {
			return err
		}
		if m.Verdict == Lived && *verbose {
			fmt.Fprintf(os.Stderr, "  alone: %s\n", m)
		}
	}
	return nil
}

// alone tests a mutant of a constant, which needs its own test program.
func (r *run) alone(m *Mutant) error {
	program := filepath.Join(r.tmp, "one.test")
	if _, err := r.compile(program, map[string][]byte{m.File: r.sources[m.File].alone(m)}); err != nil {
		m.Verdict = NotViable
		return nil
	}
	m.Verdict = Lived
	for _, p := range r.passes {
		if m.Verdict == Lived {
			m.Verdict = r.verdict(program, 0, p)
		}
	}
	return os.Remove(program)
}

// verdict runs one pass of the tests with a mutant.
func (r *run) verdict(program string, id int, p pass) Verdict {
	_, _, err := r.tests(program, id, p)
	var ended *exec.ExitError
	switch {
	case err == nil:
		return Lived
	case errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return TimedOut
	}
	return Killed
}

// reached returns the mutants whose operators the tests evaluate.
func (r *run) reached() (map[int]bool, error) {
	file := filepath.Join(r.tmp, "reached")
	os.Setenv("MUTANT_REACHED", file)
	if out, _, err := r.tests(r.program, -1, pass{nil, int(forever.Seconds())}); err != nil {
		return nil, fmt.Errorf("the tests fail while what they reach is recorded: %w: %s", err, out)
	}
	got := map[int]bool{}
	text, err := os.ReadFile(file)
	for _, line := range strings.Fields(string(text)) {
		n, _ := strconv.Atoi(line)
		got[n] = true
	}
	return got, err
}

// compile builds the package's test program with replacements for some of its files.
func (r *run) compile(program string, changed map[string][]byte) (string, error) {
	replace := map[string]string{}
	for name, text := range changed {
		path := filepath.Join(r.tmp, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(r.dir, name)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.tmp, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags", "-s -w", "-overlay", path, "-o", program, "./"+
		r.pkg).CombinedOutput()
	return string(out), err
}

// tests runs the test program with one mutant (0: none, -1: none, and record the operators reached). Limits stop a
// mutant that grows or runs without end. Property tests use a fixed seed and write no failure files, so that verdicts
// are reproducible and one mutant does not affect the next.
func (r *run) tests(program string, id int, p pass) (string, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), forever)
	defer cancel()
	limits := fmt.Sprintf(`ulimit -d 4000000; ulimit -t %d; exec "$@"`, p.cpu)
	c := exec.CommandContext(ctx, "sh", append([]string{"-c", limits, "sh", program, "-test.failfast"}, p.args...)...)
	c.Dir = r.dir
	c.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(id), "RAPID_NOFAILFILE=true", "RAPID_SEED=1",
		"RAPID_SHRINKTIME=1ms")
	out, err := c.CombinedOutput()
	var cpu time.Duration
	if s := c.ProcessState; s != nil {
		cpu = s.UserTime() + s.SystemTime()
	}
	return string(out), cpu, err
}
