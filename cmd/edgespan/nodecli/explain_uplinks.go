package nodecli

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// writeUplinks prints which port each selector of a network has since when and why, and how each port was judged.
func writeUplinks(b *strings.Builder, choices []nodeapi.UplinkChoice, now time.Time) {
	for _, c := range choices {
		var by []string
		if c.Own {
			by = append(by, "port")
		}
		for _, r := range c.Routes {
			by = append(by, "routes."+r+".port")
		}
		if len(by) == 0 {
			by = append(by, "a former config")
		}
		fmt.Fprintf(b, "  %s = %s: uses %s for %s: %s\n", term.Printable(strings.Join(by, ", ")), c.Selector+ofFamily(c.IPv6),
			cmp.Or(c.Port, "no port"), span(c.Since, now), term.Printable(c.Why))
		rows := [][]string{}
		for _, s := range c.Ports {
			rows = append(rows, scoreRow(s, now))
		}
		writeRows(b, "    ", rows)
		if len(c.Shares) > 0 {
			family := ""
			if c.IPv6 {
				family = " of IPv6"
			}
			fmt.Fprintf(b, "  share = true: new flows%s are spread over %s\n", family, strings.Join(c.Shares, ", "))
		}
		if c.AllFlows && c.Own {
			b.WriteString("  ipv6.nat = false: all flows of IPv6 use this port, whatever share and flows are\n")
		}
	}
	if len(choices) > 0 && flowPolicies[choices[0].Flows] != "" {
		fmt.Fprintf(b, "  flows = %s: %s\n", choices[0].Flows, flowPolicies[choices[0].Flows])
	}
}

// ofFamily follows the name of what is about one family, if that is IPv6.
func ofFamily(ipv6 bool) string {
	if ipv6 {
		return ", IPv6"
	}
	return ""
}

// flowPolicies say what happens to known flows on a port that a network leaves.
var flowPolicies = map[string]string{
	"keep":  "known flows stay on a port that is left",
	"drain": "known flows stay on a port that is left while it works",
}

func scoreRow(s nodeapi.PortScore, now time.Time) []string {
	return []string{s.Port, s.Class + " for " + span(s.Since, now), fmt.Sprint("cost ", s.Cost),
		measured(s.Loss, s.LatencyMs), shortfall(s)}
}

// measured formats loss and latency, "" if nothing was measured.
func measured(loss int, latencyMs float64) string {
	if loss == 0 && latencyMs == 0 {
		return ""
	}
	text := fmt.Sprintf("loss %d %%", loss)
	if latencyMs > 0 {
		text += ", " + latency(latencyMs)
	}
	return text
}

func latency(ms float64) string { return fmt.Sprintf("%v ms", ms) }

// shortfall says why a port is in no better class, and for how long it is held.
func shortfall(s nodeapi.PortScore) string {
	if s.HeldUntil.IsZero() {
		return term.Printable(s.Why)
	}
	return term.Printable(s.Why) + ", held until " + clock(s.HeldUntil)
}

// span formats how long something lasts: from an hour on without seconds.
func span(since, now time.Time) string {
	d := now.Sub(since).Round(time.Second)
	if d < time.Hour {
		return d.String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// writePort prints the probes and the drain of a port, and how each network that may use it decided.
func writePort(b *strings.Builder, p nodeapi.PortDetail, now time.Time) {
	if p.Drained {
		until := "it is undrained"
		if !p.DrainedUntil.IsZero() {
			until = clock(p.DrainedUntil)
		}
		by := ""
		if p.DrainedBy != "" {
			by = ", by " + p.DrainedBy
		}
		fmt.Fprintf(b, "  drained until %s%s\n", until, term.Printable(by))
	}
	if p.ProbeBytesPerDay > 0 {
		fmt.Fprintf(b, "  probes may send and receive %d bytes a day, now %d\n", p.ProbeBytesPerDay, max(p.ProbeBytesLeft, 0))
	}
	rows := [][]string{}
	for _, x := range p.Probes {
		rows = append(rows, []string{"probe " + x.Method, term.Printable(x.Target) + ofFamily(x.IPv6),
			"every " + (time.Duration(x.IntervalMs) * time.Millisecond).String(), probeState(x),
			measured(x.Loss, x.LatencyMs), lastFailure(x, now)})
	}
	writeRows(b, "  ", rows)
	rows = nil
	for _, u := range p.Networks {
		uses := "uses it for " + span(u.Since, now)
		if !u.Uses {
			uses = "uses " + cmp.Or(u.Instead, "no port") + " for " + span(u.Since, now)
		}
		failed := ""
		if u.Failed > 0 {
			failed = fmt.Sprintf("failed %d times, last %s", u.Failed, span(u.FailedAt, now)+" ago")
		}
		network := term.Printable(u.NetworkName.String()) + " (" + u.Selector + ofFamily(u.IPv6) + ")"
		rows = append(rows, []string{"network " + network, uses,
			u.Score.Class + " for " + span(u.Score.Since, now), measured(u.Score.Loss, u.Score.LatencyMs),
			shortfall(u.Score), failed})
	}
	writeRows(b, "  ", rows)
}

func probeState(x nodeapi.ProbeState) string {
	switch x.State {
	case nodeapi.ProbeFails:
		return fmt.Sprintf("fails, %d in a row", x.Failures)
	case nodeapi.ProbeUnknown:
		return "not asked yet"
	case nodeapi.ProbeNone:
		return "the interface has no such probe"
	}
	return x.State
}

func lastFailure(x nodeapi.ProbeState, now time.Time) string {
	if x.LastError == "" {
		return ""
	}
	return "last error " + span(x.FailedAt, now) + " ago" + ": " + term.Printable(x.LastError)
}

// writeRows prints rows in columns.
func writeRows(b *strings.Builder, indent string, rows [][]string) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = term.Dash(row[i])
		}
		fmt.Fprintln(w, indent+strings.Join(row, "\t"))
	}
	_ = w.Flush() // to memory
	for line := range strings.Lines(text.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}
