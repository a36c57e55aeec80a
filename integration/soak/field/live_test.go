package field

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/integration/soak/model"
	"edgespan/integration/soak/report"
)

// finished is what the judgement of a whole run finds, and its summary.
func finished(t *testing.T, length time.Duration, series ...*report.Series) (violations []report.Violation, text string) {
	t.Helper()
	r := &run{Options: Options{Dir: t.TempDir(), Release: "v0.8"}, referee: testReferee(), series: map[string]*report.Series{},
		ticks: map[int]ticked{1: {}}}
	r.report.Length = length
	for _, s := range series {
		r.series[s.Name] = s
	}
	violated, err := r.finish()
	summary, readErr := os.ReadFile(filepath.Join(r.Dir, "report.txt"))
	if err != nil || readErr != nil || violated != (len(r.referee.violations) > 0) {
		t.Fatalf("%v, %v, %v: %+v", violated, err, readErr, r.referee.violations)
	}
	return r.referee.violations, string(summary)
}

func seriesOf(length time.Duration, value func(time.Duration) float64) *report.Series {
	s := &report.Series{Machine: "node1", Name: "files", Flat: true}
	for at := time.Duration(0); at < length; at += 10 * time.Second {
		s.Samples = append(s.Samples, report.Sample{At: at, Value: value(at)})
	}
	return s
}

// What the summary says to grow is a violation, and so is what was not measured.
func TestTheJudgementOfAWholeRun(t *testing.T) {
	grows := func(at time.Duration) float64 { return 100 + 20*at.Hours() }
	flat := func(time.Duration) float64 { return 100 }
	zero := func(time.Duration) float64 { return 0 }
	for _, c := range []struct {
		name   string
		length time.Duration
		series *report.Series
		want   string // in the one violation; "" for none
	}{
		{"flat", 2 * time.Hour, seriesOf(2*time.Hour, flat), ""},
		{"always 0", 2 * time.Hour, seriesOf(2*time.Hour, zero), ""},
		{"growing", 2 * time.Hour, seriesOf(2*time.Hour, grows), "files: +"},
		// The axis of the report has the time to set up, too.
		{"growing in half an hour", 30 * time.Minute, seriesOf(45*time.Minute, grows), "files: +"},
		{"growing in a few minutes", 5 * time.Minute, seriesOf(15*time.Minute, grows), ""},
		{"never measured", 2 * time.Hour, seriesOf(0, flat), "files of node1"},
		{"not measured for long", 2 * time.Hour, seriesOf(90*time.Minute, flat), "files of node1"},
	} {
		got, text := finished(t, c.length, c.series)
		if n := len(got); n > 1 || (n > 0) != (c.want != "") || n > 0 && !strings.Contains(got[0].Text, c.want) {
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
		if !strings.Contains(text, "release     v0.8") {
			t.Errorf("%s: the summary lacks the release:\n%s", c.name, text)
		}
	}
	r := &run{Options: Options{Dir: t.TempDir()}, referee: testReferee()}
	r.report.Length = time.Hour
	if violated, err := r.finish(); !violated || err != nil {
		t.Errorf("an hour in which nothing was measured: %v, %v", violated, err)
	}
}

// The report is made of what was measured, so that measuring has ended before.
func TestMeasuringEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		e := model.Endpoint{Node: 1, App: 1}
		a := &appLine{endpoint: e, order: func(string) {
			busy.Store(true)
			time.Sleep(3 * time.Second)
			busy.Store(false)
		}}
		r := &run{apps: map[model.Endpoint]*appLine{e: a}}
		end := r.beginSampling(context.Background())
		time.Sleep(time.Second)
		if !busy.Load() {
			t.Fatal("nothing is asked")
		}
		end()
		if busy.Load() {
			t.Error("it goes on")
		}
	})
}
