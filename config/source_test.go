package config

import "testing"

func TestSourceOfAnAddress(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1":               "192.0.2.1",
		"192.0.2.1:443":           "192.0.2.1",
		"[::ffff:192.0.2.1]:443":  "192.0.2.1",
		"::ffff:192.0.2.1":        "192.0.2.1",
		"2001:db8:1:2:3::4":       "2001:db8:1:2::/64",
		"[2001:db8:1:2:9::9]:443": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:443":      "fe80::/64",
		"fe80::2%eth1":            "fe80::/64",
		"@":                       "@",
		"":                        "",
		"example.org:443":         "example.org:443",
	} {
		if got := Source(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
