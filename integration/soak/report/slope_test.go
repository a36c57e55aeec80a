package report

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// every has a sample every so often for a time.
func every(step, length time.Duration, value func(at time.Duration) float64) Series {
	s := Series{Machine: "node1", Name: "resident memory", Unit: "MB", Flat: true}
	for at := time.Duration(0); at < length; at += step {
		s.Samples = append(s.Samples, Sample{at, value(at)})
	}
	return s
}

func slopeOf(t *testing.T, s Series, from time.Duration) Slope {
	t.Helper()
	slope, ok := SlopeOf(s, from)
	if !ok {
		t.Fatalf("the slope of %d samples is not known", len(s.Samples))
	}
	return slope
}

func near(got, want, within float64) bool { return math.Abs(got-want) <= within }

func TestTheSlopeOfALineIsItsSlope(t *testing.T) {
	t.Parallel()
	line := every(5*time.Second, 2*time.Hour, func(at time.Duration) float64 { return 100 + 5*at.Hours() })
	s := slopeOf(t, line, time.Hour)
	if want := 100 * 5 / 107.5; !near(s.PerHour, want, 0.01) || s.Error > 1e-9 || s.Samples != 720 {
		t.Errorf("got %+v, want %f an hour of 720 samples", s, want)
	}
	if !s.Grows(4) || s.Grows(5) {
		t.Errorf("%+v grows by more than 4 %% an hour, and not by more than 5 %%", s)
	}
	falling := every(5*time.Second, time.Hour, func(at time.Duration) float64 { return 100 - 20*at.Hours() })
	if s := slopeOf(t, falling, 0); !near(s.PerHour, -100*20/90.0, 0.1) || s.Grows(0) {
		t.Errorf("falling: got %+v", s)
	}
	below := every(5*time.Second, time.Hour, func(at time.Duration) float64 { return -100 + 20*at.Hours() })
	if s := slopeOf(t, below, 0); !near(s.PerHour, 100*20/90.0, 0.1) {
		t.Errorf("rising below zero: got %+v", s)
	}
	level := every(5*time.Second, time.Hour, func(time.Duration) float64 { return 0.1 })
	if s := slopeOf(t, level, 0); s.PerHour != 0 || s.Error != 0 || s.Grows(0) {
		t.Errorf("a constant: got %+v", s)
	}
}

// By hand: y = 1 2 1 2 1 2 1 2 at x = 0 … 7 times 10 s. The slope is 2/42 for each step, the mean 1.5, the sum of
// squared residuals 2 - 4/42; neighbours differ, so that all eight count. Student's t at 6 degrees of freedom is 3.47.
func TestTheErrorOfASlopeIsAsByHand(t *testing.T) {
	t.Parallel()
	s := slopeOf(t, every(10*time.Second, 80*time.Second, func(at time.Duration) float64 {
		return 1 + float64(at/(10*time.Second)%2)
	}), 0)
	toPercent := 360 / 1.5 * 100.0
	if want := 2.0 / 42 * toPercent; !near(s.PerHour, want, 1e-6) {
		t.Errorf("slope %f, want %f", s.PerHour, want)
	}
	if want := (2.5 + 4.53/6 + 7.77/36) / 2.5 * math.Sqrt((2-4.0/42)/6/42) * toPercent; !near(s.Error, want, 1e-6) {
		t.Errorf("error %f, want %f", s.Error, want)
	}
}

