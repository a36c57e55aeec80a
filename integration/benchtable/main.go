// Command benchtable runs the benchmarks of the tree and prints one table: what each measured, beside its bar.
//
// plan.txt lists what runs and the bars. benchtable fails if a benchmark fails, if a bar has no result, or if one is
// missed by more than the noise that was measured. It never measures anything itself.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

//go:embed plan.txt
var planText string

var (
	only   = flag.String("only", "", "run only the steps whose line in plan.txt matches this regular expression")
	budget = flag.Duration("budget", 0, "how long it may take, 0 for 20m, or 1h with -all; what runs then is stopped")
	read   = flag.String("read", "", "run nothing: compare with all bars the output of go test -bench in this file")
	full   = flag.Bool("v", false, "show the output of each step")
	all    = flag.Bool("all", false, "run also what is long or has no bar")
)

func main() {
	flag.Parse()
	if *budget == 0 {
		*budget = 20 * time.Minute
		if *all {
			*budget = time.Hour
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	missed, err := run(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(2)
	}
	if missed > 0 {
		fmt.Fprintf(os.Stderr, "benchtable: %d of the rows failed or missed their bar by more than the noise\n", missed)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (missed int, err error) {
	steps, err := parsePlan(planText)
	if err != nil {
		return 0, err
	}
	if *read != "" {
		text, err := os.ReadFile(*read)
		if err != nil {
			return 0, err
		}
		var bars []bar
		for _, s := range steps {
			bars = append(bars, s.bars...)
		}
		return printTable(out, present(compareAll(parseResults(string(text)), bars))), nil
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return 0, fmt.Errorf("-only: %w", err)
	}
	var rows []row
	began := time.Now()
	fmt.Fprintf(out, "%s: kernel, load, processors:%s\n", began.UTC().Format(time.DateTime), machine())
	for _, s := range steps {
		if !match.MatchString(s.line) || s.all && *only == "" && !*all {
			continue
		}
		rows = append(rows, s.run(ctx, out, began.Add(*budget))...)
	}
	fmt.Fprintf(out, "all after %v, load%s\n\n", time.Since(began).Round(time.Second), load())
	return printTable(out, rows), nil
}

// compileTime is how long a step may take in addition to its limit, to be compiled and to end.
const compileTime = 5 * time.Minute

// run runs a step and returns its rows.
func (s step) run(ctx context.Context, out io.Writer, end time.Time) []row {
	if s.root && os.Geteuid() != 0 {
		fmt.Fprintf(out, "%s\n\tskipped: needs root for network namespaces\n", s.line)
		return s.without("skipped: needs root")
	}
	if time.Now().After(end) {
		fmt.Fprintf(out, "%s\n\tnot run: %v are over\n", s.line, *budget)
		return s.without(failedVerdict + ": not run, no time left")
	}
	ctx, cancel := context.WithDeadline(ctx, earlier(end, time.Now().Add(s.limit+compileTime)))
	defer cancel()
	began := time.Now()
	said, err := s.command(ctx)
	fmt.Fprintf(out, "go test %s\n\t%v, load%s\n", strings.Join(s.args, " "), time.Since(began).Round(time.Second), load())
	if *full {
		fmt.Fprintf(out, "%s\n", said)
	} else if err != nil {
		fmt.Fprintf(out, "%s\n", trouble(said))
	}
	results := parseResults(said)
	for _, r := range results {
		if r.skipped != "" {
			fmt.Fprintf(out, "\t%s: skipped: %s\n", r.name, r.skipped)
		}
	}
	rows := compareAll(results, s.bars)
	if err != nil {
		fmt.Fprintf(out, "\tfailed: %v\n", err)
		rows = append(rows, row{name: strings.Join(s.args, " "), verdict: failedVerdict + ": " + err.Error()})
	}
	return rows
}

// trouble is what explains a failure: the last lines that are no result and not of a package that passed.
func trouble(said string) string {
	const maxLines = 60
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimRight(line, "\n")
		if !resultLine.MatchString(line) && !passedLine.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
}

var passedLine = regexp.MustCompile(`^(ok\s|PASS$|goos: |goarch: |cpu: |\?\s)`)

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// command runs go test and returns its output. Its own -timeout does not hold for benchmarks.
func (s step) command(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run", "^$"}, s.args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go test passes no signal on to the test program
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	if e := ctx.Err(); e != nil && err != nil {
		err = errors.Join(fmt.Errorf("stopped: %w", e), err)
	}
	return said.String(), err
}

// machine is what numbers depend on.
func machine() string {
	version, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	online, _ := os.ReadFile("/sys/devices/system/cpu/online")
	return fmt.Sprintf(" %s,%s, %s", strings.TrimSpace(string(version)), load(), strings.TrimSpace(string(online)))
}

// load is the machine's load average of the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return " " + first
}
