package nodecli

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"edgespan/config/httpapi/nodeapi"
)

func leaseCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, nodeapi.LeaseStatus{})
	now := time.Now()
	return []cell{
		{head: "APP", text: cmp.Or(s.Name, r.ID)},
		{head: "ID", text: r.ID},
		{head: "STATE", text: s.State},
		{head: "ADDRESS", text: known(s.Address)},
		{head: "EXPECTED", text: known(s.Expected)},
		{head: "MAC", text: s.MAC, wide: true},
		{head: "SERVER", text: known(s.Server), wide: true},
		{head: "NETWORK", text: s.Network, wide: true},
		{head: "SINCE", text: timeAgo(s.At, now)},
		{head: "ENDS IN", text: timeLeft(s.Until, now)},
		{head: "RENEWALS", text: number(s.Renewals), wide: true},
		{head: "REFUSALS", text: number(s.Refusals), wide: true},
	}
}

// timeAgo formats how long ago a time was, "" for none.
func timeAgo(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return span(at, now) + " ago"
}

// timeLeft formats how long it is until a time, "" for none and for one that is over.
func timeLeft(at, now time.Time) string {
	if at.IsZero() || !now.Before(at) {
		return ""
	}
	return span(now, at)
}

// eachAnswer returns a resource for each answer of others, the newest first.
func eachAnswer(items []nodeapi.Resource) (out []nodeapi.Resource) {
	for _, it := range items {
		s := nodeapi.As(it.Status, nodeapi.DNSStatus{})
		for _, a := range s.Recent {
			one := s
			one.Recent = []nodeapi.DNSAnswer{a}
			out = append(out, nodeapi.Resource{ID: it.ID, Kind: it.Kind, Status: one})
		}
	}
	slices.SortStableFunc(out, func(a, b nodeapi.Resource) int {
		return b.Status.(nodeapi.DNSStatus).Recent[0].At.Compare(a.Status.(nodeapi.DNSStatus).Recent[0].At)
	})
	return out
}

// answerCells are the cells of a resource with one answer.
func answerCells(r nodeapi.Resource) []cell {
	s, _ := r.Status.(nodeapi.DNSStatus)
	if len(s.Recent) == 0 {
		s.Recent = []nodeapi.DNSAnswer{{}}
	}
	a, now := s.Recent[0], time.Now()
	ttl := ""
	if len(a.Addresses) > 0 || a.TTLSeconds > 0 {
		ttl = (time.Duration(a.TTLSeconds) * time.Second).String()
	}
	return []cell{
		{head: "APP", text: cmp.Or(s.Name, r.ID)},
		{head: "ID", text: r.ID, wide: true},
		{head: "NAME", text: a.Name},
		{head: "TYPE", text: a.Type},
		{head: "RESULT", text: a.RCode},
		{head: "ADDRESSES", text: joined(a.Addresses)},
		{head: "TTL", text: ttl},
		{head: "AGE", text: strings.TrimSuffix(timeAgo(a.At, now), " ago")},
		{head: "COUNT", text: number(a.Count)},
		{head: "SERVER", text: known(a.Server), wide: true},
		{head: "BY", text: via(a), wide: true},
		{head: "NETWORK", text: s.Network, wide: true},
	}
}

// via says how an answer came.
func via(a nodeapi.DNSAnswer) string {
	words := []string{"udp"}
	if a.TCP {
		words[0] = "tcp"
	}
	if a.Truncated {
		words = append(words, "truncated")
	}
	if a.Partial {
		words = append(words, "partly read")
	}
	return strings.Join(words, ", ")
}
