package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestDownsamplingKeepsPeaks(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	r := rand.New(rand.NewPCG(1, 1))
	samples := make([]Sample, n)
	for i := range samples {
		samples[i] = Sample{time.Duration(i) * time.Millisecond, 50 + r.Float64()}
	}
	peaks := map[int]float64{0: 90, 123_456: 99, 500_001: 1, n - 1: 88} // none in the bucket of another
	for i, v := range peaks {
		samples[i].Value = v
	}
	samples[777_777].Value = math.NaN() // among a thousand others: no gap
	end := n * time.Millisecond
	got := downsample(samples, end)
	if len(got) > 2*buckets || len(got) < buckets {
		t.Errorf("%d points of %d buckets", len(got), buckets)
	}
	kept := map[Sample]bool{}
	for i, x := range got {
		kept[x] = true
		if i > 0 && x.At <= got[i-1].At || !finite(x.Value) {
			t.Fatalf("point %d is %v after %v", i, x, got[max(i-1, 0)])
		}
	}
	for i := range peaks {
		if !kept[samples[i]] {
			t.Errorf("the peak %v is lost", samples[i])
		}
	}
}

func TestALineHasAGapWhereNothingIsMeasured(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	samples := []Sample{{0, nan}, {1, 0}, {2, 100}, {3, nan}, {4, math.Inf(1)}, {6, 50}, {5, 100}, {7, nan}, {10, 25}}
	got := path(downsample(samples, 10), 10, axis{0, 100, 50})
	if want := "M100 200h0L200 0M500 0h0L600 100M1000 150h0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var many []Sample
	for i := range 100_000 {
		v := 1.0
		if i >= 40_000 && i < 60_000 {
			v = nan
		}
		many = append(many, Sample{time.Duration(i), v})
	}
	if got := strings.Count(path(downsample(many, 100_000), 100_000, axis{0, 1, 1}), "M"); got != 2 {
		t.Errorf("a long gap leaves %d lines, want 2", got)
	}
}

func TestAnAxisHoldsItsValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ low, high float64 }{
		{0, 0}, {1, 1}, {73, 74}, {0, 61}, {-5, 5}, {-100, -99}, {1e6, 3e6}, {0.001, 0.002}, {5e-324, 6e-320},
		{-math.MaxFloat64, math.MaxFloat64}, {1e15, 1e15 + 1}, {math.Inf(1), math.Inf(-1)},
	} {
		a := axisOf(c.low, c.high)
		ticks := a.ticks()
		if len(ticks) < 2 || len(ticks) > 8 {
			t.Errorf("%v to %v: %d ticks %v", c.low, c.high, len(ticks), ticks)
		}
		if c.low <= c.high && math.Abs(c.high) < 1e300 && (a.low > c.low || a.high < c.high-a.step*1e-9) {
			t.Errorf("%v to %v: the axis is %+v", c.low, c.high, a)
		}
		labels := map[string]bool{}
		for _, x := range ticks {
			if labels[x.Label] || x.Percent < 0 || x.Percent > 100 {
				t.Errorf("%v to %v: the ticks are %v", c.low, c.high, ticks)
			}
			labels[x.Label] = true
		}
	}
	if got := fmt.Sprint(axisOf(0, 61).ticks()); got != "[{100 0} {75 20} {50 40} {25 60} {0 80}]" {
		t.Errorf("0 to 61: %s", got)
	}
	if a := axisOf(73, 73.2); a.high-a.low < 7 {
		t.Errorf("a noise of 0.3 %% fills the plot: %+v", a)
	}
	for end, want := range map[time.Duration]string{
		5 * time.Minute: "0s 1m 2m 3m 4m 5m", 2 * time.Hour: "0s 30m 1h 1h30m 2h", 24 * time.Hour: "0s 4h 8h 12h 16h 20h 24h",
		time.Second: "0s 1s",
	} {
		var got []string
		for _, x := range timeTicks(end) {
			got = append(got, x.Label)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", end, got, want)
		}
	}
}

