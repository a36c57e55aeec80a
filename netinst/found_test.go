package netinst

import (
	"fmt"
	"testing"

	"edgespan/netinst/netstate"
)

// A mark that is not ours, or that no release wrote, yields nothing.
func TestWhatIsFoundIsRead(t *testing.T) {
	key := appA.String() + "#0"
	for alias, want := range map[string]int{
		"edgespan ni " + netID.String() + " adapter " + key + " netns=web peer=eth0 mac=02:00:00:00:00:01 mtu=1500": 3,
		"edgespan ni " + netID.String() + " adapter " + key + " v=2 mac=02:00:00:00:00:01":                          3,
		"edgespan ni " + netID.String():                                           0,
		"edgespan ni " + netID.String() + " adapter":                              0,
		"edgespan ni " + netID.String() + " adapter x":                            0,
		"somebody's adapter " + key:                                               0,
		"edgespan ni x adapter " + key + " link=es1a70000":                        0,
		fmt.Sprint("edgespan ni x adapter ", key, " link=es1a", maxAdapterNums):   maxAdapterNums,
		fmt.Sprint("edgespan ni x adapter ", key, " link=es1a", maxAdapterNums+1): 0,
		"edgespan ni x adapter " + key + " link=es1a1":                            1,
		"edgespan ni x adapter " + key + " link=es1a0":                            0,
		"edgespan ni x adapter " + key + " link=es1a":                             0,
		"edgespan ni x adapter " + key + " link=es1a3x":                           0,
		"edgespan ni x adapter " + key + " link=3":                                0,
		"edgespan ni x adapter " + key + " link=es2a4":                            0,
	} {
		s := netstate.State{}
		s.Add(netstate.Link{Name: "es1a3", Type: netstate.Veth, Alias: alias})
		if got := FoundLeases(1, s)[AdapterKey{AppUUID: appA}].Number; got != want {
			t.Errorf("%s: number %d, want %d", alias, got, want)
		}
	}
	for _, bad := range []string{"", "x", "a,b", "02:00:00:00:00:01,id:*,", "02:00:00:00:00:01,id:*,x"} {
		s := netstate.State{}
		s.Add(netstate.File{Path: RunFolder(1) + "/conf/dhcp-hosts/" + appA.String() + "-0", Content: bad})
		if got := FoundLeases(1, s); len(got) > 0 {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// The MAC in dnsmasq's files is newer than the one in the link's mark; where there is no such file, the mark alone
// counts.
func TestTheMACThatIsFound(t *testing.T) {
	link := netstate.Link{Name: "es1a3", Type: netstate.Veth, Alias: "edgespan ni x adapter " + appA.String() +
		"#0 mac=02:00:00:00:00:01"}
	file := netstate.File{Path: RunFolder(1) + "/conf/dhcp-hosts/" + appA.String() + "-0",
		Content: "02:00:00:00:00:02,id:*,10.1.0.7\n"}
	for range 20 { // in either order
		for _, c := range []struct {
			have netstate.State
			want Lease
		}{
			{netstate.NewState(link), Lease{Number: 3, MAC: "02:00:00:00:00:01"}},
			{netstate.NewState(file), Lease{IP: ip("10.1.0.7"), MAC: "02:00:00:00:00:02"}},
			{netstate.NewState(link, file), Lease{Number: 3, IP: ip("10.1.0.7"), MAC: "02:00:00:00:00:02"}},
		} {
			if got := FoundLeases(1, c.have)[AdapterKey{AppUUID: appA}]; got != c.want {
				t.Fatalf("found %+v, want %+v", got, c.want)
			}
		}
	}
	file.Path = RunFolder(2) + "/conf/dhcp-hosts/" + appA.String() + "-0"
	if got := FoundLeases(1, netstate.NewState(file)); len(got) > 0 {
		t.Errorf("of another network: %+v", got)
	}
}
