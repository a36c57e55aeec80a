package report

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Slope is a least-squares slope with its standard error, in percent of the mean an hour.
type Slope struct {
	PerHour, Error float64
	Samples        int
}

// A slope is known from so many samples over such a span.
const (
	minSlopeSamples = 8
	minSlopeSpan    = time.Minute
)

// sureErrors is how many standard errors growth must be above its limit. Independent samples of a flat series then
// grow above 0 six times in a thousand.
const sureErrors = 2.5

// maxSlopePoints bounds the work: the autocorrelation of n points takes up to n² steps.
const maxSlopePoints = 2000

// Grows says whether the growth is surely above limit percent an hour.
func (s Slope) Grows(limit float64) bool { return s.PerHour-sureErrors*s.Error > limit }

// SlopeOf computes the slope of the samples from a time on. It is not known from fewer than 8 samples, over less than a
// minute, or if the mean is 0.
//
// Neighbours among samples of memory or files resemble each other, so n of them say less than n independent ones would;
// the error counts the effective number, n / (1 + 2 Σ r), where r is the autocorrelation of the residuals at each lag
// up to the first that is not positive. Where few count, the error is wider, so that 2.5 of it are as sure as of many.
func SlopeOf(s Series, from time.Duration) (Slope, bool) {
	samples := slices.DeleteFunc(slices.Clone(s.Samples), func(x Sample) bool { return x.At < from || !finite(x.Value) })
	slices.SortStableFunc(samples, func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
	n := len(samples)
	if n < minSlopeSamples || samples[n-1].At-samples[0].At < minSlopeSpan {
		return Slope{}, false
	}
	hours, values := slopePoints(samples)
	meanHour, mean := average(hours), average(values)
	if math.Abs(mean) < 1e-12 { // of the largest value, which is 1
		return Slope{}, false
	}
	var sxx, sxy float64
	for i := range hours {
		dx := hours[i] - meanHour
		sxx += dx * dx
		sxy += dx * (values[i] - mean)
	}
	slope := sxy / sxx
	residuals := make([]float64, len(hours))
	for i := range hours {
		residuals[i] = values[i] - mean - slope*(hours[i]-meanHour)
	}
	percent := 100 / math.Abs(mean)
	return Slope{PerHour: slope * percent, Error: standardError(residuals, sxx) * percent, Samples: n}, true
}

// slopePoints are the times in hours and the values as parts of the largest one, averaged over groups of neighbours if
// there are many.
func slopePoints(samples []Sample) (hours, values []float64) {
	largest := 0.0
	for _, x := range samples {
		largest = max(largest, math.Abs(x.Value))
	}
	if largest == 0 {
		largest = 1
	}
	size := (len(samples) + maxSlopePoints - 1) / maxSlopePoints
	for group := range slices.Chunk(samples, size) {
		var hour, value float64
		for _, x := range group {
			hour += x.At.Hours()
			value += x.Value / largest
		}
		hours = append(hours, hour/float64(len(group)))
		values = append(values, value/float64(len(group)))
	}
	return hours, values
}

// standardError is that of the slope that left these residuals.
func standardError(residuals []float64, sxx float64) float64 {
	var squares float64
	for _, r := range residuals {
		squares += r * r
	}
	if squares == 0 {
		return 0
	}
	n := len(residuals)
	alike := 1.0
	for lag := 1; lag < n; lag++ {
		var products float64
		for i := range n - lag {
			products += residuals[i] * residuals[i+lag]
		}
		if products <= 0 {
			break
		}
		alike += 2 * products / squares
	}
	// A line that was fitted to waves has taken part of them away: the residuals look less alike than the values are.
	alike = 1 + (alike-1)/max(1-4*alike/float64(n), 0.1)
	freedom := max(float64(n)/alike-2, 1)
	// Student's t of few degrees of freedom has wider tails than the normal distribution (Cornish and Fisher, z = 2.5).
	wider := (sureErrors + 4.53/freedom + 7.77/freedom/freedom) / sureErrors
	return wider * math.Sqrt(squares/freedom/sxx)
}

func average(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
