package kernel

import (
	"maps"
	"testing"

	"edgespan/netinst/netstate"
)

func TestCountersOfLinks(t *testing.T) {
	const head = "Inter-|   Receive                                                |  Transmit\n" +
		" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier " +
		"compressed\n"
	one := netstate.LinkCounters{Received: netstate.LinkTraffic{Bytes: 1, Packets: 2, Errors: 3, Drops: 4},
		Sent: netstate.LinkTraffic{Bytes: 9, Packets: 10, Errors: 11, Drops: 12}}
	const numbers = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
	for _, c := range []struct {
		says, text string
		want       map[string]netstate.LinkCounters
	}{
		{"no link", head, nil},
		{"links in columns", head + "  lo: " + numbers + "es1:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
			map[string]netstate.LinkCounters{"lo": one, "es1": one}},
		{"a hostile name", "a:b:7: " + numbers, map[string]netstate.LinkCounters{"a:b:7": one}},
		{"too few, too many, negative and none",
			"a: 1 2 3\nb: " + numbers[:len(numbers)-1] + " 17\nc: -1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\nd\n", nil},
	} {
		if got := parseLinkCounters(c.text); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.says, got, c.want)
		}
	}
}
