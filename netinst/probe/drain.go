package probe

import "time"

// Drain keeps a port free of networks that have another one. Its time is counted by the machine's uptime, which no one
// sets. How long a machine was off only the wall clock knows: after a reboot it counts, but no longer than For.
type Drain struct {
	Until   time.Time     `json:"until"`             // zero: until it is undrained
	By      string        `json:"by,omitempty"`      // who drained it, for people
	For     time.Duration `json:"for,omitempty"`     // from the begin of the drain to its end
	Machine string        `json:"machine,omitempty"` // boot ID of the machine at the begin
	End     time.Duration `json:"end,omitempty"`     // uptime of that boot at the end
}

// Clock is a moment by the clocks of a machine.
type Clock struct {
	Wall    time.Time
	Machine string        // boot ID
	Uptime  time.Duration // of this boot
}

// maxDrainDrift is how far the wall clock may move before the end of a drain is dated anew.
const maxDrainDrift = time.Second

// NewDrain returns a drain that begins now; with a duration of 0 it has no end.
func NewDrain(by string, long time.Duration, now Clock) Drain {
	d := Drain{By: by}
	if long > 0 {
		d.Until, d.For, d.Machine, d.End = now.Wall.Add(long), long, now.Machine, now.Uptime+long
	}
	return d
}

// At returns the drain with its end by the wall clock as that is set now, and reports whether it is over.
func (d Drain) At(now Clock) (dated Drain, over bool) {
	if d.Until.IsZero() {
		return d, false
	}
	left := d.Until.Round(0).Sub(now.Wall.Round(0))
	switch {
	case d.Machine != "" && d.Machine == now.Machine:
		was := left
		left = d.End - now.Uptime
		if drift := (was - left).Abs(); drift <= maxDrainDrift && d.Until != d.Until.Round(0) {
			break // Until is read by the monotonic clock of this process
		}
		d.Until = now.Wall.Add(left)
	case d.For > 0 && left > d.For-now.Uptime: // the machine booted after the begin
		left = d.For - now.Uptime
		d.Until = now.Wall.Add(left)
	}
	return d, left <= 0
}