func TestASlopeNeedsSamples(t *testing.T) {
	t.Parallel()
	one := func(time.Duration) float64 { return 1 }
	for name, c := range map[string]struct {
		series Series
		from   time.Duration
		known  bool
	}{
		"none":                        {every(time.Second, 0, one), 0, false},
		"seven":                       {every(time.Minute, 7*time.Minute, one), 0, false},
		"eight":                       {every(time.Minute, 8*time.Minute, one), 0, true},
		"eight, one of them before":   {every(time.Minute, 8*time.Minute, one), time.Second, false},
		"a span of 59 s":              {every(time.Second, time.Minute, one), 0, false},
		"a span of 60 s":              {every(time.Second, time.Minute+1, one), 0, true},
		"mean 0":                      {every(time.Second, time.Hour, func(time.Duration) float64 { return 0 }), 0, false},
		"as much below 0 as above it": {every(time.Minute, time.Hour, func(at time.Duration) float64 { return float64(2*(at/time.Minute)) - 59 }), 0, false},
		"nothing but NaN":             {every(time.Minute, time.Hour, func(time.Duration) float64 { return math.NaN() }), 0, false},
		"the largest numbers":         {every(time.Minute, time.Hour, func(time.Duration) float64 { return math.MaxFloat64 }), 0, true},
		"the smallest numbers":        {every(time.Minute, time.Hour, func(time.Duration) float64 { return 5e-324 }), 0, true},
		"all at one time":             {Series{Samples: make([]Sample, 100)}, 0, false},
	} {
		s, known := SlopeOf(c.series, c.from)
		if known != c.known {
			t.Errorf("%s: known %v, want %v", name, known, c.known)
		}
		if !finite(s.PerHour) || !finite(s.Error) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestASlopeLeavesOutWhatWasNotMeasured(t *testing.T) {
	t.Parallel()
	line := func(at time.Duration) float64 { return 100 + 5*at.Hours() }
	want := slopeOf(t, every(time.Minute, 2*time.Hour, line), 0)
	s := every(time.Minute, 2*time.Hour, line)
	for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		s.Samples = append(s.Samples, Sample{time.Duration(i) * time.Hour, v})
	}
	s.Samples[0], s.Samples[40] = s.Samples[40], s.Samples[0] // and takes samples in any order
	if got := slopeOf(t, s, 0); !near(got.PerHour, want.PerHour, 1e-9) || got.Samples != want.Samples {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !math.IsNaN(s.Samples[120].Value) || s.Samples[40].At != 0 {
		t.Error("the caller's samples were changed")
	}
}

// noises are what measured values do around their level, in units of one standard deviation.
var noises = map[string]func(*rand.Rand) func() float64{
	"white":                                  func(r *rand.Rand) func() float64 { return r.NormFloat64 },
	"of neighbours that resemble each other": func(r *rand.Rand) func() float64 { return autoregressive(r, 0.9) },
	"of long waves":                          func(r *rand.Rand) func() float64 { return autoregressive(r, 0.98) },
	"of a collector's teeth": func(r *rand.Rand) func() float64 {
		at, period := r.IntN(40), 20+r.IntN(40)
		return func() float64 { at++; return 3.4*float64(at%period)/float64(period) - 1.7 + 0.2*r.NormFloat64() }
	},
	"of waves below white": func(r *rand.Rand) func() float64 {
		wave := autoregressive(r, 0.97)
		return func() float64 { return 0.7*wave() + 0.7*r.NormFloat64() }
	},
}

func autoregressive(r *rand.Rand, rho float64) func() float64 {
	v := r.NormFloat64()
	return func() float64 { v = rho*v + math.Sqrt(1-rho*rho)*r.NormFloat64(); return v }
}

// countGrowing is in how many of 1,000 draws a series with that growth and noise grows above limit.
func countGrowing(name string, length time.Duration, perHour, noise, limit float64) int {
	n := 0
	for seed := range uint64(1000) {
		next := noises[name](rand.New(rand.NewPCG(seed, 1)))
		s := every(10*time.Second, length, func(at time.Duration) float64 { return 100 + perHour*at.Hours() + noise*next() })
		if slope, ok := SlopeOf(s, 0); ok && slope.Grows(limit) {
			n++
		}
	}
	return n
}

// An hour holds few waves as long as those here, ten minutes hold one: what is left of errors is bounded, too.
func TestAFlatNoisySeriesDoesNotGrow(t *testing.T) {
	t.Parallel()
	for name := range noises {
		if n := countGrowing(name, time.Hour, 0, 2, MaxGrowth); n > 25 {
			t.Errorf("noise %s: grows in %d of 1,000", name, n)
		}
		if n := countGrowing(name, time.Hour, 0, 2, 0); n > 60 {
			t.Errorf("noise %s: grows above 0 in %d of 1,000", name, n)
		}
	}
	for _, name := range []string{"white", "of a collector's teeth"} {
		if n := countGrowing(name, 10*time.Minute, 0, 2, 0); n > 10 {
			t.Errorf("noise %s, 10 minutes: grows above 0 in %d of 1,000", name, n)
		}
	}
}

func TestASeriesThatGrowsIsFound(t *testing.T) {
	t.Parallel()
	for name := range noises {
		want := 980
		if name == "of long waves" { // which look like growth
			want = 500
		}
		if n := countGrowing(name, time.Hour, 5, 0.5, MaxGrowth); n < want {
			t.Errorf("noise %s: 5 %% an hour is found in %d of 1,000, want %d", name, n, want)
		}
	}
}