func TestMarksAtOnePlaceAreOneSpan(t *testing.T) {
	t.Parallel()
	var all []Mark
	for i := range 10_000 {
		all = append(all, Mark{At: time.Duration(i) * time.Second, Machine: "node1", Kind: "fault", Text: fmt.Sprint("fault ", i)})
	}
	got := spansOf(all, kindFault, 10_000*time.Second)
	if len(got) != 250 || !strings.HasSuffix(got[1].Title, "0:00:42 node1 fault 42; and 37 more") {
		t.Errorf("%d spans, the second is %+v", len(got), got[1])
	}
	long := []Mark{{At: 100, End: 600, Kind: kindFault}, {At: 500, End: 200, Kind: kindFault}, {At: 1000, Kind: kindFault}}
	want := "[{100 500 0:00:00  } {500 2 0:00:00  } {998 2 0:00:00  }]"
	if got := fmt.Sprint(spansOf(long, kindFault, 1000)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNumbersAreShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 7: "7", 1234567: "1,234,567", -1234: "-1,234", 999.94: "999.9", 61.25: "61.2", 3.14159: "3.14", 0.25: "0.250",
		0.0001: "0.0001", 1e13: "1e+13", -123: "-123",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0:00:00", 3723 * time.Second: "1:02:03", -time.Minute: "-0:01:00", 30 * time.Hour: "30:00:00",
	} {
		if got := clock(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

type colour [3]float64 // linear light

func colourOf(t *testing.T, hex string) (c colour) {
	t.Helper()
	for i := range c {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c[i] = math.Pow((float64(n)/255+0.055)/1.055, 2.4)
	}
	return c
}

func (c colour) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// as is what somebody sees (Machado and others, 2009, in full strength).
func (c colour) as(m [9]float64) (out colour) {
	for i := range out {
		out[i] = max(0, m[3*i]*c[0]+m[3*i+1]*c[1]+m[3*i+2]*c[2])
	}
	return out
}

// oklab is a place where distances are as they look.
func (c colour) oklab() (out [3]float64) {
	l := math.Cbrt(0.4122214708*c[0] + 0.5363325363*c[1] + 0.0514459929*c[2])
	m := math.Cbrt(0.2119034982*c[0] + 0.6806995451*c[1] + 0.1073969566*c[2])
	s := math.Cbrt(0.0883024619*c[0] + 0.2817188376*c[1] + 0.6299787005*c[2])
	return [3]float64{0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s, 0.0259040371*l + 0.7827717662*m - 0.8086757660*s}
}

var eyes = map[string][9]float64{
	"with all cones": {1, 0, 0, 0, 1, 0, 0, 0, 1},
	"protanopic":     {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
	"deuteranopic":   {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
	"tritanopic":     {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900},
}

// The colours of two lines differ for any eye, and each stands out from the paper, in light and dark.
func TestColoursOfLinesDifferForAnyEye(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("page.html")
	if err != nil {
		t.Fatal(err)
	}
	papers := regexp.MustCompile(`--paper: #(\w{6})`).FindAllStringSubmatch(string(text), -1)
	lines := regexp.MustCompile(`--c\d: #(\w{6})`).FindAllStringSubmatch(string(text), -1)
	if len(papers) != 2 || len(lines) != 2*colours {
		t.Fatalf("%d papers and %d colours of lines", len(papers), len(lines))
	}
	for theme, paper := range papers {
		back := colourOf(t, paper[1])
		all := lines[theme*colours : (theme+1)*colours]
		for i, a := range all {
			light, dark := colourOf(t, a[1]).luminance()+0.05, back.luminance()+0.05
			if ratio := max(light, dark) / min(light, dark); ratio < 3 {
				t.Errorf("#%s on #%s: contrast %.1f, want 3", a[1], paper[1], ratio)
			}
			for _, b := range all[:i] {
				for eye, m := range eyes {
					p, q := colourOf(t, a[1]).as(m).oklab(), colourOf(t, b[1]).as(m).oklab()
					if d := math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2]); d < 0.1 {
						t.Errorf("#%s and #%s, %s: distance %.3f, want 0.1", a[1], b[1], eye, d)
					}
				}
			}
		}
	}
}
