package netinst

import "testing"

func TestPortsMeant(t *testing.T) {
	ports := []PortConfig{
		{Label: "wan", Uplink: true, Generation: 1},
		{Label: "lte", Uplink: true, Cost: 10, Labels: []string{"mobile"}, Generation: 3},
		{Label: "lab", Generation: 2},
	}
	for _, c := range []struct {
		port, route, want string
	}{
		{"wan", "", "wan@1"},
		{"mobile", "", "lte@3"},
		{"uplink", "", "lte@3 wan@1"},
		{"freeuplink", "", "wan@1"},
		{"all", "", "lab@2 lte@3 wan@1"},
		{"wan", "lab", "lab@2 wan@1"},
		{"", "", ""},
		{"", "lab", "lab@2"},
		{"none", "", ""},
	} {
		conf := NetworkInstanceConfig{Port: c.port, Routes: []StaticRoute{{Port: c.route}}}
		if got := PortsMeant(conf, ports); got != c.want {
			t.Errorf("port %q, route by %q: %q, want %q", c.port, c.route, got, c.want)
		}
	}
}
